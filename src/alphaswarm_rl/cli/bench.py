"""`rl bench`: how fast is this installation, and does it learn?"""

from __future__ import annotations

import platform
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import click

from alphaswarm_rl.cli.session import Session
from alphaswarm_rl.cli.text import columns
from alphaswarm_rl.cli.verb import verb
from alphaswarm_rl.core.errors import OptionError

if TYPE_CHECKING:
    from alphaswarm_rl.settings import Settings

#: Where the truth suite's figures are kept, from the repository's root.
_TRUTH_PAGE = Path("docs/results/truth.md")


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


@verb("bench.truth", group=bench)
@click.argument("tasks", nargs=-1, metavar="[TASK]...")
@click.option("--agent", "agents", multiple=True, default=("ppo_inhouse",), show_default=True, help="May be repeated.")
@click.option("--seeds", type=click.IntRange(min=1), default=5, show_default=True, help="Trainings of each task.")
@click.option(
    "--steps", type=click.IntRange(min=1, max=5_000_000), help="Transitions of each; default: as the task says."
)
@click.option("--docs", is_flag=True, help=f"Also write {_TRUTH_PAGE} below the working directory.")
def truth(
    session: Session, tasks: tuple[str, ...], agents: tuple[str, ...], seeds: int, steps: int | None, docs: bool
) -> None:
    """How much of a known optimum agents reach: cartpole, oracle, noise, merton, ou, regime.

    Each agent is trained on each task with several seeds, and its deterministic policy is judged beside the optimal
    policy and the best constant one (the random one where the optimum is constant) on the same episodes. Printed is the
    fraction of the way between the two, with its 90 % interval over seeds. Runs go to a temporary home unless --home
    or ALPHASWARM_RL_HOME names one.

    Args:
        session: This call.
        tasks: Names of tasks; all without any.
        agents: Aliases of agents.
        seeds: Trainings of each agent on each task.
        steps: Transitions of each.
        docs: Whether the page of results is written.
    """
    from alphaswarm_rl.bench import truth_page
    from alphaswarm_rl.bench.truth import run
    from alphaswarm_rl.bench.truth_tasks import tasks_named

    chosen = tasks_named(tasks)
    if docs and not _TRUTH_PAGE.parent.is_dir():
        raise OptionError(
            "--docs", f"there is no folder {_TRUTH_PAGE.parent} here", "Call it in the repository's root, or without."
        )
    with ExitStack() as stack:
        settings = _settings(session, stack)
        rows = run(chosen, agents, settings, seeds=seeds, steps=steps, say=session.say)
    if docs:
        command = ["rl", "bench", "truth", *tasks, *(f"--agent {agent}" for agent in agents), f"--seeds {seeds}"]
        command += [] if steps is None else [f"--steps {steps}"]
        _TRUTH_PAGE.write_text(truth_page.page(rows, " ".join(command)), encoding="utf-8")
    table = columns(truth_page.header(), [truth_page.cells(row) for row in rows])
    session.answer({"rows": [asdict(row) for row in rows]}, ["", *table, *truth_page.remarks(rows)])


def _settings(session: Session, stack: ExitStack) -> Settings:
    """The settings with the home that was named, or of a temporary one; a run writes its last checkpoint alone."""
    from alphaswarm_rl.settings import Settings, StoreSettings

    settings, rare = session.settings, {"checkpoint_freq": 1_000_000_000}
    if settings.home != Settings().home:
        return settings.model_copy(update={"store": settings.store.model_copy(update=rare)})
    home = Path(stack.enter_context(TemporaryDirectory(prefix="rl-truth-")))
    return Settings(home=home, infer=settings.infer, store=StoreSettings(**rare))
