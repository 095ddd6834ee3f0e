"""The catalogue of components, listed from its mirror in the ledger.

Describing every component means importing all of them, so the ledger keeps a mirror of the descriptions. It belongs to
one fingerprint of the installed code and is renewed when that is another.
"""

from __future__ import annotations

from dataclasses import fields, replace

from alphaswarm_rl.core import catalogue
from alphaswarm_rl.core.catalogue import Description
from alphaswarm_rl.core.types import JsonMapping
from alphaswarm_rl.ledger import Ledger
from alphaswarm_rl.ledger.mirror import components_fingerprint, installed_components
from alphaswarm_rl.operations.data import Data
from alphaswarm_rl.operations.operation import LazySettings, operation
from alphaswarm_rl.settings import Settings


class ListComponents(Data):
    """Which components are listed.

    Attributes:
        kind: Only that kind, in any accepted spelling.
        mirrored: Whether the mirror answers; components that an operator's plug-ins brought are in the catalogue alone.
    """

    kind: str | None = None
    mirrored: bool = True


class ListedComponent(Data):
    """One component as lists show it."""

    rl_kind: str
    alias: str
    class_name: str
    module_path: str
    rl_version: int
    description: str
    tags: tuple[str, ...]
    source: str
    category: str


class ComponentList(Data, only="components"):
    """Components by kind and alias."""

    components: tuple[ListedComponent, ...]


class ShowComponent(Data):
    """One component: its kind, and its alias, class name or short name."""

    kind: str
    alias: str


@operation("components.list", changes=True)
def list_components(settings: Settings, request: ListComponents) -> ComponentList:
    """The components that specs can name; renews the mirror when the installed code is another."""
    rows = _mirror(settings) if request.mirrored else _catalogue()
    if request.kind is not None:
        rows = _of_kind(rows, request.kind)
    return ComponentList(tuple(rows))


@operation("components.show")
def show_component(settings: LazySettings, request: ShowComponent) -> Description:
    """One component and the JSON schema of its parameters; of a policy that is named as an agent, the policy's."""
    return catalogue.describe(catalogue.named(request.kind, request.alias))


def _mirror(settings: Settings) -> list[ListedComponent]:
    fingerprint = components_fingerprint()
    with Ledger.open(settings) as ledger:
        if ledger.components_fingerprint() != fingerprint:
            ledger.sync_components(installed_components(), fingerprint)
        return [_listed(vars(row)) for row in ledger.components()]


def _catalogue() -> list[ListedComponent]:
    return [_listed(vars(catalogue.describe(cls))) for cls in catalogue.listing()]


def _listed(row: JsonMapping) -> ListedComponent:
    values = {field.name: row[field.name] for field in fields(ListedComponent)}
    return ListedComponent(**{**values, "tags": tuple(values["tags"])})


def _of_kind(rows: list[ListedComponent], kind: str) -> list[ListedComponent]:
    """The components that a reference of that kind may name: those of the kind, and of the one that it carries."""
    canonical = catalogue.canonical_kind(kind)
    named = [replace(row, rl_kind=canonical) for row in rows if row.rl_kind in catalogue.naming(canonical)]
    return sorted(named, key=lambda row: row.alias)
