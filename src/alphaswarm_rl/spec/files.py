"""Finding specs: files, folders of files, presets by name."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from alphaswarm_rl.core.errors import AlphaSwarmError, SpecError, nearest
from alphaswarm_rl.core.files import checked_path
from alphaswarm_rl.core.presets import load_preset, preset_names
from alphaswarm_rl.spec.experiment import RLExperimentSpec

_PRESETS = "experiments"


@dataclass(frozen=True)
class LoadedSpecs:
    """What a folder held: the good specs and, by file, why the others are not."""

    specs: dict[Path, RLExperimentSpec]
    broken: dict[Path, AlphaSwarmError]


def load_spec(reference: str | Path) -> RLExperimentSpec:
    """The spec of a YAML file or, where no such file is, of the preset of that name."""
    path = _path(reference)
    if path.suffix in {".yaml", ".yml"} or path.parent != Path() or (path.exists() and not path.is_dir()):
        return RLExperimentSpec.from_yaml_path(path)
    names = preset_names(_PRESETS)
    if str(reference) in names:
        return RLExperimentSpec.from_data(load_preset(_PRESETS, str(reference)), source=f"preset {str(reference)!r}")
    raise SpecError(
        f"spec {str(reference)!r}", "there is no such file and no preset of that name", nearest(str(reference), names)
    )


def is_folder(reference: str | Path) -> bool:
    """Whether a reference is a folder that may hold specs."""
    try:
        return _path(reference).is_dir()
    except OSError:  # whoever reads it will say why it cannot be looked at
        return False


def load_specs_from_dir(folder: str | Path) -> LoadedSpecs:
    """Every `*.yaml` and `*.yml` below a folder; a broken file is reported by name and hides no other.

    What is hidden, such as the home folder `.alphaswarm`, is passed over.
    """
    root = _path(folder)
    if not root.is_dir():
        raise SpecError(f"folder {str(root)!r}", "it does not exist", "Check the path.")
    specs: dict[Path, RLExperimentSpec] = {}
    broken: dict[Path, AlphaSwarmError] = {}
    for path in sorted([*root.rglob("*.yaml"), *root.rglob("*.yml")]):
        if any(part.startswith(".") for part in path.relative_to(root).parts):
            continue
        try:
            specs[path] = RLExperimentSpec.from_yaml_path(path)
        except AlphaSwarmError as error:
            broken[path] = error
    return LoadedSpecs(specs, broken)


def _path(reference: str | Path) -> Path:
    try:
        return checked_path(reference)
    except ValueError as error:
        raise SpecError(f"spec {str(reference)!r:.200}", str(error), "Check the path.") from error
