"""What every command starts from: its flags, the settings, and where its words go."""

from __future__ import annotations

import gc
import logging
import os
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from alphaswarm_rl.cli.output import put, put_indented, put_line
from alphaswarm_rl.cli.text import as_json_text, event_lines
from alphaswarm_rl.operations.events import Caller, Event, Notice

if TYPE_CHECKING:
    from alphaswarm_rl.settings import Settings

_LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warn": logging.WARNING, "error": logging.ERROR}


@dataclass(frozen=True)
class Session:
    """One call of one command.

    Attributes:
        out: Where the result goes; while a command runs, `sys.stdout` is standard error.
        flags: Options of the table that were given on the command line, by key.
        as_json: Whether the answer is one JSON document.
        settings_file: The settings file that was named.
    """

    out: TextIO
    flags: Mapping[str, object]
    as_json: bool = False
    settings_file: Path | None = None

    @cached_property
    def settings(self) -> Settings:
        """The settings, read on first use: commands that need none do not fail over a wrong one."""
        from alphaswarm_rl.options.settings import load_settings
        from alphaswarm_rl.options.sources import misspelt_names

        settings = load_settings(self.flags, os.environ, self.settings_file)
        _configure_logging(settings.logs.level)
        for notice in misspelt_names(os.environ):
            self.notice(notice)
        if not gc.isenabled():
            gc.freeze()
            gc.enable()
        return settings

    def load_settings(self) -> Settings:
        """The settings, for operations that may do without."""
        return self.settings

    @property
    def caller(self) -> Caller:
        """The terminal that hears of what goes on; progress is drawn where somebody watches."""
        return Caller(self.listen, os.environ, progress=sys.stderr.isatty())

    @cached_property
    def plugins(self) -> tuple[str, ...]:
        """Modules of components that flags, environment or settings file name."""
        from alphaswarm_rl.options.settings import named_plugins

        return named_plugins(self.flags, os.environ, self.settings_file)

    def load_plugins(self) -> None:
        """Imports the components that the operator named, from the working directory too."""
        if not self.plugins:
            return
        from alphaswarm_rl.core import catalogue

        if (here := str(Path.cwd())) not in sys.path:
            # At the end: a file here must not hide a module of the same name that is installed.
            sys.path.append(here)
        catalogue.load_plugins(self.plugins)

    def answer(self, document: object, lines: Iterable[str]) -> None:
        """Gives the command's result: the document with --json, the lines otherwise.

        Args:
            document: Plain data, dataclasses of it included.
            lines: The same for people.
        """
        if self.as_json:
            self.write(as_json_text(document))
            return
        for line in lines:
            put_line(line, file=self.out)

    def write(self, text: str, *, newline: bool = True) -> None:
        """Writes a part of a document, at once: whoever reads line by line waits for each."""
        put(text, file=self.out, newline=newline)

    def listen(self, event: Event) -> None:
        """Shows what an operation tells on the way to its result."""
        if isinstance(event, Notice):
            self.notice(event.text)
            return
        for line in event_lines(event):
            self.say(line)

    def say(self, line: str) -> None:
        """Something on the way to the result; with --json it must not be on standard output."""
        put_line(line, file=sys.stderr if self.as_json else self.out)

    def notice(self, line: str) -> None:
        """Something the user should know, beside the result."""
        put_line(f"notice: {line}", file=sys.stderr)


class _StandardError(logging.Handler):
    """Writes to standard error as it is now: while a progress bar is shown, it stands in for it."""

    def emit(self, record: logging.LogRecord) -> None:
        put_indented(self.format(record), file=sys.stderr)


def _configure_logging(level: str) -> None:
    own = _LEVELS[level]
    # Other libraries' chatter is for those who ask for everything.
    handler = _StandardError()
    handler.setFormatter(logging.Formatter("%(levelname)s %(message)s"))
    level_of_libraries = own if own == logging.DEBUG else max(own, logging.WARNING)
    logging.basicConfig(level=level_of_libraries, handlers=[handler], force=True)
    logging.getLogger("alphaswarm_rl").setLevel(own)
