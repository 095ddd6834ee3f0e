"""`rl bench`: how fast is this installation?"""

from __future__ import annotations

import platform
from dataclasses import asdict

import click

from alphaswarm_rl.cli.session import Session
from alphaswarm_rl.cli.text import columns
from alphaswarm_rl.cli.verb import verb


@click.group()
def bench() -> None:
    """Measure this installation, beside its peers where they are installed."""


@verb("env", group=bench)
@click.option(
    "--num-envs", type=click.IntRange(min=1), multiple=True, help="Environments stepped together; may be repeated."
)
@click.option("--rounds", type=click.IntRange(min=1), default=11, show_default=True, help="Turns of each contestant.")
@click.option("--seconds", type=float, default=0.2, show_default=True, help="CPU time of a turn.")
def env(session: Session, num_envs: tuple[int, ...], rounds: int, seconds: float) -> None:
    """Steps a second of the trading environments, beside the peers'.

    The peers (FinRL, gym-anytrading, gym-trading-env, TorchTrade) run in an environment of their own, .venv-peers in
    the working directory, which `make bench-peers` makes; those that are missing are named.

    Args:
        session: This call.
        num_envs: Environments stepped together.
        rounds: Turns of each contestant.
        seconds: CPU time of a turn.
    """
    from alphaswarm_rl.bench.env_throughput import run

    rows = run(tuple(num_envs) or (1, 64, 1024, 4096), rounds=rounds, seconds=seconds)
    table = [
        (
            row.name,
            str(row.num_envs),
            "missing" if row.steps_per_s is None else f"{row.steps_per_s:,.0f}",
            row.peer,
            "missing" if row.peer_steps_per_s is None else f"{row.peer_steps_per_s:,.0f}",
            "" if row.ratio is None else f"{row.ratio:,.2f}",
        )
        for row in rows
    ]
    notes = sorted({row.note for row in rows if row.note})
    machine = platform.processor() or platform.machine()
    header = ("NAME", "ENVS", "STEPS/S", "PEER", "PEER STEPS/S", "RATIO")
    session.answer({"machine": machine, "rows": [asdict(row) for row in rows]}, [*columns(header, table), *notes])
