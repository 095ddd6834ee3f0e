"""`rl bench`: how fast is this installation, and does it learn?"""

from __future__ import annotations

from typing import Any

import click

from alphaswarm_rl.cli.session import Session
from alphaswarm_rl.cli.text import columns
from alphaswarm_rl.cli.verb import verb


@click.group()
def bench() -> None:
    """Measure this installation, beside its peers where they are installed."""


@verb("bench.env", group=bench)
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
    from alphaswarm_rl.operations.bench import BenchEnv, bench_env

    measured = bench_env(session.load_settings, BenchEnv(num_envs, rounds, seconds))
    table = [
        (
            row.name,
            str(row.num_envs),
            "missing" if row.steps_per_s is None else f"{row.steps_per_s:,.0f}",
            row.peer,
            "missing" if row.peer_steps_per_s is None else f"{row.peer_steps_per_s:,.0f}",
            "" if row.ratio is None else f"{row.ratio:,.2f}",
        )
        for row in measured.rows
    ]
    notes = sorted({row.note for row in measured.rows if row.note})
    header = ("NAME", "ENVS", "STEPS/S", "PEER", "PEER STEPS/S", "RATIO")
    session.answer(measured, [*columns(header, table), *notes])


@verb("bench.truth", group=bench)
@click.argument("tasks", nargs=-1, metavar="[TASK]...")
@click.option("--agent", "agents", multiple=True, default=("ppo_inhouse",), show_default=True, help="May be repeated.")
@click.option("--seeds", type=click.IntRange(min=1), default=5, show_default=True, help="Trainings of each task.")
@click.option(
    "--steps", type=click.IntRange(min=1, max=5_000_000), help="Transitions of each; default: as the task says."
)
@click.option("--docs", is_flag=True, help="Also write docs/results/truth.md below the working directory.")
def truth(session: Session, **chosen: Any) -> None:
    """How much of a known optimum agents reach: cartpole, oracle, noise, merton, ou, regime.

    Each agent is trained on each task with several seeds, and its deterministic policy is judged beside the optimal
    policy and the best constant one (the random one where the optimum is constant) on the same episodes. Printed is the
    fraction of the way between the two, with its 90 % interval over seeds. Runs go to a temporary home unless --home
    or ALPHASWARM_RL_HOME names one.

    Args:
        session: This call.
        chosen: Fields of the request, which says what each means.
    """
    from alphaswarm_rl.operations.bench import BenchTruth, bench_truth

    found = bench_truth(session.load_settings, BenchTruth(**chosen), caller=session.caller)
    session.answer(found, ["", *columns(found.header, found.cells), *found.remarks])
