"""The component base: a class with an alias of its own registers itself."""

from __future__ import annotations

import abc
import inspect
from typing import Any, ClassVar

from alphaswarm_rl.core import catalogue
from alphaswarm_rl.core.errors import ComponentError
from alphaswarm_rl.core.model import FrozenModel
from alphaswarm_rl.core.types import JsonMapping, JsonObject


class ComponentConfig(FrozenModel):
    """Parameters of one component: frozen, and closed to unknown keys."""


class RLComponentMeta(abc.ABCMeta):
    """Registers a kind when a class sets `rl_kind`, and a component when it sets `rl_alias` and nothing is abstract."""

    def __init__(cls, name: str, bases: tuple[type, ...], namespace: JsonObject, **kwargs: Any) -> None:
        super().__init__(name, bases, namespace, **kwargs)
        if "rl_kind" in namespace:
            catalogue.register_kind(cls, bases)
        if "rl_alias" in namespace:
            if inspect.isabstract(cls):
                missing = ", ".join(sorted(cls.__abstractmethods__))
                raise ComponentError(
                    f"component {namespace['rl_alias']!r} ({cls.__module__}.{name})",
                    f"it leaves abstract: {missing}",
                    "Write them, or drop rl_alias to make the class a base.",
                )
            catalogue.register(cls)


class RLComponent(metaclass=RLComponentMeta):
    """Something a spec can name. It is light: its parameters and a way to build the heavy thing.

    A class that sets `rl_kind` is the abstract base of a kind; a class that sets `rl_alias` is a component of its
    base's kind. The first line of the docstring is its description everywhere.
    """

    rl_kind: ClassVar[str]
    rl_alias: ClassVar[str]
    #: Goes up when behaviour changes; part of `exec_hash`.
    rl_version: ClassVar[int] = 1
    rl_tags: ClassVar[tuple[str, ...]] = ()
    rl_source: ClassVar[str] = "alphaswarm"
    rl_category: ClassVar[str] = "general"
    #: Other names that `rl_expand` turns into the canonical one.
    rl_short_names: ClassVar[tuple[str, ...]] = ()
    #: Of a kind: another whose components may be named in place of its own. Such a name means the component of this
    #: kind whose alias is that of the other kind, with what was named as its parameter of that same name.
    rl_carries: ClassVar[str | None] = None
    #: Of a kind: a pattern of names that another library gives, and the alias of the component that takes them, whose
    #: `rl_expand` writes them out. What the catalogue itself knows goes before.
    rl_foreign_names: ClassVar[tuple[str, str] | None] = None

    class Config(ComponentConfig):
        """No parameters."""

    def __init__(self, config: ComponentConfig | None = None) -> None:
        if config is not None and not isinstance(config, self.Config):
            raise ComponentError(
                f"component {self.rl_alias!r}",
                f"its parameters are {type(config).__name__}, not {self.Config.__qualname__}",
                "Build it with build_from_config, or hand in its own Config.",
            )
        self.config: Any = config if config is not None else self.Config()

    @classmethod
    def rl_expand(cls, name: str, kwargs: JsonMapping) -> tuple[str, dict[str, Any]]:
        """The canonical (alias, kwargs) of a reference that used one of `rl_short_names`, or a foreign name."""
        return cls.rl_alias, dict(kwargs)
