"""A training up to its first step: everything is checked, read and built, and nothing is written."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack

from gymnasium.spaces import flatdim

from alphaswarm_rl.arrays.moments import shown
from alphaswarm_rl.core.contracts import AnyVectorEnv
from alphaswarm_rl.core.window import Window
from alphaswarm_rl.inference import initial_weights
from alphaswarm_rl.inference.builder import Builder
from alphaswarm_rl.inference.windows import training_windows
from alphaswarm_rl.runtime import start
from alphaswarm_rl.runtime.evaluate import evaluation_env
from alphaswarm_rl.runtime.judging import Choosing, evaluation_interval, how_the_best_is_chosen
from alphaswarm_rl.runtime.run import RunSetup
from alphaswarm_rl.runtime.session import PhaseEnvs
from alphaswarm_rl.runtime.training_plan import PlannedWindow, TrainingPlan

_FLOAT_BYTES = 4


def rehearse(setup: RunSetup, *, seed: int | str | None) -> TrainingPlan:
    """What a training of the spec would be; whatever it would be refused for before its first step is raised.

    Args:
        setup: What would be run, where.
        seed: The run's seed; None: the spec's.
    """
    training, trains = setup.spec.training, setup.spec.kind != "evaluation"
    windows = start.played_windows(setup.spec) if trains else {"evaluation": setup.spec.evaluation.window}
    pinned = start.draw_seed(seed, setup.spec.seed)
    initial = initial_weights.load(setup.spec, setup.settings) if trains else None
    builder = start.checked_builder(setup, seed=pinned, window=next(iter(windows.values())))
    begun = [] if initial is None else initial_weights.prepare(initial, builder)
    builder.load_data((*windows.values(), *training_windows(training)))
    judged = "evaluation" in windows
    notices = [*builder.notices(judges=judged, windows=windows), *builder.doubts(windows.values()), *begun]
    choosing = how_the_best_is_chosen(builder, setup.settings) if trains else Choosing("nothing: nothing is trained")
    if choosing.notice is not None:
        notices.append(choosing.notice)
    if trains:
        notices += start.hindsight(setup, seed=pinned)
    with ExitStack() as opened:
        env: AnyVectorEnv
        if trains:
            tracker = PhaseEnvs.build(builder, setup, opened).train
            env = tracker
        else:
            episodes = max(1, setup.spec.evaluation.episodes)
            env = evaluation_env(builder, "evaluate", windows["evaluation"], episodes=episodes)
            opened.callback(env.close)
        learner = builder.build_learner(env, training=trains)
        if initial is not None:
            remembers = bool(getattr(learner, "remembers", False))
            plan = builder.policy_plan(tracker.env, training.window, remembers=remembers)
            notices += initial_weights.begin_with(initial, learner, tracker.env, plan)
        return _plan(builder, env, windows, learner.rollout_transitions, choosing, tuple(notices))


def _plan(
    builder: Builder,
    env: AnyVectorEnv,
    windows: Mapping[str, Window],
    rollout: int | None,
    choosing: Choosing,
    notices: tuple[str, ...],
) -> TrainingPlan:
    spec, training, episodes = builder.spec, builder.spec.training, builder.spec.evaluation.episodes
    every = evaluation_interval(training)
    fingerprint = builder.data_fingerprint(next(iter(windows.values())))
    validations = 0 if every is None else training.total_timesteps // every
    shown_at_once = rollout or env.num_envs
    return TrainingPlan(
        slug=spec.slug,
        spec_hash=spec.spec_hash,
        exec_hash=spec.exec_hash,
        seed=builder.seed,
        device=builder.device,
        env=builder.env.rl_alias,
        agent=builder.agent.rl_alias if spec.agent is None else spec.agent.label,
        observation_space=str(env.single_observation_space),
        action_space=str(env.single_action_space),
        windows={name: _window(builder, window) for name, window in _with_judged(windows, choosing.judged).items()},
        in_sample=builder.in_sample(spec.evaluation.window) if "evaluation" in windows else None,
        data_fingerprint=fingerprint,
        num_envs=env.num_envs,
        total_timesteps=training.total_timesteps,
        vector_steps=-(-training.total_timesteps // env.num_envs),
        rollout_transitions=rollout,
        rollouts=None if rollout is None else -(-training.total_timesteps // rollout),
        validations=validations,
        validation_episodes=validations * episodes,
        evaluation_episodes=episodes,
        best_model=choosing.words,
        trading_costs=builder.trading_costs(env, has_data=fingerprint is not None),
        observation_bytes=shown_at_once * flatdim(env.single_observation_space) * _FLOAT_BYTES,
        notices=notices,
    )


def _with_judged(windows: Mapping[str, Window], judged: Window | None) -> dict[str, Window]:
    """The windows, and where no validation is among them the dates on which checkpoints are judged."""
    if judged is None or "validation" in windows:
        return dict(windows)
    order = ("training", "validation", "evaluation")
    return dict(sorted({**windows, "validation": judged}.items(), key=lambda item: order.index(item[0])))


def _window(builder: Builder, window: Window) -> PlannedWindow:
    if builder.data is None:
        return PlannedWindow(window.start, window.end)
    panel = builder.data.raw(window)
    bars = panel.num_bars - panel.warmup
    first, last = shown(panel.timestamps[panel.warmup]), shown(panel.timestamps[-1])
    return PlannedWindow(window.start, window.end, panel.num_assets, bars, panel.warmup, first, last)
