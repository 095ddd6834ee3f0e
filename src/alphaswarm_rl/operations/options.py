"""The table of options, for readers."""

from __future__ import annotations

from typing import Literal

from alphaswarm_rl.core.types import JsonObject
from alphaswarm_rl.operations.data import Data
from alphaswarm_rl.operations.operation import LazySettings, RequestError, operation
from alphaswarm_rl.options.render import COLUMNS, as_json, as_markdown, as_nix, introspect, rows


class ListOptions(Data):
    """Which options are listed, and in what form besides data.

    Attributes:
        module_path: One feature, such as RL/Train; None or a path that ends in RL means all.
        forms: The form, one at most: data, a module of the Nix module system, or Markdown; none means data.
    """

    module_path: str | None = None
    forms: tuple[Literal["json", "nix", "markdown"], ...] = ()


class OptionTable(Data):
    """The options of one feature: its title, and a line of cells for each option."""

    title: str
    rows: tuple[tuple[str, ...], ...]


class OptionListing(Data, only="features"):
    """The options by feature.

    Attributes:
        features: Every feature with its options, as data.
        columns: Titles of the tables.
        tables: The same for people.
    """

    features: tuple[JsonObject, ...]
    columns: tuple[str, ...]
    tables: tuple[OptionTable, ...]


class OptionText(Data, only="text"):
    """The options as Nix or Markdown."""

    text: str


@operation("options")
def list_options(settings: LazySettings, request: ListOptions) -> OptionListing | OptionText:
    """Lists every option with its ENV name, flag and Nix name."""
    if len(request.forms) > 1:
        raise RequestError("give one of --json, --nix and --markdown")
    features = introspect(request.module_path)
    if "nix" in request.forms or "markdown" in request.forms:
        return OptionText(as_nix(features) if "nix" in request.forms else as_markdown(features))
    tables = tuple(
        OptionTable(f"{found.name}: {found.purpose}. {found.signature} ({found.category})", tuple(rows(found)))
        for found in features
    )
    return OptionListing(tuple(as_json(features)), COLUMNS, tables)
