"""`rl spec`, specs as files, and `rl specs`, the specs in the ledger."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from alphaswarm_rl.cli.reporting import WRONG_INPUT
from alphaswarm_rl.cli.session import Session
from alphaswarm_rl.cli.text import as_json_line, columns, pairs
from alphaswarm_rl.cli.verb import verb
from alphaswarm_rl.core.errors import in_one_line

if TYPE_CHECKING:
    from alphaswarm_rl.operations.specs import CheckedSpec


@click.group()
def spec() -> None:
    """Validate, hash, show and compare specs."""


@click.group()
def specs() -> None:
    """List the specs in the ledger and their versions."""


@verb("spec.validate", group=spec)
@click.argument("paths", nargs=-1, required=True, metavar="FILE...|DIR")
@click.option("--data", is_flag=True, help="Read their data too, and build environment and agent.")
def validate(session: Session, paths: tuple[str, ...], data: bool) -> None:
    """Check specs; every broken file is named, with the reason.

    Takes YAML files, presets and folders, which are searched for YAML files. A spec that needs a part which is not in
    this version is broken too: it could not be run. With --data files, dates, encoder and shapes are checked as well:
    everything that a training does before its first step.

    Args:
        session: This call.
        paths: What is checked.
        data: Whether data are read, and environments and agents built.
    """
    from alphaswarm_rl.operations.specs import ValidateSpecs, validate_specs

    result = validate_specs(session.load_settings, ValidateSpecs(paths, data))
    lines = [line for item in result.specs for line in _lines(item)]
    session.answer(result, lines or ["there is no YAML file"])
    if not result.passed:
        raise click.exceptions.Exit(WRONG_INPUT)


@verb("spec.hash", group=spec)
@click.argument("spec_or_run", metavar="SPEC|RUN")
def hash_spec(session: Session, spec_or_run: str) -> None:
    """Print a spec's two hashes.

    spec_hash counts every field; exec_hash leaves out names and notes and counts the versions of the components.

    Args:
        session: This call.
        spec_or_run: A YAML file, a preset or a run.
    """
    from alphaswarm_rl.operations.specs import NamedSpec, hash_spec

    result = hash_spec(session.load_settings, NamedSpec(spec_or_run))
    session.answer(result, pairs(vars(result)))


@verb("spec.show", group=spec)
@click.argument("spec_or_run", metavar="SPEC|RUN")
def show(session: Session, spec_or_run: str) -> None:
    """Print the whole spec as YAML, every field with its value.

    Args:
        session: This call.
        spec_or_run: A YAML file, a preset or a run.
    """
    from alphaswarm_rl.operations.specs import NamedSpec, show_spec

    result = show_spec(session.load_settings, NamedSpec(spec_or_run))
    session.answer(result, result.yaml.rstrip("\n").split("\n"))


@verb("spec.diff", group=spec)
@click.argument("left", metavar="SPEC|RUN")
@click.argument("right", metavar="SPEC|RUN")
def diff(session: Session, left: str, right: str) -> None:
    """Print every field in which two specs differ.

    Args:
        session: This call.
        left: A YAML file, a preset or a run.
        right: Another one.
    """
    from alphaswarm_rl.operations.specs import CompareSpecs, compare_specs

    result = compare_specs(session.load_settings, CompareSpecs(left, right))
    found = result.differences
    table = columns(
        ("FIELD", "LEFT", "RIGHT"), [(item.path, as_json_line(item.left), as_json_line(item.right)) for item in found]
    )
    session.answer(result, table if found else ["the specs are equal"])


@verb("specs.list", group=specs)
def list_specs(session: Session) -> None:
    """List the specs.

    Args:
        session: This call.
    """
    from alphaswarm_rl.operations.stored_specs import list_specs

    result = list_specs(session.settings)
    table = columns(
        ("SLUG", "NAME", "KIND", "VERSION", "UPDATED", "DESCRIPTION"),
        [(row.slug, row.name, row.kind, row.current_version, row.updated_at, row.description) for row in result.specs],
    )
    session.answer(result, table if result.specs else ["there are no specs yet"])


@verb("specs.versions", group=specs)
@click.argument("slug")
def versions(session: Session, slug: str) -> None:
    """List the versions of one spec, the oldest first.

    Args:
        session: This call.
        slug: The spec's slug.
    """
    from alphaswarm_rl.operations.stored_specs import ListVersions, list_versions

    result = list_versions(session.settings, ListVersions(slug))
    table = columns(
        ("VERSION", "ID", "SPEC HASH", "EXEC HASH", "CREATED"),
        [(row.version, row.id, row.spec_hash[:12], row.exec_hash[:12], row.created_at) for row in result.versions],
    )
    session.answer(result, table)


@verb("specs.trials", group=specs)
@click.argument("slug")
def trials(session: Session, slug: str) -> None:
    """Count the configurations of one spec that were trained.

    A trial is a configuration whatever its seed and dates. Folds, seeds, replays, resumed runs and baselines are no
    further ones; removed runs count. The best of many trials is judged by their number: docs/overfitting.md.

    Args:
        session: This call.
        slug: The spec's slug.
    """
    from alphaswarm_rl.operations.stored_specs import CountTrials, count_trials

    result = count_trials(session.settings, CountTrials(slug))
    session.answer(result, pairs(vars(result.count)))


def _lines(checked: CheckedSpec) -> list[str]:
    if checked.error is None:
        notices = [f"        notice: {notice}" for notice in checked.notices or ()]
        return [f"ok      {checked.path}  {(checked.spec_hash or '')[:12]}", *notices]
    error = checked.error
    what = "" if checked.path in error["what"] else f"{error['what']}: "
    return [f"broken  {checked.path}  {what}{in_one_line(error['why'], error['remedy'])}"]
