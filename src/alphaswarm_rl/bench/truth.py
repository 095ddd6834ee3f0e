"""How much of a known optimum agents reach."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from alphaswarm_rl.bench.truth_play import CONSTANT_BELOW, Act, Played, play
from alphaswarm_rl.bench.truth_tasks import AGENTS, EPISODES, FIRST_SEED, NUM_ENVS, Task
from alphaswarm_rl.core.contracts import AgentRequest, EnvRequest
from alphaswarm_rl.core.errors import EnvError
from alphaswarm_rl.core.kinds import EnvComponent
from alphaswarm_rl.core.refs import build_from_config
from alphaswarm_rl.core.seeding import derived_seed
from alphaswarm_rl.core.types import Array, JsonObject
from alphaswarm_rl.envs.truth.task import Solution
from alphaswarm_rl.inference.checkpoints import load_checkpoint
from alphaswarm_rl.inference.policy import LoadedPolicy
from alphaswarm_rl.policies.runners import RandomRunner
from alphaswarm_rl.runtime import RLRuntime, RunFailed
from alphaswarm_rl.settings import Settings
from alphaswarm_rl.statistics.samples import lower_bound

#: One end of a two-sided 90 % interval.
_ONE_SIDED = 0.95


@dataclass(frozen=True, kw_only=True)
class Judged:
    """A policy on a task, beside the optimum and the policy without skill.

    Attributes:
        j: J of the policy.
        fraction: Its part of the way from no skill to the optimum.
        cost: Its costs per step.
        spread: How much its actions differ from state to state.
        played_opt: J of the optimal policy on the same episodes.
        played_base: J of the policy without skill on the same episodes.
    """

    j: float
    fraction: float
    cost: float
    spread: float
    played_opt: float
    played_base: float


@dataclass(frozen=True, kw_only=True)
class SeedResult(Judged):
    """One training and what came of it, judged as the policy acts without drawing.

    Attributes:
        seed: The run's seed; the episodes that it is judged on are drawn from it too.
        run_id: The run.
        spec_hash: Its spec.
        steps: Transitions it was trained for.
        seconds: How long that took.
    """

    seed: int
    run_id: str
    spec_hash: str
    steps: int
    seconds: float


@dataclass(frozen=True)
class Row:
    """An agent on a task.

    Attributes:
        task: The task.
        agent: The agent.
        seeds: What came of each seed.
        fraction: The mean part of the way from no skill to the optimum.
        low: Lower end of its 90 % interval over seeds, by Student's t; None with one seed.
        high: Upper end.
        needed: What the lower end must reach.
        reached: Whether it does; None with one seed.
        j_opt: J of the optimum.
        j_base: J without skill.
        base: Whose J that is.
        cost_ratio: Where J is measured by costs: the mean cost per step over the random policy's.
        warnings: What makes the figures doubtful.
    """

    task: str
    agent: str
    seeds: tuple[SeedResult, ...]
    fraction: float
    low: float | None
    high: float | None
    needed: float
    reached: bool | None
    j_opt: float
    j_base: float
    base: str
    cost_ratio: float | None
    warnings: tuple[str, ...]


def run(
    tasks: Sequence[Task],
    agents: Sequence[str],
    settings: Settings,
    *,
    seeds: int,
    steps: int | None = None,
    say: Callable[[str], None] = lambda line: None,
) -> list[Row]:
    """Trains and judges every agent on every task.

    Args:
        tasks: The tasks.
        agents: Aliases of the agents.
        settings: Where the runs go.
        seeds: Trainings of each agent on each task, with the seeds from `FIRST_SEED` on.
        steps: Transitions of each; None: as the task says.
        say: Is told of each training.
    """
    rows = []
    for task in tasks:
        solution = task.solution()
        for agent in agents:
            try:
                _refuse_misfit(task, agent)
            except EnvError as error:
                say(f"{task.name}, {agent}: not trained: {error}")
                continue
            results = []
            for seed in range(FIRST_SEED, FIRST_SEED + seeds):
                results.append(_one(task, solution, agent, settings, seed, steps or task.steps))
                last = results[-1]
                say(f"{task.name}, {agent}, seed {seed}: {last.fraction:.4f} after {last.seconds:.0f} s")
            rows.append(summary(task, solution, agent, results))
    return rows


def _refuse_misfit(task: Task, agent: str) -> None:
    """An agent that cannot act there says so before anything is trained."""
    env = task.component().build(EnvRequest(num_envs=1, seed=0))
    learner = build_from_config({"class": agent, "kwargs": dict(AGENTS.get(agent, {}))}, kind="agent")
    learner.build(AgentRequest.for_env(env, 0, training=False))


def summary(task: Task, solution: Solution, agent: str, results: Sequence[SeedResult]) -> Row:
    """The figures over seeds."""
    fractions = [result.fraction for result in results]
    mean = float(np.mean(fractions))
    low = lower_bound(len(fractions), mean, None, fractions, _ONE_SIDED)
    above = lower_bound(len(fractions), -mean, None, [-fraction for fraction in fractions], _ONE_SIDED)
    return Row(
        task=task.name,
        agent=agent,
        seeds=tuple(results),
        fraction=mean,
        low=low,
        high=None if above is None else -above,
        needed=task.needed,
        reached=None if low is None else low >= task.needed,
        j_opt=solution.j_opt,
        j_base=solution.j_base,
        base=solution.base,
        cost_ratio=float(np.mean([result.cost for result in results])) / -solution.j_base if solution.by_cost else None,
        warnings=tuple(_warnings(task, solution, agent, results, low)),
    )


def _warnings(
    task: Task, solution: Solution, agent: str, results: Sequence[SeedResult], low: float | None
) -> Iterator[str]:
    if solution.optimum_is_constant:
        return
    alike = "the policy cannot be told from one that always does the same"
    for result in results:
        if result.spread < CONSTANT_BELOW:
            yield f"{task.name}, {agent}, seed {result.seed}: {alike} (its actions spread by {result.spread:.4f})"
    if low is not None and low <= 0:
        yield f"{task.name}, {agent}: {alike} by what it earns (lower bound {low:.4f})"


def judge(task: Task, solution: Solution, act: Act, *, seed: int, episodes: int = EPISODES) -> Judged:
    """A policy beside the optimum and the policy without skill, all three on the same episodes.

    Of the policy only its distance to the optimum is measured: what both earn by chance cancels out, and the optimum's
    J is known.

    Args:
        task: The task.
        solution: Its optimum.
        act: The policy.
        seed: Seed of the episodes.
        episodes: How many.
    """
    component = task.component()
    played = play(component, act, seed=seed, episodes=episodes)
    others = (
        play(component, other, seed=seed, episodes=episodes)
        for other in (solution.act, _base(component, solution, seed))
    )
    j_opt, j_base = (_measured(task, solution, other) for other in others)
    distance = j_opt - _measured(task, solution, played)
    fraction = 1.0 - distance / (solution.j_opt - solution.j_base)
    cost = float(played.costs.sum() / played.lengths.sum())
    return Judged(
        j=solution.j_opt - distance,
        fraction=fraction,
        cost=cost,
        spread=played.spread,
        played_opt=j_opt,
        played_base=j_base,
    )


def _measured(task: Task, solution: Solution, played: Played) -> float:
    earned = -played.costs if solution.by_cost else played.returns
    return float((earned / played.lengths if task.per_step else earned).mean())


def _base(component: EnvComponent, solution: Solution, seed: int) -> Act:
    """The policy that counts as no skill."""
    if not solution.optimum_is_constant:
        return lambda observations: np.tile(solution.constant, (len(observations), *(1,) * solution.constant.ndim))
    space = component.build(EnvRequest(num_envs=1, seed=0)).single_action_space
    runner = RandomRunner(space, derived_seed(seed, "truth", "random"))
    return lambda observations: runner.act(observations, deterministic=False)


def _one(task: Task, solution: Solution, agent: str, settings: Settings, seed: int, steps: int) -> SeedResult:
    started = time.perf_counter()
    trained = RLRuntime(spec_of(task, agent, steps), settings).train(seed=seed)
    seconds = time.perf_counter() - started
    if trained.status != "completed" or trained.checkpoint is None:
        raise RunFailed(
            f"run {trained.run_id}", f"it ended as {trained.status}", "Start the benchmark again; it trains anew."
        )
    checkpoint = load_checkpoint(Path(trained.checkpoint), expected_sha256=trained.checkpoint_sha256)
    with closing(LoadedPolicy(checkpoint, settings)) as policy:
        stream = policy.stream()

        def act(observations: Array) -> Array:
            return stream.act(observations, deterministic=True)

        judged = judge(task, solution, act, seed=derived_seed(seed, "truth", task.name))
    return SeedResult(
        seed=seed,
        run_id=trained.run_id,
        spec_hash=trained.spec_hash,
        steps=trained.timesteps,
        seconds=seconds,
        **vars(judged),
    )


def spec_of(task: Task, agent: str, steps: int) -> JsonObject:
    """The spec of a training."""
    return {
        "name": f"truth {task.name} {agent}",
        "env": {"class": task.env, "kwargs": dict(task.kwargs)},
        "agent": {"class": agent, "kwargs": dict(AGENTS.get(agent, {}))},
        "training": {"total_timesteps": steps, "n_envs": NUM_ENVS},
        "evaluation": {"episodes": 0},
        "trajectory_store": {"enabled": False},
    }
