"""`rl spec`: specs as files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from alphaswarm_rl.cli.reporting import WRONG_INPUT
from alphaswarm_rl.cli.session import Session
from alphaswarm_rl.cli.text import as_json_line, columns, pairs
from alphaswarm_rl.cli.verb import verb
from alphaswarm_rl.core.errors import AlphaSwarmError
from alphaswarm_rl.operations.references import spec_of
from alphaswarm_rl.spec import RLExperimentSpec, diff_specs, load_spec, load_specs_from_dir, refuse_absent


@click.group()
def spec() -> None:
    """Validate, hash, show and compare specs."""


@verb("spec.validate", group=spec)
@click.argument("paths", nargs=-1, required=True, metavar="FILE...|DIR")
def validate(session: Session, paths: tuple[str, ...]) -> None:
    """Check specs; every broken file is named, with the reason.

    Takes YAML files, presets and folders, which are searched for YAML files. A spec that needs a part which is not in
    this version is broken too: it could not be run.

    Args:
        session: This call.
        paths: What is checked.
    """
    findings = [finding for path in paths for finding in _check(path)]
    broken = [finding for finding in findings if "error" in finding]
    lines = [_line(finding) for finding in findings]
    session.answer({"specs": findings, "broken": len(broken)}, lines or ["there is no YAML file"])
    if broken or not findings:
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
    found = spec_of(session.load_settings, spec_or_run)
    document = {"spec_hash": found.spec_hash, "exec_hash": found.exec_hash}
    session.answer(document, pairs(document))


@verb("spec.show", group=spec)
@click.argument("spec_or_run", metavar="SPEC|RUN")
def show(session: Session, spec_or_run: str) -> None:
    """Print the whole spec as YAML, every field with its value.

    Args:
        session: This call.
        spec_or_run: A YAML file, a preset or a run.
    """
    found = spec_of(session.load_settings, spec_or_run)
    session.answer(found.as_data(), [found.to_yaml().rstrip("\n")])


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
    differences = diff_specs(spec_of(session.load_settings, left), spec_of(session.load_settings, right))
    table = columns(
        ("FIELD", "LEFT", "RIGHT"),
        [(item.path, as_json_line(item.left), as_json_line(item.right)) for item in differences],
    )
    session.answer([vars(item) for item in differences], table if differences else ["the specs are equal"])


def _check(reference: str) -> list[dict[str, Any]]:
    if not Path(reference).is_dir():
        try:
            return [_finding(reference, load_spec(reference))]
        except AlphaSwarmError as error:
            return [_broken(reference, error)]
    loaded = load_specs_from_dir(reference)
    findings = {path: _finding(str(path), good) for path, good in loaded.specs.items()}
    findings |= {path: _broken(str(path), error) for path, error in loaded.broken.items()}
    return [findings[path] for path in sorted(findings)]


def _finding(path: str, good: RLExperimentSpec) -> dict[str, Any]:
    try:
        refuse_absent(good)
    except AlphaSwarmError as error:
        return _broken(path, error)
    return {"path": path, "slug": good.slug, "spec_hash": good.spec_hash}


def _broken(path: str, error: AlphaSwarmError) -> dict[str, Any]:
    return {"path": path, "error": error.as_dict()}


def _line(finding: dict[str, Any]) -> str:
    if "error" not in finding:
        return f"ok      {finding['path']}  {finding['spec_hash'][:12]}"
    error = finding["error"]
    what = "" if finding["path"] in error["what"] else f"{error['what']}: "
    return f"broken  {finding['path']}  {what}{error['why']}. {error['remedy']}"
