"""From whatever goes wrong to a message and an exit code; a traceback is shown only on request."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable
from difflib import get_close_matches

import click

from alphaswarm_rl.cli.output import put, put_indented
from alphaswarm_rl.cli.text import as_json_text
from alphaswarm_rl.core.errors import AlphaSwarmError
from alphaswarm_rl.core.types import JsonObject

OK, BROKEN, WRONG_INPUT, HALTED = range(4)


def guarded(call: Callable[[], object], *, as_json: bool, debug: bool) -> int:
    """Runs a command and gives its exit code.

    Args:
        call: Runs it; gives None or an exit code.
        as_json: Whether an error is a JSON document on standard output.
        debug: Whether tracebacks are shown.
    """
    try:
        code = call()
        # Output may still wait in the buffer; a reader that is gone must be noticed here, not when Python ends.
        sys.stdout.flush()
    except BrokenPipeError:
        _drop_the_rest()
        return BROKEN
    except click.exceptions.NoArgsIsHelpError as error:
        put(error.format_message(), file=sys.stderr)
        return error.exit_code
    except click.Abort:
        _report({"type": "Halted", "what": "the command", "why": "it was stopped", "remedy": "Run it again."}, as_json)
        return HALTED
    except click.ClickException as error:
        _report(_usage(error), as_json)
        return error.exit_code
    except AlphaSwarmError as error:
        if debug:
            put_indented(traceback.format_exc().rstrip("\n"), file=sys.stderr)
        _report(_document(error), as_json)
        return error.exit_code
    except Exception as error:  # noqa: BLE001  the last line of defence: users see a message, developers use --debug
        if debug:
            put_indented(traceback.format_exc().rstrip("\n"), file=sys.stderr)
        _report(_internal(error), as_json)
        return BROKEN
    return code if isinstance(code, int) else OK


def _document(error: AlphaSwarmError) -> JsonObject:
    # The runtime leaves the id of the run that the error ended as a note.
    notes = getattr(error, "__notes__", ())
    return {**error.as_dict(), **({"run_id": notes[0]} if notes else {})}


def _usage(error: click.ClickException) -> JsonObject:
    context = getattr(error, "ctx", None)
    command = "rl" if context is None else context.command_path
    return {
        "type": type(error).__name__,
        "what": f"the command line of {command!r}",
        "why": (_unknown_option(error) if isinstance(error, click.NoSuchOption) else error.format_message()).rstrip(
            "."
        ),
        "remedy": f"See: {command} --help.",
    }


def _unknown_option(error: click.NoSuchOption) -> str:
    """What click says, and of what it proposes only names that are alike without the dashes that all of them have."""
    names = {name.lstrip("-"): name for name in error.possibilities or ()}
    close = get_close_matches(error.option_name.lstrip("-"), names, n=1)
    return f"{error.message} Did you mean {names[close[0]]!r}?" if close else error.message


def _internal(error: Exception) -> JsonObject:
    return {
        "type": type(error).__name__,
        "what": "internal error",
        "why": f"{type(error).__name__}: {error}",
        "remedy": "Run the same command with --debug and report what it prints.",
    }


def _report(document: JsonObject, as_json: bool) -> None:
    if as_json:
        put(as_json_text({"error": document}), file=sys.stdout)
        return
    for line in (f"error: {document['what']}", f"  why: {document['why']}", f"  remedy: {document['remedy']}"):
        put_indented(line, file=sys.stderr)


def _drop_the_rest() -> None:
    # Python flushes standard output once more when it ends, and would complain about the closed pipe then.
    devnull = os.open(os.devnull, os.O_WRONLY)
    os.dup2(devnull, sys.stdout.fileno())
    os.close(devnull)
