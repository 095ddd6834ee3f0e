"""`rl tune`."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from alphaswarm_rl.cli.reporting import BROKEN, HALTED
from alphaswarm_rl.cli.results import say_spec
from alphaswarm_rl.cli.session import Session
from alphaswarm_rl.cli.text import as_json_line, columns, shown
from alphaswarm_rl.cli.verb import verb
from alphaswarm_rl.core.errors import OptionError
from alphaswarm_rl.options import effective_spec

if TYPE_CHECKING:
    from alphaswarm_rl.studies.tuning import Plan, StudyReport, TrialRow

_SHORT_ID = 8


@verb("tune")
@click.argument("document", type=click.Path(path_type=Path), metavar="DOCUMENT")
@click.option("--trials", type=click.IntRange(min=1), metavar="N", help="Add N trials to those that there are.")
@click.option("--dry-run", is_flag=True, help="Check the document, show the space and the first trial's spec.")
@click.option("--write", type=click.Path(path_type=Path), metavar="FILE", help="Write the best trial's spec to FILE.")
@click.option("--top", type=click.IntRange(min=1), default=10, show_default=True, help="How many trials are shown.")
def tune(session: Session, document: Path, trials: int | None, dry_run: bool, write: Path | None, top: int) -> None:
    """Search a spec's hyper-parameters; every trial is an ordinary run.

    DOCUMENT is a YAML file with base (a spec file beside it, a preset, or a spec), space (what is searched) and study
    (how). The same command goes on with a study that was stopped, until it has the document's number of trials. Flags
    and environment variables change the base spec.

    Args:
        session: This call.
        document: The tuning document.
        trials: How many trials to add.
        dry_run: Whether nothing is run.
        write: Where the best trial's spec goes.
        top: How many trials are shown.
    """
    from alphaswarm_rl.studies.tuning.document import TuningDocument
    from alphaswarm_rl.studies.tuning.plan import Plan

    read = TuningDocument.from_yaml_path(document)
    effective = effective_spec(read.base_spec(), session.flags, os.environ)
    if effective.draws_seed:
        raise OptionError(
            "option --seed random", "trials of different seeds cannot be compared", "Give a number, or leave it out."
        )
    say_spec(session, effective)
    plan = Plan.of(read, effective.spec, fixed=effective.sources)
    if dry_run:
        _show(session, plan)
        return

    from alphaswarm_rl.studies.tuning import tune as search
    from alphaswarm_rl.studies.tuning.report import refuse_existing, write_best

    if write is not None:
        refuse_existing(write)
    report = search(
        plan,
        session.settings,
        trials=trials,
        overrides=effective.sources,
        progress=sys.stderr.isatty(),
        told=lambda row: session.say(_line(row)),
    )
    written = {}
    if write is not None and report.halted is None:
        write_best(report, write)
        written = {"written": str(write)}
    lines = [*_table(report, top), *report.summary, *(f"wrote {path}" for path in written.values())]
    session.answer({**report.as_dict(), **written}, lines)
    if report.halted is not None:
        raise click.exceptions.Exit(HALTED)
    if report.trials and report.best is None:
        raise click.exceptions.Exit(BROKEN)


def _show(session: Session, plan: Plan) -> None:
    from alphaswarm_rl.studies.tuning.search import first_draw

    drawn = first_draw(plan)
    spec = plan.spec_for(drawn)
    rows = [(path, found.type, found.described(), _value(drawn[path])) for path, found in plan.space.items()]
    space = {path: found.model_dump(mode="json", exclude_none=True) for path, found in plan.space.items()}
    document: dict[str, Any] = {
        "study": {**plan.study.model_dump(mode="json"), "name": plan.name},
        "space": space,
        "sample": {"params": drawn, "spec_hash": spec.spec_hash, "spec": spec.as_data()},
    }
    judged = f"study {plan.name}: {plan.study.trials} trials, {plan.study.direction} {plan.metric}"
    lines = [judged, *columns(("PATH", "TYPE", "VALUES", "FIRST"), rows), "", spec.to_yaml().rstrip("\n")]
    session.answer(document, lines)


def _table(report: StudyReport, top: int) -> list[str]:
    """The best completed trials, one line each."""
    paths = list(report.plan.space)
    last = [path.rpartition(".")[2] for path in paths]
    titles = [name if last.count(name) == 1 else path for name, path in zip(last, paths, strict=True)]
    rows = [
        (
            row.number,
            row.value,
            "-" if row.run_id is None else row.run_id[:_SHORT_ID],
            *(_value(row.params[path]) for path in paths),
        )
        for row in report.ranked[:top]
    ]
    return columns(("TRIAL", str(report.plan.metric), "RUN", *titles), rows) if rows else []


def _line(row: TrialRow) -> str:
    value = "" if row.value is None else f" {row.value:.6g}"
    run = "" if row.run_id is None else f"  run {row.run_id[:_SHORT_ID]}"
    why = "" if row.error is None else f"  {row.error}"
    params = ", ".join(f"{path}={_value(found)}" for path, found in row.params.items())
    return f"trial {row.number}: {row.state}{value}  ({params}){run}{why}"


def _value(value: Any) -> str:
    """A parameter; lists and mappings as they are written."""
    return as_json_line(value) if isinstance(value, list | dict) else shown(value)
