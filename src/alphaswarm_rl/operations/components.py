"""The catalogue of components, listed from its mirror in the ledger.

Describing every component means importing all of them, so the ledger keeps a mirror of the descriptions. It belongs to
one fingerprint of the installed code and is renewed when that is another.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import fields, replace
from importlib.metadata import Distribution, entry_points
from importlib.util import find_spec

from alphaswarm_rl.core import catalogue
from alphaswarm_rl.core.catalogue import ENTRY_POINT_GROUP, Description
from alphaswarm_rl.core.types import JsonMapping
from alphaswarm_rl.ledger import Ledger
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


def components_fingerprint() -> str:
    """SHA-256 over the entry points, their distributions' versions and the sources of their packages.

    No component is imported for it.
    """
    digest = hashlib.sha256()
    packages = set()
    owners: dict[Distribution | None, str] = {None: ""}
    for point in sorted(entry_points(group=ENTRY_POINT_GROUP), key=lambda point: point.value):
        # The metadata of a distribution are parsed whenever they are asked for, and ours has all but a few points.
        if point.dist is not None and point.dist not in owners:
            owners[point.dist] = f"{point.dist.name} {point.dist.version}"
        digest.update(f"{point.value}\0{owners[point.dist]}\n".encode())
        packages.add(point.module.partition(".")[0])
    for package in sorted(packages):
        for name, path in _sources(package):
            with open(path, "rb", buffering=0) as file:  # noqa: PTH123  (hundreds of files: half the time)
                content = file.read()
            digest.update(f"{package}/{name}\0{len(content)}\n".encode() + content)
    return digest.hexdigest()


def _sources(package: str) -> list[tuple[str, str]]:
    """The names of a package's files below its folder, and their paths."""
    # A top-level package is found without being imported; below it Python would have to import the parents.
    found = find_spec(package)
    if found is None:
        return []  # the catalogue reports it when it looks for the components
    roots = found.submodule_search_locations or ()
    files = [
        (f"{folder}/{name}"[len(root) + 1 :], f"{folder}/{name}")
        for root in roots
        for folder, _, names in os.walk(root)
        for name in names
        if name.endswith(".py")
    ]
    if not roots and found.origin is not None:
        files = [(os.path.basename(found.origin), found.origin)]  # noqa: PTH119
    return sorted(files)


def _mirror(settings: Settings) -> list[ListedComponent]:
    fingerprint = components_fingerprint()
    with Ledger.open(settings) as ledger:
        if ledger.components_fingerprint() != fingerprint:
            described = [vars(catalogue.describe(cls)) for cls in catalogue.listing()]
            # The mirror has no column for short names: they are another way to write a component, not one.
            rows = [{**row, "tags": list(row["tags"])} for row in described]
            for row in rows:
                del row["short_names"]
            ledger.sync_components(rows, fingerprint)
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
