"""What a halt is of: one run, one bot, or the platform, which is everything.

In the ledger a scope is the id of a run, `bot:NAME`, or `*`. Whoever works for a bot names it (`infer.bot`), and looks
at three switches: the platform's, its bot's, and that of the run whose policy it asks.
"""

from __future__ import annotations

import re

from alphaswarm_rl.core.errors import LedgerError

#: The scope that means every run and every answer.
EVERYTHING = "*"
#: What people call it.
PLATFORM = "platform"

_BOT, _RUN = "bot:", "run:"
#: Names of bots are parts of file names too: of letters whose case matters nowhere.
BOT_NAME = r"[a-z0-9][a-z0-9_-]{0,62}"


def bot_scope(name: str) -> str:
    """The scope of a bot."""
    if re.fullmatch(BOT_NAME, name) is None:
        raise LedgerError(
            f"the bot {name!r}", "a bot's name is of a-z, 0-9, - and _, at most 63 of them", "Give it such a name."
        )
    return f"{_BOT}{name}"


def plain_scope(scope: str) -> str:
    """A scope as somebody writes it (`platform`, `bot:NAME`, `run:RUN`, `*`, or a run), as the ledger has it.

    A run is what names it, which may be the beginning of its id.
    """
    if scope in (EVERYTHING, PLATFORM):
        return EVERYTHING
    named = scope.removeprefix(_RUN)
    return bot_scope(named.removeprefix(_BOT)) if named.startswith(_BOT) else named


def run_scope(run: str) -> str:
    """The scope of a run, whatever it is called."""
    return f"{_RUN}{run}"


def is_of_run(scope: str) -> bool:
    """Whether a plain scope names a run."""
    return scope != EVERYTHING and not scope.startswith(_BOT)


def file_part(scope: str) -> str:
    """What stands for the scope in the name of its file."""
    return "" if scope == EVERYTHING else f".{scope.replace(':', '-')}"


def scope_of_file(part: str | None) -> str:
    """The scope of a file by what stands for it; the reverse of `file_part`, without the dot."""
    if part is None:
        return EVERYTHING
    bot = f"{_BOT.removesuffix(':')}-"
    return f"{_BOT}{part.removeprefix(bot)}" if part.startswith(bot) else part
