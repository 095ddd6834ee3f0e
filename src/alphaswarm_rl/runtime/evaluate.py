"""The verbs evaluate and replay: a policy plays episodes in a run of its own. Trainings evaluate by the same code."""

from __future__ import annotations

import io
from collections.abc import Sequence
from contextlib import closing
from dataclasses import KW_ONLY, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from alphaswarm_rl.core.contracts import AnyVectorEnv, Learner
from alphaswarm_rl.core.errors import RunError, require
from alphaswarm_rl.core.files import replace_synced
from alphaswarm_rl.core.hashing import LARGEST_EXACT_INTEGER
from alphaswarm_rl.core.judgement import JUDGEMENT
from alphaswarm_rl.core.run_listener import Evaluation, PolicyEvaluation
from alphaswarm_rl.core.seeding import derived_seed
from alphaswarm_rl.core.tracing import span
from alphaswarm_rl.core.types import Array, EvaluationPhase, JsonObject
from alphaswarm_rl.core.window import Window
from alphaswarm_rl.inference.builder import Builder, load_preprocessing
from alphaswarm_rl.inference.checkpoints import CheckpointStore, LoadedCheckpoint, restoring
from alphaswarm_rl.inference.selection import Selection, names_folder, trainer_of
from alphaswarm_rl.inference.windows import training_windows
from alphaswarm_rl.ledger import Ledger, RunRow, VersionRow
from alphaswarm_rl.recording.run_recorder import RunRecorder
from alphaswarm_rl.runtime import start
from alphaswarm_rl.runtime.fingerprints import component_drift
from alphaswarm_rl.runtime.result import RunResult
from alphaswarm_rl.runtime.rollout import EvaluationPlan, evaluate_learner
from alphaswarm_rl.runtime.run import PORTFOLIO_COLUMNS, Run, RunSetup, open_run
from alphaswarm_rl.spec import RLExperimentSpec
from alphaswarm_rl.spec.sections import TrainingSpec

EvaluatingVerb = Literal["evaluate", "replay", "backtest"]
#: Verbs whose steps and evaluations are of a phase of their own.
_OWN_PHASES: dict[str, EvaluationPhase] = {"replay": "replay", "backtest": "backtest"}

_MILLISECONDS_PER_FRAME = 33


@dataclass(frozen=True, kw_only=True)
class Arguments:
    """The arguments of one such run; None takes the parent run's or the spec's value."""

    checkpoint: str | int | None = None
    seed: int | str | None = None
    window: Window | None = None
    episodes: int | None = None
    _: KW_ONLY
    deterministic: bool | None = None
    validation: bool | None = None
    beside: str | None = None
    engine: str | None = None
    sizing: str | None = None

    def __post_init__(self) -> None:
        episodes = self.episodes
        if episodes is not None and (not isinstance(episodes, int) or not 1 <= episodes <= LARGEST_EXACT_INTEGER):
            why = f"a policy is judged by 1 to {LARGEST_EXACT_INTEGER}"
            raise RunError(f"{episodes!r} episodes", why, "Give such a whole number.")

    @property
    def names_folder(self) -> bool:
        """Whether the checkpoint is a folder, and so may be of no run that is known here."""
        return names_folder(self.checkpoint)

    def as_dict(self) -> JsonObject:
        """The arguments that were given, as the row keeps them."""
        window = None if self.window is None else [self.window.start, self.window.end]
        return {name: value for name, value in {**vars(self), "window": window}.items() if value is not None}


