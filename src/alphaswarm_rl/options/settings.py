"""From the faces to the settings: where and how the system runs on this machine."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from alphaswarm_rl.core.errors import OptionError, SpecError
from alphaswarm_rl.core.model import explain
from alphaswarm_rl.core.types import JsonMapping, JsonObject
from alphaswarm_rl.options.paths import set_value, value_at
from alphaswarm_rl.options.sources import Given, read_source, read_sources, refuse_absent_part
from alphaswarm_rl.options.table import BY_KEY, OPTIONS
from alphaswarm_rl.settings import Settings

SETTINGS_FILE = "settings.yaml"

_SETTINGS_OPTIONS = tuple(option for option in OPTIONS if option.target == "settings")
_HOME = BY_KEY["home.folder"]
_PLUGINS = BY_KEY["home.plugins"]


def load_settings(flags: JsonMapping, environ: Mapping[str, str], file: Path | None = None) -> Settings:
    """The settings: flag before ENV before file before default.

    Args:
        flags: Values by option key, as text or typed; None is not a value. Spec options are passed over.
        environ: The environment variables.
        file: A settings file; None takes `settings.yaml` in the home folder where there is one.
    """
    given = read_sources(_SETTINGS_OPTIONS, flags, environ)
    home = next((item.value for item in given if item.option is _HOME), _HOME.default)
    path = file or home / SETTINGS_FILE
    data = _read_file(path, chosen=file is not None)
    overridden = {item.option.path for item in given}
    for option in _SETTINGS_OPTIONS:
        if option.path not in overridden and (value := _in_file(data, option.path)) is not _ABSENT:
            refuse_absent_part(Given(option, value, f"settings file {str(path)!r}"))
    for item in given:
        refuse_absent_part(item)
        set_value(data, item.option.path, item.value)
    try:
        return Settings.model_validate(data)
    except ValidationError as error:
        raise _blame(given, error) from error


def named_plugins(flags: JsonMapping, environ: Mapping[str, str], file: Path | None = None) -> tuple[str, ...]:
    """The modules of components that the settings name, for who may do without settings: wrong files name none here.

    Args:
        flags: Values by option key.
        environ: The environment variables.
        file: A settings file; None takes the one in the home folder where there is one.
    """
    named = read_source(_PLUGINS, flags, environ)
    if named is not None:
        modules: tuple[str, ...] = named.value
        return modules
    try:
        home = read_source(_HOME, flags, environ)
        folder = _HOME.default if home is None else home.value
        if file is None and not (folder / SETTINGS_FILE).exists():
            return ()  # nothing is read for nothing: this stands before every command
        return load_settings(flags, environ, file).plugins
    except (OptionError, OSError):  # whoever needs the settings says what is wrong with them
        return ()


_ABSENT = object()


def _in_file(data: JsonObject, path: str) -> Any:
    try:
        return value_at(data, path)
    except KeyError:
        return _ABSENT


def _read_file(path: Path, *, chosen: bool) -> JsonObject:
    """What a settings file sets, typed, as nested mappings; a file that nobody chose need not be there."""
    if not chosen and not path.exists():
        return {}
    from alphaswarm_rl.core.yaml import load_yaml_file

    try:
        data = load_yaml_file(path)
    except SpecError as error:
        raise OptionError(error.what, error.why, error.remedy) from error
    what = f"settings file {str(path)!r}"
    if data is None:
        return {}
    if not isinstance(data, dict):
        raise OptionError(what, "it is not a mapping", "Write sections of settings, such as store: {keep_last: 5}.")
    if not chosen and "home" in data:
        raise OptionError(
            what, "it cannot say where the home folder is: it lies in it", "Use --home or ALPHASWARM_RL_HOME."
        )
    try:
        settings = Settings.model_validate(data)
    except ValidationError as error:
        raise OptionError(what, explain(error, Settings), "Mend the file; `rl options` lists every setting.") from error
    return settings.model_dump(exclude_unset=True)


def _blame(given: list[Given], error: ValidationError) -> OptionError:
    # The file alone was valid and settings know nothing of each other, so each mistake is one option's value.
    places = [".".join(str(part) for part in detail["loc"]) for detail in error.errors(include_url=False)]
    # A mistake of a whole section is that of each of its options that was given.
    guilty = [item for item in given if item.option.path in places or item.option.path.rpartition(".")[0] in places]
    named = ", ".join(f"{item.option.key} ({item.source})" for item in guilty)
    wants = "; ".join(f"{item.option.key} takes {item.option.type.wants}" for item in guilty)
    return OptionError(f"option {named}", explain(error, Settings), f"Change it: {wants}.")
