"""`rl completion`."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from alphaswarm_rl.cli.root import rl
from alphaswarm_rl.cli.session import Session
from alphaswarm_rl.cli.verb import verb


@verb("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(session: Session, shell: str) -> None:
    """Print a script that completes commands in a shell.

    In bash: eval "$(rl completion bash)".

    Args:
        session: This call.
        shell: The shell.
    """
    kind = get_completion_class(shell)
    assert kind is not None, "click has the three shells of the choice"
    script = kind(rl, {}, "rl", "_RL_COMPLETE").source()
    session.answer({"shell": shell, "script": script}, script.split("\n"))