def evaluate(
    setup: RunSetup,
    ledger: Ledger,
    verb: EvaluatingVerb,
    parent: RunRow | None,
    arguments: Arguments,
    *,
    strict: bool,
) -> RunResult:
    """Opens a run of its own and evaluates a policy in it.

    Args:
        setup: What is run where.
        ledger: Where runs are.
        verb: Which of the two.
        parent: The run that made the policy; None where it is not trained.
        arguments: The arguments.
        strict: Whether components that changed since the version was stored are refused.
    """
    spec = setup.spec
    ledger.refuse_if_halted(None if parent is None else parent.id)
    version = _version(ledger, spec, parent, strict=strict)
    loaded = Selection(ledger, CheckpointStore(setup.settings.models_path), spec).load(
        parent, arguments.checkpoint, verb=verb
    )
    window = arguments.window or spec.evaluation.window
    seed = start.draw_seed(arguments.seed, spec.seed if parent is None else parent.seed)
    builder = start.checked_builder(setup, seed=seed, window=window)
    if arguments.episodes is None and spec.evaluation.episodes == 0:
        raise RunError(
            f"spec {spec.name!r}", f"it wants no evaluation, and {verb} is one", "Say how many episodes: --episodes 1."
        )
    # What the data lacks is refused now too: nothing has run.
    builder.load_data((window, *training_windows(_training(spec, loaded))))
    builder.data_fingerprint(window)
    policy: JsonObject = {}
    if loaded is not None:
        checkpoint = loaded.checkpoint
        policy = {
            "checkpoint": str(checkpoint.path),
            "checkpoint_sha256": checkpoint.sha256,
            "timesteps": checkpoint.timesteps,
        }
    parent_id = None if parent is None else parent.id
    row = start.create_row(
        setup,
        ledger,
        verb,
        version,
        seed=seed,
        window=window,
        parent_run_id=parent_id,
        arguments=arguments.as_dict(),
        **policy,
    )
    with open_run(setup, ledger, row) as run:
        _evaluate(run, builder, arguments, loaded)
    return RunResult.of(ledger.run(row.id))


def _version(ledger: Ledger, spec: RLExperimentSpec, parent: RunRow | None, *, strict: bool) -> VersionRow:
    if parent is None:
        return ledger.persist_spec(spec)
    version = ledger.version(parent.version_id)
    if version.spec_hash != spec.spec_hash:
        raise RunError(
            f"run {parent.id}",
            f"it belongs to another version ({version.spec_hash[:12]}) than this spec ({spec.spec_hash[:12]})",
            "Use RLRuntime.from_run(run), which takes the run's own version.",
        )
    drift = component_drift(version, spec)
    if drift and strict:
        raise RunError(f"run {parent.id}", "; ".join(drift), "Leave --strict out to replay all the same.")
    return version


def _training(spec: RLExperimentSpec, loaded: LoadedCheckpoint | None) -> TrainingSpec:
    """How the policy was trained; of one that was not, how its spec would train it."""
    return spec.training if loaded is None else loaded.trained_spec.training


def _evaluate(run: Run, builder: Builder, arguments: Arguments, loaded: LoadedCheckpoint | None) -> None:
    spec = run.spec
    training = _training(spec, loaded)
    phase: EvaluationPhase = "validation" if arguments.validation else "evaluate"
    plan = EvaluationPlan(
        phase=_OWN_PHASES.get(run.row.target, phase),
        window=arguments.window or spec.evaluation.window,
        episodes=arguments.episodes or spec.evaluation.episodes,
        deterministic=spec.evaluation.deterministic if arguments.deterministic is None else arguments.deterministic,
        render=spec.evaluation.render,
        timesteps=run.row.timesteps,
        checkpoint=None if loaded is None else loaded.checkpoint,
        training=training,
    )
    start.load_data(
        run,
        builder,
        {_OWN_PHASES.get(plan.phase, "evaluation"): plan.window},
        seen=training_windows(training),
        trained_on=None if loaded is None else _trained_on(run, loaded),
    )
    if loaded is not None:
        with restoring(loaded.checkpoint.path):
            builder.restore_data(loaded.states)
    env = evaluation_env(builder, phase, plan.window, episodes=plan.episodes, render=plan.render)
    with closing(env), run.open_recorder() as recorder:
        start.report_env(run, env)
        learner = builder.build_learner(env, training=False)
        if loaded is None:
            builder.fit_preprocessing(env)
        else:
            with restoring(loaded.checkpoint.path):
                learner.set_state(loaded.states["learner"])
                load_preprocessing(env, loaded.states.get("preprocessing"))
        start.report_agent(run, builder, env)
        evaluated = evaluate_policy(run, builder, learner, env, recorder, plan)
        run.wait_if_halted()
        recorder.finish(compact=True)
    if evaluated is not None:
        report_evaluation(run, evaluated)
    evaluation = None if evaluated is None else evaluated.evaluation
    in_sample = None if evaluation is None else evaluation.in_sample
    run.finish(metrics=result_metrics(run, evaluation), timesteps=run.row.timesteps, in_sample=in_sample)


def _trained_on(run: Run, loaded: LoadedCheckpoint) -> tuple[RunRow, Window] | None:
    """The training behind a checkpoint; None where nobody knows it, or where its spec has other data."""
    trainer, trained = trainer_of(run.ledger, loaded.checkpoint.path), loaded.trained_spec
    if trainer is None or (trained.data_pipeline, trained.universe) != (run.spec.data_pipeline, run.spec.universe):
        return None
    return trainer, trained.training.window


