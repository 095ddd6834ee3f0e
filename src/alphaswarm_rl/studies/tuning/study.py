"""The study on disk: Optuna's sampler, pruner and storage, made to go on after a kill as if there had been none.

What is drawn for a trial depends on the study's seed, on how many trials were made before, and on what they brought:
never on the process. A trial that a process left behind counts as not made, and the next one draws the same again.
"""

from __future__ import annotations

import fcntl
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from sqlalchemy.engine import make_url
from sqlalchemy.exc import DBAPIError

from alphaswarm_rl.core.errors import DiskError, RunError, require
from alphaswarm_rl.core.seeding import derived_seed
from alphaswarm_rl.core.types import JsonMapping, JsonObject
from alphaswarm_rl.db.engine import BUSY_SECONDS, open_engine
from alphaswarm_rl.db.failures import explained
from alphaswarm_rl.settings import Settings
from alphaswarm_rl.studies.tuning.document import Parameter
from alphaswarm_rl.studies.tuning.plan import Plan

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution
    from optuna.samplers import BaseSampler
    from optuna.storages import BaseStorage
    from optuna.trial import FrozenTrial, Trial

State = Literal["completed", "pruned", "failed", "interrupted", "running"]

#: Why a trial that ended failed; one that failed without it was interrupted.
_ERROR = "error"
_RUN = "run_id"
_PLAN = "plan"


@dataclass(frozen=True)
class TrialRow:
    """One trial of a study.

    Attributes:
        number: Its number in the study, from 0; interrupted trials have one too.
        state: How it ended. `interrupted` ones are made up for, all others count.
        value: What it is judged by: of a pruned one its last validation's, which is not compared.
        params: Its parameters by path.
        run_id: Its run in the ledger; None where it came to none.
        error: Why it failed.
    """

    number: int
    state: State
    value: float | None
    params: JsonObject
    run_id: str | None
    error: str | None = None


class Study:
    """An open study that this process alone works on.

    Args:
        plan: What is searched.
        storage: Optuna's storage; None keeps it in memory.
    """

    def __init__(self, plan: Plan, storage: BaseStorage | None = None) -> None:
        self.plan = plan
        require_optuna()
        import optuna
        from optuna.pruners import MedianPruner, NopPruner

        startup = plan.study.startup_trials
        self._study = optuna.create_study(
            study_name=plan.name,
            storage=storage,
            direction=plan.study.direction,
            sampler=self._sampler(0),
            pruner=MedianPruner(n_startup_trials=startup) if plan.study.pruning else NopPruner(),
            load_if_exists=True,
        )
        self._refuse_another_plan()
        self._give_up_running_trials()

    def ask(self) -> Trial:
        """The next trial, as Optuna's object; `values_of` says its parameters."""
        self._study.sampler = self._sampler(len(self.made()))
        return self._study.ask({path: self._distribution(found) for path, found in self.plan.space.items()})

    def values_of(self, trial: Trial) -> JsonObject:
        """The parameters of a trial as a spec takes them."""
        return _values(self.plan.space, trial.params)

    def complete(self, trial: Trial, value: float) -> None:
        """Ends a trial with its value."""
        self._study.tell(trial, value)

    def prune(self, trial: Trial) -> None:
        """Ends a trial that was halted for its validations."""
        self._end(trial, "PRUNED")

    def fail(self, trial: Trial, error: str) -> None:
        """Ends a trial whose parameters came to nothing; it counts."""
        trial.set_user_attr(_ERROR, error)
        self.interrupt(trial)

    def interrupt(self, trial: Trial) -> None:
        """Ends a trial that its parameters are not to blame for; it is made up for."""
        self._end(trial, "FAIL")

    def note_run(self, trial: Trial, run_id: str) -> None:
        """Says which run a trial is."""
        trial.set_user_attr(_RUN, run_id)

    def rows(self) -> list[TrialRow]:
        """Every trial, by number."""
        return [self._row(trial) for trial in self._study.get_trials(deepcopy=False)]

    def made(self) -> list[TrialRow]:
        """The trials that count: all that ended by themselves."""
        return [row for row in self.rows() if row.state not in ("interrupted", "running")]

    def _sampler(self, made: int) -> BaseSampler:
        from optuna.samplers import TPESampler

        # A sampler of its own for each trial: its stream must not depend on which process drew before.
        return TPESampler(
            seed=derived_seed(self.plan.study.seed, "tuning", made), n_startup_trials=self.plan.study.startup_trials
        )

    def _distribution(self, parameter: Parameter) -> BaseDistribution:
        from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

        if parameter.type == "categorical":
            # As texts: Optuna keeps no lists and mappings.
            return CategoricalDistribution(parameter.texts)
        assert parameter.low is not None
        assert parameter.high is not None
        if parameter.type == "int":
            step = 1 if parameter.step is None else int(parameter.step)
            return IntDistribution(int(parameter.low), int(parameter.high), log=parameter.log, step=step)
        return FloatDistribution(float(parameter.low), float(parameter.high), log=parameter.log, step=parameter.step)

    def _refuse_another_plan(self) -> None:
        fingerprint = self.plan.fingerprint()
        text = self._study.user_attrs.get(_PLAN)
        if text is None:
            self._study.set_user_attr(_PLAN, json.dumps(fingerprint))
            return
        begun = json.loads(text)
        changed = sorted(key for key in fingerprint if fingerprint[key] != begun.get(key))
        if changed:
            raise RunError(
                f"study {self.plan.name!r}",
                f"it was begun with other values of {', '.join(changed)}",
                "Give this one another study.name; only study.trials may change.",
            )

    def _give_up_running_trials(self) -> None:
        for trial in self._study.get_trials(deepcopy=False):
            if trial.state.name == "RUNNING":
                self._end(trial.number, "FAIL")

    def _end(self, trial: Trial | int, state: str) -> None:
        from optuna.trial import TrialState

        self._study.tell(trial, state=TrialState[state])

    def _row(self, trial: FrozenTrial) -> TrialRow:
        error = trial.user_attrs.get(_ERROR)
        states: Mapping[str, State] = {"COMPLETE": "completed", "PRUNED": "pruned", "RUNNING": "running"}
        state = states.get(trial.state.name, "interrupted" if error is None else "failed")
        params = _values(self.plan.space, trial.params)
        return TrialRow(trial.number, state, trial.value, params, trial.user_attrs.get(_RUN), error)


