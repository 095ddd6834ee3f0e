"""The table of options, for readers."""

from __future__ import annotations

from typing import Literal

from alphaswarm_rl.core.types import JsonObject
from alphaswarm_rl.operations.data import Data
from alphaswarm_rl.operations.operation import LazySettings, operation
from alphaswarm_rl.options.render import COLUMNS, as_json, as_markdown, as_nix, introspect, rows


class ListOptions(Data):
    """Which options are listed, and in what form besides data.

    Attributes:
        module_path: One feature, such as RL/Train; None or a path that ends in RL means all.
        form: Another form: a module of the Nix module system, or Markdown.
    """

    module_path: str | None = None
    form: Literal["nix", "markdown"] | None = None


class OptionTable(Data):
    """The options of one feature: its title, and a line of cells for each option."""

    title: str
    rows: tuple[tuple[str, ...], ...]


class OptionListing(Data):
    """The options by feature.

    Attributes:
        features: Every feature with its options, as data.
        columns: Titles of the tables.
        tables: The same for people.
        text: The other form that was requested.
    """

    features: tuple[JsonObject, ...]
    columns: tuple[str, ...]
    tables: tuple[OptionTable, ...]
    text: str | None = None


@operation("options")
def list_options(settings: LazySettings, request: ListOptions) -> OptionListing:
    """Lists every option with its ENV name, flag and Nix name."""
    features = introspect(request.module_path)
    tables = tuple(
        OptionTable(f"{found.name}: {found.purpose}. {found.signature} ({found.category})", tuple(rows(found)))
        for found in features
    )
    text = None if request.form is None else as_nix(features) if request.form == "nix" else as_markdown(features)
    return OptionListing(tuple(as_json(features)), COLUMNS, tables, text)
