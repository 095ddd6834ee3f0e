"""A hash over everything the catalogue is made from, without importing a component."""

from __future__ import annotations

import hashlib
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path

from alphaswarm_rl.core.catalogue import ENTRY_POINT_GROUP


def components_fingerprint() -> str:
    """SHA-256 over the entry points, their distributions' versions and the sources of their packages."""
    digest = hashlib.sha256()
    packages = set()
    for point in sorted(entry_points(group=ENTRY_POINT_GROUP), key=lambda point: point.value):
        owner = "" if point.dist is None else f"{point.dist.name} {point.dist.version}"
        digest.update(f"{point.value}\0{owner}\n".encode())
        packages.add(point.module.partition(".")[0])
    for package in sorted(packages):
        for name, content in _sources(package):
            digest.update(f"{package}/{name}\0{hashlib.sha256(content).hexdigest()}\n".encode())
    return digest.hexdigest()


def _sources(package: str) -> list[tuple[str, bytes]]:
    # A top-level package is found without being imported; below it Python would have to import the parents.
    found = find_spec(package)
    if found is None:
        return []  # the catalogue reports it when it looks for the components
    roots = [Path(place) for place in found.submodule_search_locations or ()]
    files = [(path.relative_to(root).as_posix(), path) for root in roots for path in root.rglob("*.py")]
    if not roots and found.origin is not None:
        files = [(Path(found.origin).name, Path(found.origin))]
    return [(name, path.read_bytes()) for name, path in sorted(files)]
