"""The catalogue: every component class by (kind, alias).

Classes register themselves when they are defined (`core.component`). Our own are found through an index: the entry
points of our distribution in the group `alphaswarm_rl.components`, each `kind.name = module:Class`, so that one lookup
imports one module and nothing here names a higher layer. Other distributions' modules of that group are imported whole,
once a name is not in the index or everything is listed.
"""

from __future__ import annotations

import inspect
import re
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, PackageNotFoundError, distribution, entry_points
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from alphaswarm_rl.core.errors import AlphaSwarmError, ComponentError, DuplicateComponent, UnknownComponent, nearest
from alphaswarm_rl.core.model import explain
from alphaswarm_rl.core.types import JsonMapping, JsonObject

if TYPE_CHECKING:
    from alphaswarm_rl.core.component import RLComponent

ENTRY_POINT_GROUP = "alphaswarm_rl.components"
DISTRIBUTION = "alphaswarm-rl"

_kinds: dict[str, type[RLComponent]] = {}
_components: dict[tuple[str, str], type[RLComponent]] = {}
_names: dict[tuple[str, str], tuple[str, str]] = {}  # (kind, any accepted name, lower case) -> (alias, name as written)
_lock = threading.RLock()
_others_imported = False
_plugins: dict[str, None] = {}  # a set that keeps its order


@dataclass(frozen=True)
class Description:
    """What listings show of a component; plain data, so that a table can mirror it."""

    rl_kind: str
    alias: str
    module_path: str
    class_name: str
    rl_version: int
    description: str
    tags: tuple[str, ...]
    source: str
    category: str
    short_names: tuple[str, ...]
    schema: JsonObject


def register_kind(cls: Any, bases: tuple[type, ...]) -> None:
    """Takes the abstract base of a new kind. Called by the metaclass."""
    kind = cls.rl_kind
    inherited = next((base.rl_kind for base in bases if hasattr(base, "rl_kind")), None)
    if inherited is not None:
        raise ComponentError(
            f"class {cls.__qualname__}",
            f"it sets rl_kind {kind!r} although its base already is of kind {inherited!r}",
            "Set rl_kind once, in the abstract base of the kind.",
        )
    with _lock:
        known = _kinds.get(kind)
        if known is not None and _path(known) != _path(cls):
            raise DuplicateComponent(
                f"kind {kind!r}", f"{_path(known)} and {_path(cls)} both declare it", "Rename one."
            )
        _kinds[kind] = cls


def register(cls: Any) -> None:
    """Takes a component class. Called by the metaclass; a taken (kind, name) is an error."""
    kind: str | None = getattr(cls, "rl_kind", None)
    alias: str = cls.rl_alias
    if kind is None:
        raise ComponentError(
            f"component {alias!r} ({_path(cls)})", "it has no kind", "Derive it from the base of a kind."
        )
    if not (cls.__doc__ or "").strip() or "__doc__" not in cls.__dict__:
        raise ComponentError(
            f"component {alias!r} ({_path(cls)})", "it has no docstring", "Say in one line what it is."
        )
    with _lock:
        # One class is known by its alias, its class name and its short names; all must be free within the kind, and in
        # the kinds that share their names with it.
        for name in (alias, cls.__name__, *cls.rl_short_names):
            owner = _owner_beside(cls, name)
            if owner is not None:
                why = f"{owner} and {_path(cls)} both claim it"
                raise DuplicateComponent(f"{kind} {name!r}", why, "Give one of them another rl_alias.")
        _components[kind, alias] = cls
        for name in (alias, cls.__name__, *cls.rl_short_names):
            _names[kind, name.lower()] = (alias, name)


def _owner_beside(cls: Any, name: str) -> str | None:
    """The other class that a name belongs to already; None where it is free, or this class's own."""
    carriers = [kind for kind, base in _kinds.items() if base.rl_carries == cls.rl_kind]
    for key in _keys((*naming(cls.rl_kind), *carriers), name):
        indexed, taken = _index().get(key), _names.get(key)
        if indexed is not None and indexed.value != f"{cls.__module__}:{cls.__qualname__}":
            return indexed.value.replace(":", ".")
        known = None if taken is None else _components[key[0], taken[0]]
        if known is not None and (known.rl_alias != cls.rl_alias or _path(known) != _path(cls)):
            return _path(known)
    return None


