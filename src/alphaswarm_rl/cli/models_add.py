"""`rl models add`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from pydantic import ValidationError

from alphaswarm_rl.cli.session import Session
from alphaswarm_rl.cli.text import pairs
from alphaswarm_rl.cli.verb import verb
from alphaswarm_rl.core.errors import ModelError
from alphaswarm_rl.core.model import explain
from alphaswarm_rl.spec import load_spec

if TYPE_CHECKING:
    from alphaswarm_rl.runtime.importing import GivenMetrics

_KEYS = "mean_reward, std_reward, episodes, mean_episode_length, total_timesteps"


@verb("models.add")
@click.argument("path", type=click.Path(path_type=Path))
@click.argument("metrics_json")
@click.option("--spec", "reference", metavar="SPEC", help="YAML file or preset of the agent that a zip is of.")
@click.option("--tag", "tags", multiple=True, metavar="TAG", help="A word to find it by; may be given again.")
@click.option("--parent", type=int, metavar="ID", help="The model that it was trained on from, of the same scope.")
def add(
    session: Session,
    path: Path,
    metrics_json: str,
    reference: str | None,
    tags: tuple[str, ...],
    parent: int | None,
) -> None:
    """Register a model that was not trained here, with its metrics.

    PATH is a checkpoint folder, or a zip that Stable-Baselines3 saved, which needs --spec: its weights are copied into
    a checkpoint, nothing else of it is read, and nothing in it is run. METRICS_JSON is a file or the JSON itself, with
    mean_reward, std_reward, episodes, mean_episode_length and total_timesteps; returns, seed and window: {start, end}
    may be there too. The model is not validated yet: rl models validate ID.

    Args:
        session: This call.
        path: The folder or the zip.
        metrics_json: A file, or the JSON itself.
        reference: The spec of a zip.
        tags: Words to find it by.
        parent: The model that it was trained on from.
    """
    metrics = _metrics(metrics_json)
    spec = None if reference is None else load_spec(reference)

    from alphaswarm_rl.models.registry import ModelRegistry
    from alphaswarm_rl.runtime.importing import add_model

    with ModelRegistry.open(session.settings) as registry:
        row = add_model(registry, session.settings, path, metrics, spec=spec, tags=tags, parent_model_id=parent)
    shown = {
        "model": row.id,
        "path": row.model_path,
        "sha256": row.sha256,
        "algorithm": row.algorithm,
        "scope": str(row.scope),
        "parent": row.parent_model_id,
        "mean_reward": row.mean_reward,
        "lower_bound": row.lower_bound,
        "validated": row.validated,
    }
    session.answer({**row.as_dict(), "scope": row.scope.short}, pairs(shown))


def _metrics(text: str) -> GivenMetrics:
    from alphaswarm_rl.runtime.importing import GivenMetrics

    try:
        return GivenMetrics.model_validate(_json(text))
    except ValidationError as error:
        raise ModelError("the metrics", explain(error, GivenMetrics), f"They are {_KEYS}.") from error


def _json(text: str) -> Any:
    if text.lstrip().startswith("{"):
        what, content = "the metrics", text
    else:
        what = f"metrics file {text!r}"
        try:
            content = Path(text).expanduser().read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ModelError(what, f"it cannot be read: {error}", "Give a JSON file, or the JSON itself.") from error
    try:
        return json.loads(content)
    except json.JSONDecodeError as error:
        raise ModelError(what, f"it is no JSON: {error}", f"Write a mapping of {_KEYS}.") from error
