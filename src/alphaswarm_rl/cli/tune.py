"""`rl tune`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from alphaswarm_rl.cli.reporting import BROKEN, HALTED
from alphaswarm_rl.cli.session import Session
from alphaswarm_rl.cli.text import SHORT_ID, as_written, columns
from alphaswarm_rl.cli.verb import verb

if TYPE_CHECKING:
    from alphaswarm_rl.operations.tune import StudyPreview, StudyResult


@verb("tune")
@click.argument("document", type=click.Path(), metavar="DOCUMENT")
@click.option("--trials", type=click.IntRange(min=1), metavar="N", help="Add N trials to those that there are.")
@click.option("--dry-run", is_flag=True, help="Check the document, show the space and the first trial's spec.")
@click.option("--write", type=click.Path(), metavar="FILE", help="Write the best trial's spec to FILE.")
@click.option("--top", type=click.IntRange(min=1), default=10, show_default=True, help="How many trials are shown.")
def tune(session: Session, document: str, trials: int | None, dry_run: bool, write: str | None, top: int) -> None:
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
    from alphaswarm_rl.operations.tune import StudyPreview, TuneRequest, tune

    request = TuneRequest(document, trials, dry_run, write, session.flags, top)
    found = tune(session.load_settings, request, caller=session.caller)
    if isinstance(found, StudyPreview):
        session.answer(found, _preview_lines(found))
        return
    wrote = [] if found.written is None else [f"wrote {found.written}"]
    session.answer(found, [*_table(found), *found.summary, *wrote])
    if found.halted is not None:
        raise click.exceptions.Exit(HALTED)
    if found.found_nothing:
        raise click.exceptions.Exit(BROKEN)


def _preview_lines(preview: StudyPreview) -> list[str]:
    study = preview.study
    rows = [(item.path, item.type, item.values, as_written(item.first)) for item in preview.parameters]
    judged = f"study {study['name']}: {study['trials']} trials, {study['direction']} {preview.metric}"
    return [judged, *columns(("PATH", "TYPE", "VALUES", "FIRST"), rows), "", *preview.yaml.rstrip("\n").split("\n")]


def _table(study: StudyResult) -> list[str]:
    """The best completed trials, one line each; a parameter is named by the last part of its path where clear."""
    last = [path.rpartition(".")[2] for path in study.paths]
    titles = [name if last.count(name) == 1 else path for name, path in zip(last, study.paths, strict=True)]
    rows = [
        (
            row.number,
            row.value,
            "-" if row.run_id is None else row.run_id[:SHORT_ID],
            *(as_written(row.params[path]) for path in study.paths),
        )
        for row in study.ranked
    ]
    return columns(("TRIAL", study.metric, "RUN", *titles), rows) if rows else []