@cache
def _index() -> dict[tuple[str, str], EntryPoint]:
    """Our own components by kind and accepted name in lower case, as text: nothing is imported."""
    try:
        points = distribution(DISTRIBUTION).entry_points.select(group=ENTRY_POINT_GROUP)
    except PackageNotFoundError:  # a source tree on the path: what was imported is all there is
        return {}
    by_name = {(kind, name.lower()): point for point in points for kind, _, name in [point.name.partition(".")]}
    by_class = {(kind, point.attr.lower()): point for (kind, _), point in by_name.items()}
    return by_class | by_name


def _import(point: EntryPoint) -> None:
    """Imports the module of an entry point; one that cannot be imported is an error."""
    try:
        import_module(point.module)
    except ImportError as error:
        owner = point.dist.name if point.dist is not None else "an unknown distribution"
        raise ComponentError(
            f"component module {point.module!r} of {owner}",
            f"it cannot be imported: {error}",
            f"Mend or uninstall {owner}.",
        ) from error


def _import_others() -> None:
    """Imports every module that other distributions name, once."""
    global _others_imported
    with _lock:
        if not _others_imported:
            ours = {point.value for point in _index().values()}
            points = (point for point in entry_points(group=ENTRY_POINT_GROUP) if point.value not in ours)
            for point in sorted(points, key=lambda point: point.value):
                _import(point)
            _others_imported = True


def discover() -> None:
    """Imports every module of components that is installed."""
    with _lock:
        for point in sorted(_index().values(), key=lambda point: point.value):
            _import(point)
        _import_others()


def load_plugins(modules: Iterable[str]) -> None:
    """Imports modules of components that an operator named; a spec never can."""
    for module in modules:
        load_plugin(module)


def plugins() -> tuple[str, ...]:
    """The modules of components that were named and imported in this process, in their order."""
    return tuple(_plugins)


def load_plugin(module: str) -> None:
    """Imports a module of components that an operator named; a spec never can."""
    if not all(word.isidentifier() for word in module.split(".")):
        raise ComponentError(
            f"plug-in {module!r}", "it is not the name of a module", "Write it as in import: my_package.my_module."
        )
    try:
        import_module(module)
    except AlphaSwarmError:
        raise
    except Exception as error:
        raise ComponentError(
            f"plug-in {module!r}", f"it cannot be imported: {error!r}", "Check the name, the path and the module."
        ) from error
    _plugins[module] = None


def _naming_plugins() -> str:
    """Where components of one's own are named: for the remedy of a name that nobody has."""
    if _plugins:
        return f"Plug-ins that were imported: {', '.join(_plugins)}."
    return (
        "One of your own is in a module that is named by --plugin MODULE, ALPHASWARM_RL_PLUGINS, or plugins: [MODULE] "
        "in settings.yaml."
    )


def canonical_kind(kind: str) -> str:
    """The kind that a user's spelling means: `rl_env`, `data-pipeline` and `rl_data` are accepted."""
    import alphaswarm_rl.core.kinds  # noqa: F401  (declares the kinds)

    name = kind.lower().replace("-", "_").replace(" ", "_").removeprefix("rl_")
    name = "data_pipeline" if name == "data" else name
    if name not in _kinds:
        _import_others()
    if name not in _kinds:
        raise UnknownComponent(f"kind {kind!r}", "there is no such kind", nearest(name, _kinds))
    return name


def kinds() -> dict[str, type[RLComponent]]:
    """Every kind with its abstract base."""
    import alphaswarm_rl.core.kinds  # noqa: F401  (declares ours)

    _import_others()
    return dict(sorted(_kinds.items()))


def get(kind: str, name: str) -> type[RLComponent]:
    """The component class of that kind and name (alias, class name or short name)."""
    found = named(kind, name)
    return found if found.rl_kind == canonical_kind(kind) else get(kind, found.rl_kind)


def named(kind: str, name: str) -> type[RLComponent]:
    """The same, but where a name is of the kind that this one carries, what has that name: the policy of an agent."""
    owner, alias, _ = _lookup(canonical_kind(kind), name)
    return _components[owner, alias]


