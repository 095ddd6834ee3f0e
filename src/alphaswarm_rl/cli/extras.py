"""Extras of this distribution: which are installed, and how to get the others."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, requires, version

_DISTRIBUTION = "alphaswarm-rl"
_REQUIREMENT = re.compile(r"""(?P<name>[A-Za-z0-9._-]+).*\bextra\s*==\s*["'](?P<extra>[^"']+)["']""")
#: For those who work on this project itself, or made of the others.
_NOT_SHOWN = ("dev", "all")


@dataclass(frozen=True)
class Extra:
    """One extra and what of it is not installed."""

    name: str
    missing: tuple[str, ...]

    @property
    def command(self) -> str:
        """How to install it."""
        return f"pip install '{_DISTRIBUTION}[{self.name}]'"


def extras() -> list[Extra]:
    """Every extra that a user may want, by name."""
    wanted: dict[str, list[str]] = {}
    for extra, requirement in _requirements():
        wanted.setdefault(extra, []).append(requirement)
    return [
        Extra(name, tuple(requirement for requirement in wanted[name] if not _is_installed(requirement)))
        for name in sorted(wanted)
    ]


def _requirements() -> Iterator[tuple[str, str]]:
    for line in requires(_DISTRIBUTION) or ():
        match = _REQUIREMENT.match(line)
        if match is not None and match["extra"] not in _NOT_SHOWN:
            yield match["extra"], match["name"]


def _is_installed(distribution: str) -> bool:
    try:
        version(distribution)
    except PackageNotFoundError:
        return False
    return True
