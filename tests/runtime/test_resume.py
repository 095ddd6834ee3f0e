from pathlib import Path

import numpy as np
import pytest

from alphaswarm_rl.core.errors import RunError
from alphaswarm_rl.inference.checkpoints import load_checkpoint
from alphaswarm_rl.ledger import Ledger
from alphaswarm_rl.runtime import RLRuntime
from tests.runtime.conftest import tiny


class HaltAt:
    """A sink that asks for a halt, through the kill switch itself, at the first event of a stage."""

    def __init__(self, settings, stage="train.step", count=1):
        self.settings, self.stage, self.left = settings, stage, count

    def __call__(self, event):
        if event.stage == self.stage:
            self.left -= 1
            if self.left == 0:
                with Ledger.open(self.settings) as ledger:
                    ledger.engage(event.run_id, "enough", "test")


def halted_run(spec, settings, count=2):
    """A run that the kill switch stopped; the switch is released again."""
    quick = settings.model_copy(update={"ledger": settings.ledger.model_copy(update={"halt_poll_seconds": 0.001})})
    result = RLRuntime(spec, quick, sinks=[HaltAt(settings, count=count)]).train()
    assert result.status == "halted"
    with Ledger.open(settings) as ledger:
        ledger.release(result.run_id, "go on", "test")
    return result


POLICY = {"agent": {"class": "random"}, "training": {"total_timesteps": 40_000, "log_interval": 1, "n_envs": 8}}


def test_the_kill_switch_halts_with_a_checkpoint_and_a_true_row(settings, ledger):
    result = halted_run(tiny(**POLICY), settings)
    row = ledger.run(result.run_id)
    assert row.status == "halted"
    assert row.halt_reason == "kill switch: enough"
    assert 0 < row.timesteps < 40_000
    assert load_checkpoint(Path(row.checkpoint), expected_sha256=row.checkpoint_sha256)
    assert [event.stage for event in ledger.events(row.id)][-2:] == ["train.checkpoint", "halted"]


@pytest.mark.parametrize(
    "obs", [{}, {"normalize": "running", "clip_range": 5, "stack_frames": 2}], ids=["plain", "preprocessed"]
)
def test_an_exact_resume_ends_in_the_same_bytes(settings, ledger, obs):
    spec = tiny(obs=obs, **POLICY)
    whole = RLRuntime(spec, settings).train()
    stopped = halted_run(spec, settings)
    resumed = RLRuntime.from_run(stopped.run_id, settings).resume()
    assert resumed.run_id == stopped.run_id
    assert resumed.status == "completed"
    assert resumed.timesteps == whole.timesteps == 40_000
    assert resumed.checkpoint_sha256 == whole.checkpoint_sha256
    assert ledger.run(resumed.run_id).resume == "exact"
    ours, theirs = (
        [(row.episode, row.mean_reward, row.timesteps) for row in ledger.episodes(run.run_id)]
        for run in (resumed, whole)
    )
    assert ours == theirs


def test_sb3_resumes_approximately_says_so_and_ends_at_the_same_count(settings, ledger):
    spec = tiny(training={"total_timesteps": 3000})
    whole = RLRuntime(spec, settings).train()
    stopped = halted_run(spec, settings)
    assert stopped.timesteps % 128 == 0
    assert stopped.timesteps < 3000
    resumed = RLRuntime.from_run(stopped.run_id, settings).resume()
    assert resumed.timesteps == whole.timesteps == 3072
    row = ledger.run(resumed.run_id)
    assert row.resume == "approximate"
    assert any("from halted; resume: approximate" in notice for notice in row.notices)
    assert row.halt_checks >= 3000 // 4  # both legs together
    assert [event.seq for event in ledger.events(row.id)] == list(range(1, len(ledger.events(row.id)) + 1))


def test_events_go_on_and_rows_beyond_the_checkpoint_are_dropped(settings, ledger):
    stopped = halted_run(tiny(**POLICY), settings)
    before = len(ledger.events(stopped.run_id))
    ledger.add_episodes(
        stopped.run_id, [{"phase": "train", "episode": 10**6, "timesteps": 10**7, "mean_reward": 0.0, "length": 1.0}]
    )
    RLRuntime.from_run(stopped.run_id, settings).resume()
    episodes = ledger.episodes(stopped.run_id)
    assert max(row.timesteps for row in episodes) <= 40_000
    stages = [event.stage for event in ledger.events(stopped.run_id)]
    assert stages[before] == "start"
    assert stages[-1] == "done"


def test_a_completed_run_is_not_resumed(train, settings):
    result = train()
    with pytest.raises(RunError, match="completed"):
        RLRuntime.from_run(result.run_id, settings).resume()


def test_only_training_runs_are_resumed(train, settings):
    evaluated = RLRuntime.from_run(train().run_id, settings).evaluate()
    with pytest.raises(RunError, match="evaluate"):
        RLRuntime.from_run(evaluated.run_id, settings).resume()


def test_a_run_without_a_checkpoint_cannot_go_on(settings, ledger):
    with pytest.raises(Exception, match="draws none"):
        RLRuntime(tiny(evaluation={"render": True}), settings).train()
    with pytest.raises(RunError, match="no checkpoint"):
        RLRuntime.from_run(ledger.runs()[0].id, settings).resume()