def _lookup(kind: str, name: str) -> tuple[str, str, str]:
    """Kind and alias of the component that a name means, and the name as its class writes it."""
    kinds = naming(kind)
    found = _known(kinds, name)
    if found is None:
        with _lock:
            point = next((_index()[key] for key in _keys(kinds, name) if key in _index()), None)
            _import(point) if point is not None else _import_others()
        found = _known(kinds, name) or _foreign(kind, name)
    if found is None:
        discover()
        names = [
            name for cls in _components.values() if cls.rl_kind in kinds for name in (cls.rl_alias, *cls.rl_short_names)
        ]
        if not names:
            raise UnknownComponent(
                f"{kind} {name!r}",
                f"no component of kind {kind!r} is installed: that part is not there yet",
                "Leave it out.",
            )
        remedy = f"{nearest(name, names)} {_naming_plugins()}"
        raise UnknownComponent(f"{kind} {name!r}", "the catalogue has no such component", remedy)
    return found


def _foreign(kind: str, name: str) -> tuple[str, str, str] | None:
    """The component that takes names of another library, where this is one."""
    foreign = _kinds[kind].rl_foreign_names
    if foreign is None or re.fullmatch(foreign[0], name) is None:
        return None
    return kind, _lookup(kind, foreign[1])[1], name


def naming(kind: str) -> tuple[str, ...]:
    """The kinds whose names a reference of that kind may use: its own, then the one that it carries."""
    carried = _kinds[kind].rl_carries
    return (kind,) if carried is None else (kind, carried)


def _keys(kinds: tuple[str, ...], name: str) -> list[tuple[str, str]]:
    return [(kind, name.lower()) for kind in kinds]


def _known(kinds: tuple[str, ...], name: str) -> tuple[str, str, str] | None:
    return next(((key[0], *_names[key]) for key in _keys(kinds, name) if key in _names), None)


def expand(kind: str, name: str, kwargs: JsonMapping) -> tuple[type[RLComponent], dict[str, Any]]:
    """The class and the keyword arguments that a reference means, short names written out."""
    kind = canonical_kind(kind)
    owner, alias, written = _lookup(kind, name)
    if owner != kind:
        return get(kind, owner), {owner: {"class": name, "kwargs": dict(kwargs)}}
    cls = _components[kind, alias]
    if written not in (cls.rl_alias, cls.__name__):
        alias, kwargs = cls.rl_expand(written, kwargs)
        cls = get(kind, alias)
    return cls, dict(kwargs)


def listing(kind: str | None = None) -> list[type[RLComponent]]:
    """Every registered class, of one kind or of all, in a stable order."""
    discover()
    only = None if kind is None else canonical_kind(kind)
    return [cls for _, cls in sorted(_components.items()) if only in (None, cls.rl_kind)]


def describe(cls: type[RLComponent]) -> Description:
    """The component as listings and forms show it."""
    return Description(
        rl_kind=cls.rl_kind,
        alias=cls.rl_alias,
        module_path=cls.__module__,
        class_name=cls.__name__,
        rl_version=cls.rl_version,
        description=inspect.cleandoc(cls.__doc__ or "").partition("\n")[0],
        tags=cls.rl_tags,
        source=cls.rl_source,
        category=cls.rl_category,
        short_names=cls.rl_short_names,
        schema=cls.Config.model_json_schema(by_alias=True),
    )


def configure(kind: str, name: str, kwargs: JsonMapping, *, stored: bool = False) -> tuple[type[RLComponent], Any]:
    """The class and its validated Config; parameters it does not take are an error that names the nearest.

    Args:
        kind: Kind of the component.
        name: Its alias, class name or a short name.
        kwargs: Its parameters.
        stored: Whether they come from a stored document, where a parameter that is missing is younger than it.
    """
    cls, expanded = expand(kind, name, kwargs)
    try:
        return cls, cls.Config.model_validate(expanded, context={"stored": stored})
    except ValidationError as error:
        raise ComponentError(
            f"{cls.rl_kind} {cls.rl_alias!r}",
            explain(error, cls.Config),
            f"Its parameters: rl components show {cls.rl_kind} {cls.rl_alias}.",
        ) from error


def _path(cls: Any) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"
