"""Specs as files (`spec.*`) and as rows of the ledger (`specs.*`).

`SPEC|RUN` is a YAML file, a preset or a run; a run's spec is its stored version.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from alphaswarm_rl.core.errors import AlphaSwarmError
from alphaswarm_rl.core.types import JsonObject
from alphaswarm_rl.operations.data import Data
from alphaswarm_rl.operations.operation import LazySettings, operation
from alphaswarm_rl.operations.references import pinned_spec, spec_of
from alphaswarm_rl.spec import RLExperimentSpec, diff_specs, is_folder, load_spec, load_specs_from_dir, refuse_absent
from alphaswarm_rl.spec.diff import Difference


class ValidateSpecs(Data):
    """Which specs are checked.

    Attributes:
        paths: YAML files, presets, and folders that are searched for YAML files.
        data: Whether their data are read and their environments and agents built, as a training would.
    """

    paths: tuple[str, ...]
    data: bool = False


class CheckedSpec(Data, unless_null=("slug", "spec_hash", "error", "notices")):
    """One spec that was checked: its slug and hash, or the error that breaks it; with its data also the notices."""

    path: str
    slug: str | None = None
    spec_hash: str | None = None
    error: JsonObject | None = None
    notices: tuple[str, ...] | None = None


class CheckedSpecs(Data):
    """Every spec that was found, in the order of the paths, and how many of them are broken."""

    specs: tuple[CheckedSpec, ...]
    broken: int

    @property
    def passed(self) -> bool:
        """Whether there were specs, and none is broken."""
        return bool(self.specs) and not self.broken


class NamedSpec(Data):
    """A spec by the words that name it: a YAML file, a preset or a run."""

    spec_or_run: str


class SpecHashes(Data):
    """The two hashes of a spec."""

    spec_hash: str
    exec_hash: str


class WholeSpec(Data, only="data"):
    """A spec with every field, as data and as YAML."""

    data: JsonObject
    yaml: str


class CompareSpecs(Data):
    """Two specs by the words that name them."""

    left: str
    right: str


class Differences(Data, only="differences"):
    """Every field in which two specs differ, by path."""

    differences: tuple[Difference, ...]


@operation("spec.validate")
def validate_specs(settings: LazySettings, request: ValidateSpecs) -> CheckedSpecs:
    """Checks specs; one that needs a part which is not in this version is broken too: it could not be run."""
    check = _rehearsed if request.data else _runnable
    checked = tuple(found for path in request.paths for found in _check(settings, path, check))
    return CheckedSpecs(checked, sum(found.error is not None for found in checked))


@operation("spec.hash")
def hash_spec(settings: LazySettings, request: NamedSpec) -> SpecHashes:
    """A spec's two hashes."""
    spec = spec_of(settings, request.spec_or_run)
    return SpecHashes(spec.spec_hash, spec.exec_hash)


@operation("spec.show")
def show_spec(settings: LazySettings, request: NamedSpec) -> WholeSpec:
    """The whole spec, every field with its value."""
    spec = spec_of(settings, request.spec_or_run)
    return WholeSpec(spec.as_data(), spec.to_yaml())


@operation("spec.diff")
def compare_specs(settings: LazySettings, request: CompareSpecs) -> Differences:
    """Every field in which two specs differ."""
    return Differences(tuple(diff_specs(spec_of(settings, request.left), spec_of(settings, request.right))))


def _check(
    settings: LazySettings, reference: str, check: Callable[[LazySettings, str, RLExperimentSpec], CheckedSpec]
) -> list[CheckedSpec]:
    try:
        if not is_folder(reference):
            return [check(settings, reference, load_spec(reference))]
    except AlphaSwarmError as error:
        return [CheckedSpec(reference, error=error.as_dict())]
    loaded = load_specs_from_dir(reference)
    checked = {path: check(settings, str(path), spec) for path, spec in loaded.specs.items()}
    checked |= {path: CheckedSpec(str(path), error=error.as_dict()) for path, error in loaded.broken.items()}
    return [checked[path] for path in sorted(checked)]


def _runnable(settings: LazySettings, path: str, spec: RLExperimentSpec) -> CheckedSpec:
    try:
        refuse_absent(spec)
        spec = pinned_spec(settings, spec)
    except AlphaSwarmError as error:
        return CheckedSpec(path, error=error.as_dict())
    return CheckedSpec(path, spec.slug, spec.spec_hash)


def _rehearsed(settings: LazySettings, path: str, spec: RLExperimentSpec) -> CheckedSpec:
    """A spec whose training was gone through up to its first step: files, dates, encoder and shapes are right."""
    from alphaswarm_rl.runtime import RLRuntime

    found = _runnable(settings, path, spec)
    if found.error is not None:
        return found
    try:
        plan = RLRuntime(spec, settings()).rehearse()
    except AlphaSwarmError as error:
        return CheckedSpec(path, error=error.as_dict())
    return replace(found, notices=plan.notices)
