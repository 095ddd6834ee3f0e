"""What the ledger's mirror of the catalogue is made of: the installed components, and a fingerprint of their code."""

from __future__ import annotations

import hashlib
import logging
import os
from functools import cache
from importlib.metadata import Distribution, entry_points
from importlib.util import find_spec

from alphaswarm_rl.core import catalogue
from alphaswarm_rl.core.catalogue import ENTRY_POINT_GROUP
from alphaswarm_rl.core.errors import ComponentError
from alphaswarm_rl.core.types import JsonObject
from alphaswarm_rl.ledger.components import ComponentTables

_log = logging.getLogger(__name__)


def fill_mirror(ledger: ComponentTables) -> None:
    """Fills a mirror that is empty; one that is there is renewed by whoever lists components.

    What is broken in a component that nobody asked for ends nothing: it is logged, and said again by the list.
    """
    if ledger.components_fingerprint() is not None:
        return
    try:
        rows = installed_components()
    except ComponentError as error:
        _log.warning("the list of components is not stored: %s", error)
        return
    ledger.sync_components(rows, components_fingerprint())


@cache
def installed_components() -> tuple[JsonObject, ...]:
    """The rows of the mirror. Components that a plug-in or a running program brought are none of them."""
    packages = {point.module.partition(".")[0] for point in entry_points(group=ENTRY_POINT_GROUP)}
    found = [cls for cls in catalogue.listing() if cls.__module__.partition(".")[0] in packages]
    rows = [{**vars(catalogue.describe(cls)), "tags": list(cls.rl_tags)} for cls in found]
    for row in rows:
        # There is no column for short names: they are another way to write a component, not one.
        del row["short_names"]
    return tuple(rows)


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
