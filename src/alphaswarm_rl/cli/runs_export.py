"""`rl runs export`."""

from __future__ import annotations

import csv
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING

import click

from alphaswarm_rl.cli.session import Session
from alphaswarm_rl.cli.text import as_json_line, as_json_text
from alphaswarm_rl.cli.verb import verb
from alphaswarm_rl.core.errors import OptionError
from alphaswarm_rl.core.yaml import dump_yaml

if TYPE_CHECKING:
    from alphaswarm_rl.ledger import EpisodeRow


@verb("runs.export")
@click.argument("run")
@click.option("--out", required=True, type=click.Path(path_type=Path), metavar="DIR", help="A new or empty folder.")
def export(session: Session, run: str, out: Path) -> None:
    """Write everything the ledger knows of a run into a folder.

    The files are run.json, spec.yaml, events.jsonl, evaluations.json and episodes.csv.

    Args:
        session: This call.
        run: The run's id, the beginning of it, or latest.
        out: The folder.
    """
    from alphaswarm_rl.ledger import Ledger

    with Ledger.open(session.settings) as ledger:
        row = ledger.run(run)
        version = ledger.version(row.version_id)
        events = ledger.events(row.id)
        evaluations = ledger.evaluations(row.id)
        episodes = ledger.episodes(row.id)
    _make_empty(out)
    texts = {
        "run.json": as_json_text(row.as_dict()) + "\n",
        "spec.yaml": dump_yaml(version.payload),
        "events.jsonl": "".join(f"{as_json_line(event.as_dict())}\n" for event in events),
        "evaluations.json": as_json_text([evaluation.as_dict() for evaluation in evaluations]) + "\n",
    }
    for name, text in texts.items():
        (out / name).write_text(text, encoding="utf-8")
    _write_episodes(out / "episodes.csv", episodes)
    files = [*texts, "episodes.csv"]
    session.answer({"run_id": row.id, "folder": out, "files": files}, [str(out / name) for name in files])


def _make_empty(folder: Path) -> None:
    what = f"folder {str(folder)!r}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        occupied = any(folder.iterdir())
    except OSError as error:
        raise OptionError(
            what, f"it cannot be used: {error.strerror}", "Choose a folder that you may write to."
        ) from error
    if occupied:
        raise OptionError(what, "it is not empty", "Choose a new folder: nothing is overwritten.")


def _write_episodes(path: Path, episodes: list[EpisodeRow]) -> None:
    from alphaswarm_rl.ledger import EpisodeRow

    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, [field.name for field in fields(EpisodeRow)])
        writer.writeheader()
        writer.writerows(episode.as_dict() for episode in episodes)
