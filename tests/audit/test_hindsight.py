"""A training with components of others that look ahead says so in its row, whichever way it is started."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from alphaswarm_rl import RLExperimentSpec, RLRuntime, Settings
from alphaswarm_rl.audit import hindsight
from alphaswarm_rl.core.errors import DiskError
from alphaswarm_rl.core.kinds import ObservationBuilder
from alphaswarm_rl.ledger import Ledger
from alphaswarm_rl.operations.train import TrainRequest, train
from alphaswarm_rl.operations.tune import TuneRequest, tune
from alphaswarm_rl.studies.context import RuntimeContext

LEAK = "look-ahead: observation 'next_close_of_others' (next:SYN0) changes with the future, first seen at "
PPO = {"class": "ppo_inhouse", "kwargs": {"n_steps": 8, "batch_size": 8, "net_arch": [4], "n_epochs": 1}}


class NextCloseOfOthers(ObservationBuilder):
    """The next close, which nobody can know."""

    rl_alias = "next_close_of_others"

    def names(self, panel: Any) -> tuple[str, ...]:
        return tuple(f"next:{asset}" for asset in panel.assets)

    def step(self, view: Any, state: Any, out: Any) -> None:
        later = np.minimum(view.bar + 1, len(view.market.close) - 1)
        out[...] = view.market.close[later] / view.close - 1.0


class NothingOfOthers(ObservationBuilder):
    """Nothing at all, honestly."""

    rl_alias = "nothing_of_others"

    def names(self, panel: Any) -> tuple[str, ...]:
        return ("nothing",)

    def step(self, view: Any, state: Any, out: Any) -> None:
        out[...] = 0.0


def spec(observation: str = "next_close_of_others", seed: int = 1, **changes: Any) -> RLExperimentSpec:
    return RLExperimentSpec.from_data(
        {
            "name": "Of others",
            "env": {"class": "stock_trading", "kwargs": {"fill": "next_close", "episode_bars": 20}},
            "data_pipeline": {"class": "synthetic", "kwargs": {"n_assets": 2, "n_bars": 120, "seed": seed}},
            "observation": {"class": observation},
            "agent": PPO,
            "training": {"total_timesteps": 16},
            "evaluation": {"episodes": 0},
            **changes,
        }
    )


def found(settings: Settings, run: str) -> list[str]:
    with Ledger.open(settings) as ledger:
        return [notice for notice in ledger.run(run).notices if "look" in notice]


@pytest.fixture
def audits(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The observations of the specs that are audited, from nothing remembered on."""
    seen: list[str] = []
    audit = hindsight.audit_built

    def counted(builder: Any) -> Any:
        seen.append(builder.spec.observation.name)
        return audit(builder)

    monkeypatch.setattr(hindsight, "audit_built", counted)
    monkeypatch.setattr(hindsight, "_remembered", {})
    return seen


def test_a_training_in_python_a_longer_one_and_a_dry_run_say_it(
    settings: Settings, audits: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    trained = RLRuntime(spec(), settings).train()
    (notice,) = found(settings, trained.run_id)
    assert notice.startswith(LEAK)
    assert notice.endswith(": rl audit lookahead")
    # Whoever waits is told before it begins.
    assert notice in [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    further = RLRuntime.from_run(trained.run_id, settings).train_further(32)
    assert found(settings, further.run_id) == [notice]
    assert notice in RLRuntime(spec(), settings).rehearse().notices
    # The same components on the same bars are audited once; other bars are others.
    assert len(audits) == 1
    RLRuntime(spec(seed=2), settings).rehearse()
    assert len(audits) == 2


def test_every_trial_of_a_study_says_it_and_one_audit_is_enough(settings: Settings, audits: list[str]) -> None:
    context = RuntimeContext(spec(), settings)
    runs = [context.train({"agent.kwargs.gamma": gamma}).run_id for gamma in (0.5, 0.6, 0.7)]
    assert [len(found(settings, run)) for run in runs] == [1, 1, 1]
    assert len(audits) == 1


def test_tuning_says_it(settings: Settings, audits: list[str], tmp_path: Any) -> None:
    dates = {"end": "2020-04-01", "validation_start": "2020-04-01", "validation_end": "2020-06-01"}
    training = {"total_timesteps": 16, "eval_during_training": True, **dates}
    (tmp_path / "spec.yaml").write_text(spec(training=training, evaluation={"episodes": 1}).to_yaml())
    (tmp_path / "study.yaml").write_text(
        "base: spec.yaml\n"
        "space: {agent.kwargs.gamma: {type: float, low: 0.5, high: 0.9}}\n"
        "study: {trials: 1, pruning: off}\n"
    )
    study = tune(lambda: settings, TuneRequest(str(tmp_path / "study.yaml")))
    (trial,) = study.trials  # type: ignore[union-attr]
    assert trial.run_id is not None
    assert len(found(settings, trial.run_id)) == 1


def test_the_operation_says_it_once(settings: Settings, audits: list[str], tmp_path: Any) -> None:
    (tmp_path / "spec.yaml").write_text(spec().to_yaml())
    result = train(settings, TrainRequest(str(tmp_path / "spec.yaml")))
    assert len(found(settings, result.run_id)) == 1  # type: ignore[union-attr]


def test_frames_that_the_caller_hands_in_are_audited(settings: Settings, audits: list[str]) -> None:
    days = pd.bdate_range("2020-01-01", periods=80)
    closes = 100 + np.arange(80.0)
    bars = pd.DataFrame({"date": days, "symbol": "SYN0", "close": closes})
    framed = spec(data_pipeline={"class": "frame", "kwargs": {"name": "bars"}})
    run = RLRuntime(framed, settings, frames={"bars": bars}).train().run_id
    assert found(settings, run)[0].startswith(LEAK)


def test_what_is_honest_and_what_is_ours_says_nothing(settings: Settings, audits: list[str]) -> None:
    assert found(settings, RLRuntime(spec("nothing_of_others"), settings).train().run_id) == []
    assert audits == ["nothing_of_others"]
    RLRuntime(spec("portfolio_state"), settings).train()
    assert audits == ["nothing_of_others"]


def test_an_audit_that_fails_is_said_and_the_training_goes_on(
    settings: Settings, audits: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(builder: Any) -> Any:
        raise ZeroDivisionError("no such volume")

    monkeypatch.setattr(hindsight, "audit_built", broken)
    result = RLRuntime(spec(), settings).train()
    assert result.status == "completed"
    why = "whether components look ahead is not known, the audit failed: no such volume"
    assert found(settings, result.run_id) == [why]

    def full(builder: Any) -> Any:
        raise DiskError("the disk", "it is full", "Free some space.")

    monkeypatch.setattr(hindsight, "audit_built", full)
    with pytest.raises(DiskError):
        RLRuntime(spec(), settings).train()
