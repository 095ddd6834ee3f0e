"""The report of a study: its trials, the best of them, and how far that may be believed."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from pathlib import Path

from alphaswarm_rl.core.errors import OptionError, RunError
from alphaswarm_rl.core.files import checked_path
from alphaswarm_rl.core.study_context import StudyContext
from alphaswarm_rl.core.types import JsonObject
from alphaswarm_rl.ledger import FamilyCount, Ledger
from alphaswarm_rl.settings import Settings
from alphaswarm_rl.studies.tuning.metrics import Metric
from alphaswarm_rl.studies.tuning.plan import Plan
from alphaswarm_rl.studies.tuning.study import Study, TrialRow


@dataclass(frozen=True)
class StudyReport:
    """The state of a study.

    Attributes:
        plan: What was searched.
        trials: Every trial, by number.
        family: How many training runs there are of the base spec's slug by now, whoever made them.
        evaluation: What the best trial's run was worth on the evaluation window by the same metric, where that window
            chose nothing; None otherwise.
        halted: Why the study stopped before its end; None where it did not.
    """

    plan: Plan
    trials: tuple[TrialRow, ...]
    family: FamilyCount
    evaluation: float | None
    halted: str | None

    @property
    def ranked(self) -> list[TrialRow]:
        """The completed trials, the best first; of equal ones the earlier."""
        done = [row for row in self.trials if row.state == "completed" and row.value is not None]
        sign = -1.0 if self.plan.study.direction == "maximize" else 1.0
        return sorted(done, key=lambda row: (sign * (row.value or 0.0), row.number))

    @property
    def best(self) -> TrialRow | None:
        """The best completed trial."""
        return next(iter(self.ranked), None)

    def count(self, *states: str) -> int:
        """How many trials ended like this."""
        return sum(row.state in states for row in self.trials)

    @property
    def summary(self) -> list[str]:
        """What was done and how far it may be believed, in sentences."""
        parts = [f"{self.count(state)} {state}" for state in ("completed", "pruned", "failed", "interrupted")]
        lines = [
            f"study {self.plan.name}: {', '.join(part for part in parts if not part.startswith('0 ')) or 'no trials'}",
            f"family {self.family.family}: {self.family.runs} training runs of {self.family.specs} different specs, "
            f"{self.family.trials} trials by now; count them all when you judge the best",
        ]
        completed = self.count("completed")
        if completed:
            lines.append(
                f"the best of {completed} is biased upwards: part of its {self.plan.metric} is luck. {self._advice()}"
            )
        if self.halted is not None:
            lines.append(f"halted ({self.halted}); the same command goes on")
        return lines

    def _advice(self) -> str:
        if self.plan.metric.window == "evaluation":
            return "The evaluation window chose it: judge it on dates or seeds that chose nothing"
        if self.evaluation is not None:
            return f"The evaluation, which chose nothing, gives its run {self.evaluation:.6g}"
        return "Judge it on what chose nothing: rl evaluate RUN"

    def best_spec_yaml(self) -> str:
        """The best trial as a spec that is ready to be trained, with a head that says where it comes from."""
        best = self.best
        if best is None:
            raise RunError(f"study {self.plan.name!r}", "no trial was completed", "Add trials: rl tune ... --trials N.")
        head = [
            f"# Trial {best.number} of study {self.plan.name}, run {best.run_id}: {self.plan.metric} = {best.value!r},",
            f"# the best of {self.count('completed')} completed trials, and as such biased upwards.",
        ]
        return "\n".join([*head, self.plan.spec_for(best.params).to_yaml()])

    def as_dict(self) -> JsonObject:
        """The report as JSON."""
        return {
            "study": self.plan.name,
            "metric": str(self.plan.metric),
            "direction": self.plan.study.direction,
            "base": {"slug": self.plan.base.slug, "spec_hash": self.plan.base.spec_hash},
            "best": None if self.best is None else asdict(self.best),
            "evaluation_of_best": self.evaluation,
            "trials": [asdict(row) for row in self.trials],
            "family": asdict(self.family),
            "halted": self.halted,
            "summary": self.summary,
        }


def report_of(study: Study, context: StudyContext, settings: Settings, *, halted: str | None = None) -> StudyReport:
    """What a study found so far."""
    with Ledger.open(settings) as ledger:
        family = ledger.count_family(study.plan.base.slug)
    report = StudyReport(study.plan, tuple(study.rows()), family, None, halted)
    best, metric = report.best, study.plan.metric
    if best is None or best.run_id is None or metric.window == "evaluation":
        return report
    return replace(report, evaluation=Metric("evaluation", metric.name).of(context.run(best.run_id)))


def refuse_existing(path: Path) -> None:
    """Refuses to write where something is."""
    try:
        exists = checked_path(path).exists()
    except (ValueError, OSError) as error:
        raise OptionError(f"file {str(path)!r:.200}", str(error), "Choose another name.") from error
    if exists:
        raise OptionError(f"file {str(path)!r}", "it exists", "Choose another name: nothing is overwritten.")


def write_best(report: StudyReport, path: Path) -> None:
    """Writes the best trial's spec into a new file."""
    text = report.best_spec_yaml()
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        refuse_existing(path)
        raise
    except OSError as error:
        raise OptionError(
            f"file {str(path)!r}", f"it cannot be written: {error.strerror}", "Choose a place that you may write to."
        ) from error