def test_a_best_model_survives_the_resume(settings, ledger):
    spec = tiny(training={"total_timesteps": 3000, "eval_during_training": True, "eval_freq": 128})
    stopped = halted_run(spec, settings, count=6)
    best_before = ledger.run(stopped.run_id).best_reward
    resumed = RLRuntime.from_run(stopped.run_id, settings).resume()
    assert resumed.metrics["best_reward"] >= best_before


def test_silence_of_the_kill_switch_halts_training(settings, monkeypatch):
    quick = settings.model_copy(
        update={"ledger": settings.ledger.model_copy(update={"halt_poll_seconds": 0.01, "halt_silence_seconds": 0.05})}
    )

    def silent(self):
        raise ConnectionError("the database is gone")

    def start_being_silent(event):
        if event.stage == "train.step":
            monkeypatch.setattr(Ledger, "halt_status", silent)

    result = RLRuntime(
        tiny(training={"total_timesteps": 10**7, "n_envs": 8}, agent={"class": "random"}),
        quick,
        sinks=[start_being_silent],
    ).train()
    assert result.status == "halted"
    assert "gave no answer" in result.halt_reason


def test_a_kill_switch_that_hangs_halts_training_too(settings, monkeypatch):
    import threading

    patient = settings.ledger.model_copy(update={"halt_poll_seconds": 0.01, "halt_silence_seconds": 0.2})
    hung, real = threading.Event(), Ledger.halt_status

    def hang(self):
        if hung.is_set() and threading.current_thread() is not threading.main_thread():
            threading.Event().wait(20)  # longer than the run: it never answers
        return real(self)

    def start_hanging(event):
        if event.stage == "train.step":
            hung.set()

    monkeypatch.setattr(Ledger, "halt_status", hang)
    monkeypatch.setattr("alphaswarm_rl.ledger.brake._JOIN_SECONDS", 0.1)
    spec = tiny(training={"total_timesteps": 10**8, "n_envs": 8}, agent={"class": "random"})
    result = RLRuntime(spec, settings.model_copy(update={"ledger": patient}), sinks=[start_hanging]).train()
    assert result.status == "halted"
    assert "gave no answer" in result.halt_reason
    assert load_checkpoint(Path(result.checkpoint))


def test_the_heart_beats_as_often_as_it_is_asked_to(settings):
    beats = []

    def listen(event):
        if event.stage == "train.step":
            with Ledger.open(settings) as ledger:
                beats.append(ledger.run(event.run_id).heartbeat_at)

    often = settings.ledger.model_copy(update={"halt_poll_seconds": 0.01, "heartbeat_seconds": 0.01})
    spec = tiny(training={"total_timesteps": 60_000, "n_envs": 8, "log_interval": 5}, agent={"class": "random"})
    RLRuntime(spec, settings.model_copy(update={"ledger": often}), sinks=[listen]).train()
    assert len(set(beats)) > len(beats) // 2
    beats.clear()
    RLRuntime(spec, settings, sinks=[listen]).train()  # by default every ten seconds
    assert len(set(beats)) == 1


def test_changed_code_and_surroundings_are_said(settings, ledger, monkeypatch):
    from alphaswarm_rl.core import catalogue
    from alphaswarm_rl.settings import InferSettings

    stopped = halted_run(tiny(training={"total_timesteps": 3000}), settings)
    monkeypatch.setattr(catalogue.get("agent", "ppo"), "rl_version", 2)
    other = settings.model_copy(update={"infer": InferSettings(threads=2)})
    RLRuntime.from_run(stopped.run_id, other).resume()
    notices = ledger.run(stopped.run_id).notices
    assert "resumed with another torch_threads: 1 -> 2" in notices
    assert any("'agent:ppo': 1" in notice and "'agent:ppo': 2" in notice for notice in notices)
    trained = RLRuntime(tiny(training={"total_timesteps": 3000}), settings).train()
    assert trained.version_id == stopped.version_id
    assert "code differs: ppo 1 -> 2" in trained.notices


def test_changed_data_are_refused(settings, monkeypatch):
    from alphaswarm_rl.envs.gymnasium_env import GymnasiumEnv

    spec = tiny(env={"class": "gymnasium", "kwargs": {"id": "stocks-v0"}}, training={"total_timesteps": 3000})
    stopped = halted_run(spec, settings)
    monkeypatch.setattr(GymnasiumEnv, "data_fingerprint", lambda self, window: "0" * 64)
    with pytest.raises(RunError, match="data have changed"):
        RLRuntime.from_run(stopped.run_id, settings).resume()


def test_the_progress_bar_shows_rate_time_left_and_reward_of_this_leg(settings, monkeypatch):
    import io

    from rich.console import Console

    from alphaswarm_rl.runtime import progress

    shown = io.StringIO()
    # A terminal of its own, whatever the tests themselves run in.
    terminal = Console(file=shown, force_terminal=True, width=200, _environ={"TERM": "xterm"})
    monkeypatch.setattr(progress, "Console", lambda **_: terminal)
    stopped = halted_run(tiny(**POLICY), settings)
    RLRuntime.from_run(stopped.run_id, settings, progress=True).resume()
    lines = [line for line in shown.getvalue().replace("\r", "\n").splitlines() if "train" in line]
    assert "40000/40000" in lines[-1]
    assert "mean reward" in lines[-1]
    assert "/s" in lines[-1]
    assert f"{stopped.timesteps}/40000" in lines[0]


def test_numpy_is_what_checkpoints_hold(train):
    states = load_checkpoint(Path(train().checkpoint)).states
    assert all(isinstance(array, np.ndarray) for state in states.values() for array in state.arrays.values())