@contextmanager
def open_study(plan: Plan, settings: Settings) -> Iterator[Study]:
    """The study in the home folder, begun or gone on with; a second process on it is refused."""
    require_optuna()
    from optuna.storages import RDBStorage

    folder = settings.below_home(Path("tuning"))
    folder.mkdir(parents=True, exist_ok=True)
    url = f"sqlite:///{folder / 'studies.db'}"
    open_engine(url).dispose()  # a file on a network disk is refused, as the ledger's is
    with _alone(folder / f"{plan.name}.lock", plan.name), _storage_errors(url):
        try:
            storage = RDBStorage(url, engine_kwargs={"connect_args": {"timeout": BUSY_SECONDS}})
        except RuntimeError as error:  # what Optuna raises for a file of another version of it
            raise RunError(
                f"the studies in {str(folder / 'studies.db')!r}", str(error), "Use the version of Optuna that wrote it."
            ) from error
        try:
            yield Study(plan, storage)
        finally:
            storage.engine.dispose()


@contextmanager
def _storage_errors(url: str) -> Iterator[None]:
    """What Optuna's storage cannot do, with its reason; what is no fault of the disk or a lock passes as it is."""
    from optuna.exceptions import StorageInternalError

    try:
        yield
    except (StorageInternalError, DBAPIError) as error:
        cause = error.__cause__ if isinstance(error, StorageInternalError) else error
        found = explained(cause, make_url(url)) if isinstance(cause, DBAPIError) else None
        if found is None:
            raise
        raise DiskError(found.what, found.why, f"{found.remedy} Then run the same command again.") from error


@contextmanager
def _alone(path: Path, name: str) -> Iterator[None]:
    with path.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise RunError(
                f"study {name!r}", "another process works on it", "Wait for it, or give this one another study.name."
            ) from error
        yield  # the lock ends with the file, and with the process however that ends


def _values(space: Mapping[str, Parameter], params: JsonMapping) -> JsonObject:
    return {
        path: json.loads(params[path]) if parameter.type == "categorical" else params[path]
        for path, parameter in space.items()
        if path in params
    }


def require_optuna() -> None:
    """Loads Optuna, or names the extra to install."""
    optuna = require("optuna", extra="tune")
    # Its lines go where ours go, and only those that warn.
    optuna.logging.disable_default_handler()
    optuna.logging.enable_propagation()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
