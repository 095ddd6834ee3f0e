"""Presets: YAML files inside the package, referred to by name."""

from __future__ import annotations

from importlib.resources import files
from typing import Any

from alphaswarm_rl.core.errors import SpecError, nearest
from alphaswarm_rl.core.yaml import load_yaml


def preset_names(folder: str) -> list[str]:
    """Names of the presets in one folder of `configs/`."""
    root = files("alphaswarm_rl") / "configs" / folder
    if not root.is_dir():
        return []
    return sorted(entry.name.removesuffix(".yaml") for entry in root.iterdir() if entry.name.endswith(".yaml"))


def load_preset(folder: str, name: str) -> Any:
    """The data of one preset."""
    if name not in preset_names(folder):
        raise SpecError(
            f"preset {name!r} of {folder}", "there is none of that name", nearest(name, preset_names(folder))
        )
    text = (files("alphaswarm_rl") / "configs" / folder / f"{name}.yaml").read_text(encoding="utf-8")
    return load_yaml(text, source=f"preset {folder}/{name}")