def evaluation_env(
    builder: Builder, stream: str, window: Window, *, episodes: int, render: bool = False
) -> AnyVectorEnv:
    """An environment to evaluate a policy in.

    Args:
        builder: The builder of the run.
        stream: The stream of its randomness.
        window: The dates that it plays.
        episodes: How many episodes; not more environments than that are stepped together.
        render: Whether it must give pictures.
    """
    num_envs = min(episodes, builder.spec.training.n_envs)
    return builder.build_env(stream, num_envs=num_envs, phase="evaluate", window=window, render=render)


def evaluate_policy(
    run: Run, builder: Builder, learner: Learner, env: AnyVectorEnv, recorder: RunRecorder | None, plan: EvaluationPlan
) -> PolicyEvaluation | None:
    """Plays the planned episodes and records their steps, without a recorder none; None when the run was halted."""
    recorded = env
    if recorder is not None:
        recorded = recorder.record_evaluation(
            env, plan.phase, episodes=plan.episodes, timesteps=plan.timesteps, first_episode=plan.first_episode
        )
    started = datetime.now(UTC)
    with span("evaluate", phase=plan.phase):
        evaluation = evaluate_learner(
            learner,
            recorded,
            plan,
            # A replay plays the episodes of an evaluation.
            seed=derived_seed(builder.seed, "validation" if plan.phase == "validation" else "evaluate"),
            in_sample=builder.in_sample(plan.window, plan.training),
            dates=builder.dates_played(env, plan.window),
            halt=run.watcher,
        )
    if evaluation is None:
        return None
    # An episode that is played again and again is one.
    played = 1 if len(evaluation.distinct) == 1 else plan.episodes
    return PolicyEvaluation(
        evaluation,
        plan.phase,
        plan.timesteps,
        builder.seed,
        plan.deterministic,
        plan.checkpoint,
        started,
        judgement=builder.judgement(env, plan.window, episodes=played, deterministic=plan.deterministic),
        in_training=builder.in_training(plan.window, plan.training),
    )


def report_evaluation(run: Run, evaluated: PolicyEvaluation) -> None:
    """Stores an evaluation's row, emits its event, and reports it to the listeners."""
    evaluation, metrics = evaluated.evaluation, evaluated.evaluation.metrics
    judged = {JUDGEMENT: evaluated.judgement.as_dict()}
    run.ledger.add_evaluation(
        run.id,
        phase=evaluated.phase,
        timesteps=evaluated.timesteps,
        seed=evaluated.seed,
        episodes=metrics["episodes"],
        deterministic=evaluated.deterministic,
        in_sample=evaluation.in_sample,
        checkpoint_sha256=None if evaluated.checkpoint is None else evaluated.checkpoint.sha256,
        mean_reward=metrics["mean_reward"],
        std_reward=metrics["std_reward"],
        mean_length=metrics["mean_length"],
        **{name: metrics.get(name) for name in PORTFOLIO_COLUMNS},
        metrics={**metrics, **judged, "returns": list(evaluation.returns), "lengths": list(evaluation.lengths)},
        started_at=evaluated.started,
        ended_at=datetime.now(UTC),
    )
    run.emit("eval.step", phase=evaluated.phase, timesteps=evaluated.timesteps, **metrics, **judged)
    for listener in run.listeners:
        listener.on_evaluation(evaluated)


def result_metrics(run: Run, evaluation: Evaluation | None) -> JsonObject:
    """The metrics of a run's evaluation; its pictures, if there are any, are written now."""
    if evaluation is None:
        return {}
    metrics = dict(evaluation.metrics)
    if evaluation.frames:
        path = run.settings.below_home(Path("media")) / f"{run.id}.gif"
        path.parent.mkdir(parents=True, exist_ok=True)
        content = _gif(evaluation.frames)
        # Another process that took the run over has pictures of its own.
        run.ledger.refuse_stale()
        replace_synced(path, content)
        metrics["recording"] = str(path)
    return metrics


def _gif(frames: Sequence[Array]) -> bytes:
    """RGB frames as an animated GIF."""
    image = require("PIL.Image", extra="render")
    pictures = [image.fromarray(frame) for frame in frames]
    file = io.BytesIO()
    pictures[0].save(
        file, format="GIF", save_all=True, append_images=pictures[1:], duration=_MILLISECONDS_PER_FRAME, loop=0
    )
    return file.getvalue()
