"""The command line on specs that take a moment."""

import pytest

from .calling import PPO, RANDOM, call


@pytest.fixture
def rl(tmp_path, monkeypatch):
    """Runs a command in this process, in an empty working directory."""
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return call


@pytest.fixture
def home(tmp_path):
    """The home folder of the test."""
    return tmp_path / "home"


@pytest.fixture
def random_spec(tmp_path):
    """A spec whose agent draws its actions."""
    path = tmp_path / "random.yaml"
    path.write_text(RANDOM)
    return path


@pytest.fixture
def ppo_spec(tmp_path):
    """A spec whose agent learns."""
    path = tmp_path / "ppo.yaml"
    path.write_text(PPO)
    return path


@pytest.fixture
def trained(rl, ppo_spec):
    """The answer of a training run."""
    answer = rl("train", ppo_spec, "--json")
    assert answer.code == 0, answer.err
    return answer.json
