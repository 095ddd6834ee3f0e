"""One option: a lens onto a field of the spec or of the settings, with a name in every face."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Literal

from alphaswarm_rl.options.types import OptionType

Target = Literal["spec", "settings"]

OWN_PREFIX = "ALPHASWARM_RL_"
RULE_PREFIX = "RL_"


@dataclass(frozen=True)
class Feature:
    """A capability of the pipeline; options are grouped by it."""

    name: str
    purpose: str
    signature: str
    category: str
    #: Its part of the rule's ENV names: RL_<PREFIX>_<NAME>.
    prefix: str

    @property
    def key(self) -> str:
        """Its name in option keys and in Nix."""
        return self.name.lower()


@dataclass(frozen=True)
class Option:
    """One option.

    Attributes:
        feature: Name of its feature.
        name: Nix name, camelCase.
        target: Whether it sets a field of the spec or of the settings.
        path: Dotted path of that field; `env` means the environment as a whole.
        default: Its value where no face says anything.
        env: Accepted ENV names, the canonical one first.
        flag: Command line flag; a boolean also has `--no-` and the rest.
        type: The values it takes.
        description: What it does.
        verbs: The commands that take it, such as `train` or `runs.rm`; `models` means every command below it.
        refused_by: Commands that accept it only to say why they refuse it; their help does not show it.
        part: The part of the system it waits for; until then only its default is accepted.
    """

    feature: str
    name: str
    target: Target
    path: str
    default: Any
    env: tuple[str, ...]
    flag: str
    type: OptionType
    description: str
    verbs: tuple[str, ...]
    refused_by: tuple[str, ...] = ()
    part: str | None = None

    @property
    def key(self) -> str:
        """How users and code refer to it, such as `train.gamma`."""
        return f"{self.feature.lower()}.{self.name}"

    @property
    def levels(self) -> tuple[tuple[str, ...], ...]:
        """Accepted ENV names by precedence: ours with the long prefix, ours with the short one, foreign ones."""
        own = [name for name in self.env if name.startswith(OWN_PREFIX)]
        short = [name for name in self.env if name.startswith(RULE_PREFIX)]
        own += [f"ALPHASWARM_{name}" for name in short]
        foreign = [name for name in self.env if name not in own and name not in short]
        return tuple(own), tuple(short), tuple(foreign)

    @property
    def env_names(self) -> tuple[str, ...]:
        """Every accepted ENV name, the canonical one first."""
        return tuple(dict.fromkeys([*self.env, *(name for level in self.levels for name in level)]))

    @property
    def off_flag(self) -> str | None:
        """The flag that says no, for a boolean."""
        return f"--no-{self.flag.removeprefix('--')}" if self.type.is_boolean else None

    @property
    def flags(self) -> str:
        """The flag as listings show it."""
        return f"{self.flag}/{self.off_flag}" if self.off_flag else self.flag

    def belongs_to(self, verb: str) -> bool:
        """Whether the command of that name takes it."""
        return any(verb == name or verb.startswith(f"{name}.") for name in self.verbs)

    def flag_for(self, value: object) -> str:
        """The flag that gives that value."""
        return self.off_flag if self.off_flag and value is False else self.flag


def snake(name: str) -> str:
    """A camelCase name as snake_case."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
