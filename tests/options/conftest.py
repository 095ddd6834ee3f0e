"""The components that the starting spec names, registered without entry points; a working folder with no settings."""

import pytest

import alphaswarm_rl.agents.sb3.algorithms
import alphaswarm_rl.envs.cartpole
import alphaswarm_rl.envs.gymnasium_env  # noqa: F401


@pytest.fixture(autouse=True)
def _empty_working_folder(tmp_path_factory, monkeypatch):
    monkeypatch.chdir(tmp_path_factory.mktemp("work"))
