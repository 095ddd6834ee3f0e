"""What every test has: no network but loopback, a home of its own, no options left over in the environment."""

import os
import sys
from pathlib import Path

import pytest
from hypothesis import settings as hypothesis_settings

NO_NETWORK = Path(__file__).parent / "no_network"
sys.path.insert(0, str(NO_NETWORK))
if "sitecustomize" in sys.modules and not hasattr(sys.modules["sitecustomize"], "_refuse"):
    del sys.modules["sitecustomize"]
import sitecustomize  # noqa: E402, F401  (patches socket)

# Subprocesses load the same file by themselves.
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(NO_NETWORK), os.environ.get("PYTHONPATH")]))
# Two workers on two cores: more threads in each only get in each other's way.
os.environ["OMP_NUM_THREADS"] = "1"
os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
# No deadlines: these machines are noisy, and a slow example is not a wrong one.
hypothesis_settings.register_profile("quiet", deadline=None, derandomize=True)
hypothesis_settings.load_profile("quiet")
os.environ.setdefault("MPLBACKEND", "Agg")


@pytest.fixture(autouse=True)
def _clean_surroundings(tmp_path, monkeypatch):
    for name in list(os.environ):
        if name.startswith(("RL_", "ALPHASWARM_RL_", "OTEL_", "MLFLOW_", "WANDB_", "AWS_ENDPOINT")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("ALPHASWARM_RL_HOME", str(tmp_path / "home"))


@pytest.fixture
def settings(tmp_path):
    """Settings whose home is a fresh folder."""
    from alphaswarm_rl.settings import Settings

    return Settings(home=tmp_path / "home")
