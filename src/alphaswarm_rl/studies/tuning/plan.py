"""A study that was checked against its base spec: every parameter can be set, matters, and takes its extremes."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from itertools import combinations

from pydantic import JsonValue

from alphaswarm_rl.core.errors import AlphaSwarmError, SpecError
from alphaswarm_rl.core.types import JsonMapping, JsonObject
from alphaswarm_rl.spec import RLExperimentSpec, refuse_absent, refuse_verb
from alphaswarm_rl.spec.experiment import NOT_EXECUTED
from alphaswarm_rl.statistics.performance import REWARD_MEASURES
from alphaswarm_rl.studies.changes import changed_spec, overlap, value_at
from alphaswarm_rl.studies.tuning.document import Parameter, StudySection, TuningDocument
from alphaswarm_rl.studies.tuning.metrics import Metric

#: Fields that decide how a trial is judged: values under different ones cannot be compared.
_JUDGING = (
    "evaluation",
    "training.eval_during_training",
    "training.eval_freq",
    "training.validation_start",
    "training.validation_end",
)
#: Parameters of a trading environment that do so: what trading costs, and how it is done.
_TRADING = tuple(f"env.kwargs.{name}" for name in ("costs", "fill", "margin", "initial_cash", "sizing", "order_rules"))
#: Fields that decide what a reward is.
_REWARDS = ("reward", "training.stop_properly_penalty_coef")


@dataclass(frozen=True)
class Plan:
    """What is searched, around which spec, judged by what.

    Attributes:
        base: The spec that trials are variations of.
        space: The parameters by path, in the order of the paths: a study draws them in this order.
        study: How the search is done.
        metric: What trials are judged by.
    """

    base: RLExperimentSpec
    space: Mapping[str, Parameter]
    study: StudySection
    metric: Metric

    @classmethod
    def of(cls, document: TuningDocument, base: RLExperimentSpec | None = None, *, fixed: Collection[str] = ()) -> Plan:
        """The plan of a document, after every check that needs no training.

        Args:
            document: The document.
            base: Its base spec after overrides; None: as the document has it.
            fixed: Paths that overrides have set, which can then not be searched.
        """
        base = document.base_spec() if base is None else base
        refuse_absent(base)
        refuse_verb(base, "train")
        metric = Metric.read(document.study.metric)
        metric.refuse_absent(base, pruning=document.study.pruning)
        plan = cls(base, dict(sorted(document.space.items())), document.study, metric)
        plan._refuse_overlaps(fixed)
        for path, parameter in plan.space.items():
            plan._refuse_fields_of_no_use(path)
            plan._refuse_wrong_bounds(path, parameter)
        return plan

    @property
    def name(self) -> str:
        """What the study is called."""
        return self.study.name or self.base.slug

    def spec_for(self, values: JsonMapping) -> RLExperimentSpec:
        """The base spec with other values at these paths; it keeps its slug, so that its runs are of one family."""
        return changed_spec(self.base, values, kind="space path")

    def fingerprint(self) -> JsonObject:
        """What a study must keep from its first trial to its last: with another of these it would be another study."""
        return {
            "base": self.base.spec_hash,
            "components": self.base.component_versions,
            "space": {path: parameter.model_dump(mode="json") for path, parameter in self.space.items()},
            "metric": str(self.metric),
            **self.study.model_dump(include={"seed", "direction", "startup_trials", "pruning"}),
        }

    def _refuse_overlaps(self, fixed: Collection[str]) -> None:
        for first, second in combinations(self.space, 2):
            if overlap(first, second):
                raise SpecError(f"space path {second!r}", f"it overlaps with {first!r}", "Search one of them.")
        for path in self.space:
            for other in fixed:
                if overlap(path, other):
                    raise SpecError(
                        f"space path {path!r}",
                        f"a flag or an environment variable sets {other!r}",
                        "Leave that out, or do not search it.",
                    )

    def _refuse_fields_of_no_use(self, path: str) -> None:
        what = f"space path {path!r}"
        value_at(self.base.as_data(), path, kind="space path")  # refuses one that does not exist
        if any(f"{path}.".startswith(f"{field}.") for field in NOT_EXECUTED):
            raise SpecError(
                what, "it changes nothing about what is computed", "Search a field that training depends on."
            )
        if path == "training.seed":
            raise SpecError(
                what,
                "a seed is no hyper-parameter: the best of several is chance",
                "Leave it out; every trial has the base spec's seed.",
            )
        if any(overlap(path, field) for field in (*_JUDGING, *_TRADING)):
            raise SpecError(
                what, "it changes how trials are judged, so that they could not be compared", "Fix it in the base spec."
            )
        if self.metric.name in REWARD_MEASURES and any(overlap(path, field) for field in _REWARDS):
            raise SpecError(
                what,
                f"it changes what a reward is, and trials are judged by {self.metric}",
                "Judge them by a metric of the account, such as validation.sharpe, or fix it in the base spec.",
            )

    def _refuse_wrong_bounds(self, path: str, parameter: Parameter) -> None:
        """Tries the extremes, one at a time: each must give a spec, and another one than the others."""
        hashes: dict[str, JsonValue] = {}
        for value in parameter.extremes:
            try:
                found = self.spec_for({path: value})
            except AlphaSwarmError as error:
                raise SpecError(
                    f"space path {path!r}", f"the spec does not take {json.dumps(value)} there: {error.why}", _BOUNDS
                ) from error
            if found.exec_hash in hashes:
                same = json.dumps(hashes[found.exec_hash])
                raise SpecError(
                    f"space path {path!r}",
                    f"{same} and {json.dumps(value)} mean the same spec",
                    "Give values that differ.",
                )
            hashes[found.exec_hash] = value


_BOUNDS = "Give bounds or choices that the component takes: rl components show KIND ALIAS."
