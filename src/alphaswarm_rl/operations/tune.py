"""Tuning: a search of a spec's hyper-parameters whose every trial is an ordinary run."""

from __future__ import annotations

from dataclasses import field
from pathlib import Path

from alphaswarm_rl.core.types import JsonMapping, JsonObject
from alphaswarm_rl.ledger import FamilyCount
from alphaswarm_rl.operations.data import Count, Data
from alphaswarm_rl.operations.events import NOBODY, Caller, TrialEnded
from alphaswarm_rl.operations.operation import LazySettings, RequestError, operation
from alphaswarm_rl.operations.overrides import resolve_spec
from alphaswarm_rl.studies.tuning import Plan, StudyReport, TrialRow, TuningDocument, first_draw, write_best
from alphaswarm_rl.studies.tuning import tune as search
from alphaswarm_rl.studies.tuning.report import refuse_existing


class TuneRequest(Data):
    """Which study begins or goes on.

    Attributes:
        document: The tuning document, a YAML file.
        trials: How many trials are added to the existing ones; None: as many as the document's number lacks.
        dry_run: Whether the document is only checked and its first trial shown.
        write: A new file for the best trial's spec.
        options: Options of the table by key; those of the spec change the base spec.
        top: How many of the best trials are shown.
    """

    document: str
    trials: Count | None = None
    dry_run: bool = False
    write: str | None = None
    options: JsonMapping = field(default_factory=dict)
    top: Count = 10


class SearchedParameter(Data):
    """One parameter of a study's space: its path, its type, the values it may take, and the first that is tried."""

    path: str
    type: str
    values: str
    first: object


class StudyPreview(Data, apart=("metric", "parameters", "yaml")):
    """A study that was only checked.

    Attributes:
        study: How the search is done, with the study's name.
        space: What is searched, by path.
        sample: The first trial: its params, spec_hash and spec.
        metric: What trials are judged by.
        parameters: The space with the first trial's values.
        yaml: The first trial's spec.
    """

    study: JsonObject
    space: JsonObject
    sample: JsonObject
    metric: str
    parameters: tuple[SearchedParameter, ...]
    yaml: str


class StudyResult(Data, apart=("ranked", "paths"), unless_null=("written",)):
    """What a study found so far.

    Attributes:
        study: Its name.
        metric: What trials are judged by.
        direction: Whether more is better.
        base: The slug and spec_hash of the base spec.
        best: The best completed trial.
        evaluation_of_best: What the best trial's run is worth where nothing was chosen.
        trials: Every trial, by number.
        family: How many training runs there are of the base spec's slug by now.
        halted: Why it stopped before its end.
        summary: What was done and how far it may be believed, in sentences.
        ranked: The best completed trials, as many as were requested, the best first.
        paths: What was searched.
        written: The file that the best trial's spec was written to.
    """

    study: str
    metric: str
    direction: str
    base: JsonObject
    best: TrialRow | None
    evaluation_of_best: float | None
    trials: tuple[TrialRow, ...]
    family: FamilyCount
    halted: str | None
    summary: tuple[str, ...]
    ranked: tuple[TrialRow, ...]
    paths: tuple[str, ...]
    written: str | None = None

    @property
    def found_nothing(self) -> bool:
        """Whether there were trials and none was completed."""
        return bool(self.trials) and self.best is None


@operation("tune", changes=True)
def tune(settings: LazySettings, request: TuneRequest, *, caller: Caller = NOBODY) -> StudyPreview | StudyResult:
    """Searches a spec's hyper-parameters: begins a study, or goes on with one that was stopped.

    A dry run reads no settings.
    """
    if request.dry_run and request.write is not None:
        raise RequestError("--write needs a study; a dry run has no best trial")
    document = TuningDocument.from_yaml_path(Path(request.document))
    effective = resolve_spec(settings, document.base_spec(), request.options, caller, may_draw_seed=False)
    plan = Plan.of(document, effective.spec, fixed=effective.sources)
    if request.dry_run:
        return _preview(plan)
    if request.write is not None:
        refuse_existing(Path(request.write))
    report = search(
        plan,
        settings(),
        trials=request.trials,
        overrides=effective.sources,
        progress=caller.progress,
        on_trial=lambda row: caller.listen(
            TrialEnded(row.number, row.state, row.value, row.run_id, row.params, row.error)
        ),
    )
    written = request.write if report.halted is None else None
    if written is not None:
        write_best(report, Path(written))
    return _result(report, request.top, written)


def _preview(plan: Plan) -> StudyPreview:
    drawn = first_draw(plan)
    spec = plan.spec_for(drawn)
    return StudyPreview(
        study={**plan.study.model_dump(mode="json"), "name": plan.name},
        space={path: found.model_dump(mode="json", exclude_none=True) for path, found in plan.space.items()},
        sample={"params": drawn, "spec_hash": spec.spec_hash, "spec": spec.as_data()},
        metric=str(plan.metric),
        parameters=tuple(
            SearchedParameter(path, found.type, found.described(), drawn[path]) for path, found in plan.space.items()
        ),
        yaml=spec.to_yaml(),
    )


def _result(report: StudyReport, top: int, written: str | None) -> StudyResult:
    return StudyResult(
        study=report.plan.name,
        metric=str(report.plan.metric),
        direction=report.plan.study.direction,
        base={"slug": report.plan.base.slug, "spec_hash": report.plan.base.spec_hash},
        best=report.best,
        evaluation_of_best=report.evaluation,
        trials=report.trials,
        family=report.family,
        halted=report.halted,
        summary=tuple(report.summary),
        ranked=tuple(report.ranked[:top]),
        paths=tuple(report.plan.space),
        written=written,
    )
