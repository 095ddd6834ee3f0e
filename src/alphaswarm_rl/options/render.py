"""The table for readers: terminal, JSON, Nix and Markdown."""

from __future__ import annotations

import json
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

from alphaswarm_rl.core.errors import OptionError, nearest
from alphaswarm_rl.core.types import JsonObject
from alphaswarm_rl.options.option import Feature, Option
from alphaswarm_rl.options.table import FEATURES, options_of
from alphaswarm_rl.options.types import SCIENTIFIC, OptionType

COLUMNS = ("Option", "Type", "Default", "ENV", "Flag", "Sets", "Description")

_WHOLE_MODULE = "RL"


def introspect(module_path: str | None = None) -> tuple[Feature, ...]:
    """The features that a module path means, such as `Modules/Computation/Services/RL` or `RL/Universe/Env`.

    Args:
        module_path: A path that ends in RL (all features) or in a feature's name (that one); None means all.
    """
    if module_path is None:
        return FEATURES
    last = module_path.rstrip("/").rpartition("/")[2]
    if last in ("", _WHOLE_MODULE):
        return FEATURES
    found = tuple(feature for feature in FEATURES if feature.name.lower() == last.lower())
    if not found:
        names = [_WHOLE_MODULE, *(feature.name for feature in FEATURES)]
        raise OptionError(f"module {module_path!r}", "it is not RL or a feature of it", nearest(last, names))
    return found


def rows(feature: Feature) -> list[tuple[str, ...]]:
    """The options of one feature as rows under `COLUMNS`."""
    return [
        (
            option.key,
            option.type.name,
            show(option.default, option.type),
            option.env[0],
            option.flags,
            f"{option.target} {option.path}",
            _description(option),
        )
        for option in options_of(feature)
    ]


def as_json(features: Sequence[Feature] = FEATURES) -> list[dict[str, Any]]:
    """The features with their options as plain data."""
    return [
        {
            "feature": feature.name,
            "purpose": feature.purpose,
            "signature": feature.signature,
            "category": feature.category,
            "options": [_json_option(option) for option in options_of(feature)],
        }
        for feature in features
    ]


def as_nix(features: Sequence[Feature] = FEATURES) -> str:
    """The features as a module of the Nix module system that declares every option."""
    lines = ["# Generated from the table of options by `rl options --nix`.", "{ lib, ... }:", "{"]
    for feature in features:
        lines.append(f"  # {feature.name}: {feature.purpose}. {feature.signature} ({feature.category})")
        for option in options_of(feature):
            default = scientific(option.default) if option.type is SCIENTIFIC else option.default
            lines += [
                f"  options.rl.{option.key} = lib.mkOption {{",
                f"    type = {option.type.nix};",
                f"    default = {nix_value(default)};",
                f"    description = {nix_value(_description(option))};",
                "  };",
            ]
    return "\n".join([*lines, "}", ""])


def as_markdown(features: Sequence[Feature] = FEATURES) -> str:
    """The features as Markdown, a table each, with every accepted ENV name."""
    blocks = []
    for feature in features:
        lines = [
            f"## {feature.name}",
            "",
            f"{feature.purpose}. `{feature.signature}`, {feature.category}.",
            "",
            "| Option | Type | Default | ENV | Flag | Sets | Description |",
            "|---|---|---|---|---|---|---|",
        ]
        for option in options_of(feature):
            names = ", ".join(f"`{name}`" for name in option.env)
            cells = (
                f"`{option.key}`",
                option.type.name,
                f"`{show(option.default, option.type)}`",
                names,
                f"`{option.flags}`",
                f"{option.target} `{option.path}`",
                _description(option),
            )
            lines.append(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |")
        blocks.append("\n".join(lines))
    return "\n\n".join(blocks) + "\n"


def show(value: object, type_: OptionType) -> str:
    """A default as a user would write it."""
    if type_ is SCIENTIFIC and isinstance(value, float):
        return scientific(value)
    if isinstance(value, str | Path):
        return str(value)
    return json.dumps(value)


def nix_value(value: object) -> str:
    """A plain value as a Nix expression."""
    if value is None:
        return "null"
    if isinstance(value, bool | int | float):
        return json.dumps(value)
    if isinstance(value, list | tuple):
        return " ".join(["[", *(nix_value(item) for item in value), "]"])
    text = str(value).replace("\\", "\\\\").replace('"', '\\"').replace("${", "\\${")
    return f'"{text}"'


def scientific(number: float) -> str:
    """A number with an exponent and no more digits than it needs, such as 3e-4."""
    sign, digits, exponent = Decimal(repr(number)).normalize().as_tuple()
    first, *rest = map(str, digits)
    mantissa = f"{first}.{''.join(rest)}" if rest else first
    return f"{'-' if sign else ''}{mantissa}e{int(exponent) + len(rest)}"


def _description(option: Option) -> str:
    return f"{option.description} Waits for {option.part}." if option.part else option.description


def _json_option(option: Option) -> JsonObject:
    default = option.default
    if isinstance(default, Path):
        default = str(default)
    return {
        "name": option.name,
        "key": option.key,
        "type": option.type.name,
        "choices": list(option.type.choices),
        "default": list(default) if isinstance(default, tuple) else default,
        "env": list(option.env_names),
        "flag": option.flags,
        "target": option.target,
        "path": option.path,
        "description": option.description,
        "part": option.part,
    }
