"""The one way out of the command line: whatever a command prints passes here, and commands no terminal."""

from __future__ import annotations

from typing import TextIO

import click

from alphaswarm_rl.core.control_characters import escaped

#: What text of several lines is made of.
_LAYOUT = "\n\t"


def put(text: str, *, file: TextIO, newline: bool = True) -> None:
    """Writes a text of one or more lines, such as a document; JSON stays JSON, for it has the same escapes."""
    click.echo(escaped(text, keep=_LAYOUT), file=file, nl=newline)


def put_line(text: str, *, file: TextIO) -> None:
    """Writes what must be one line: nothing in it can begin another."""
    click.echo(escaped(text), file=file)


def put_indented(text: str, *, file: TextIO) -> None:
    """Writes a text whose further lines are indented: nothing in it can look like the beginning of another."""
    put(text.replace("\n", "\n    "), file=file)


def ask(question: str) -> bool:
    """Asks whoever is at the terminal; no ends the command."""
    return click.confirm(escaped(question), abort=True, err=True)
