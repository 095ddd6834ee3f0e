"""RLRuntime: train, resume, evaluate, replay."""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping, Sequence
from contextlib import closing, nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from alphaswarm_rl.core.contracts import Learner
from alphaswarm_rl.core.errors import RunError, SpecError
from alphaswarm_rl.core.seeding import LARGEST_SEED, derived_seed
from alphaswarm_rl.core.window import Window
from alphaswarm_rl.ledger import Ledger, RunRow, VersionRow
from alphaswarm_rl.options import load_settings
from alphaswarm_rl.runtime.building import Builder, load_preprocessing
from alphaswarm_rl.runtime.checkpoints import Checkpoint, CheckpointStore, LoadedCheckpoint, load_checkpoint
from alphaswarm_rl.runtime.envelope import (
    RunFailed,
    RunResult,
    RunScope,
    finish,
    refuse_if_halted,
    result_of,
    run_scope,
)
from alphaswarm_rl.runtime.episodes import EpisodeTracker
from alphaswarm_rl.runtime.events import Sink
from alphaswarm_rl.runtime.fingerprints import (
    code_fingerprint,
    component_drift,
    machine_fingerprint,
    resolve_device,
    torch_threads,
)
from alphaswarm_rl.runtime.media import save_gif
from alphaswarm_rl.runtime.progress import ProgressBar
from alphaswarm_rl.runtime.rollout import Evaluation, evaluate_learner
from alphaswarm_rl.runtime.selection import Selection
from alphaswarm_rl.runtime.training import EvaluationPhase, TrainingSession, record_evaluation
from alphaswarm_rl.settings import Settings
from alphaswarm_rl.spec import RLExperimentSpec, load_spec, refuse_absent, refuse_verb

__all__ = ["RLRuntime", "RunFailed", "RunResult"]


class RLRuntime:
    """Runs one spec.

    Args:
        spec: The spec, its YAML file, or the name of a preset.
        settings: Where it runs; None reads the environment and the settings file, whose defaults need no server.
        overrides: What flags and environment variables changed in the spec, stored in the run row.
        progress: Whether a progress bar is shown on standard error.
        sinks: More receivers of the run's events.
    """

    def __init__(
        self,
        spec: RLExperimentSpec | str | Path,
        settings: Settings | None = None,
        *,
        overrides: Mapping[str, Any] | None = None,
        progress: bool = False,
        sinks: Sequence[Sink] = (),
    ) -> None:
        self.spec = spec if isinstance(spec, RLExperimentSpec) else load_spec(spec)
        self.settings = load_settings({}, os.environ) if settings is None else settings
        self._overrides = dict(overrides or {})
        self._progress = progress
        self._sinks = tuple(sinks)
        self._run: RunRow | None = None
        self._version: VersionRow | None = None
        refuse_absent(self.spec)

    @classmethod
    def from_run(
        cls, run: str, settings: Settings | None = None, *, progress: bool = False, sinks: Sequence[Sink] = ()
    ) -> RLRuntime:
        """The runtime of a stored run: its pinned version, whatever the files say today.

        Args:
            run: A run's id, a unique beginning of it, or `latest`.
            settings: Where the ledger is; None reads the environment and the settings file.
            progress: Whether a progress bar is shown on standard error.
            sinks: More receivers of the run's events.
        """
        settings = load_settings({}, os.environ) if settings is None else settings
        with Ledger.open(settings) as ledger:
            row = ledger.run(run)
            version = ledger.version(row.version_id)
        spec = RLExperimentSpec.from_data(version.payload, source=f"stored version {version.id}")
        if spec.spec_hash != version.spec_hash:
            raise SpecError(
                f"stored version {version.id}",
                f"this code gives it the hash {spec.spec_hash[:12]}, not {version.spec_hash[:12]}",
                "Use the version of alphaswarm-rl that wrote it.",
            )
        runtime = cls(spec, settings, progress=progress, sinks=sinks)
        runtime._run, runtime._version = row, version
        return runtime

    # -- train ----------------------------------------------------------------------------------------------------

    def train(self, *, seed: int | str | None = None) -> RunResult:
        """Trains the spec's agent, judges it, and leaves a checkpoint.

        Args:
            seed: Seed of this run; `random` draws one and pins it; None takes the spec's.
        """
        refuse_verb(self.spec, "train")
        with Ledger.open(self.settings) as ledger, torch_threads(self.settings.infer.threads):
            refuse_if_halted(ledger, None)
            version = ledger.persist_spec(self.spec)
            run = self._create_run(
                ledger,
                version,
                "train",
                seed=draw_seed(seed, self.spec.seed),
                window=self.spec.training.window,
                total_timesteps=self.spec.training.total_timesteps,
                overrides=self._overrides,
            )
            return self._train(ledger, run, None)

    def resume(self) -> RunResult:
        """Goes on with an interrupted, halted or failed training run, in its own row, from its last checkpoint."""
        row = self._the_run()
        if row.target != "train":
            raise RunError(f"run {row.id}", f"it is a run of {row.target!r}", "Only training runs are resumed.")
        with Ledger.open(self.settings) as ledger, torch_threads(self.settings.infer.threads):
            refuse_if_halted(ledger, row.id)
            row = ledger.run(row.id)
            if row.checkpoint is None and row.status != "running":
                raise RunError(f"run {row.id}", "it has no checkpoint to go on from", "Train the spec again: rl train.")
            run = ledger.claim_for_resume(row.id)
            return self._train(ledger, run, row)

    def _train(self, ledger: Ledger, run: RunRow, stopped: RunRow | None) -> RunResult:
        with run_scope(ledger, run, self.settings, self._sinks) as scope:
            builder = self._start(ledger, scope, self.spec.training.window)
            env = EpisodeTracker(
                builder.build_env(
                    "env", num_envs=self.spec.training.n_envs, phase="train", window=self.spec.training.window
                )
            )
            try:
                scope.bus.emit("env.built", **_describe_env(env))
                learner = builder.build_learner(env, training=True)
                scope.bus.emit(
                    "agent.built", agent=builder.agent.rl_alias, device=builder.device, resume=learner.resume
                )
                return self._train_learner(ledger, scope, builder, env, learner, stopped)
            finally:
                env.close()

    def _train_learner(
        self,
        ledger: Ledger,
        scope: RunScope,
        builder: Builder,
        env: EpisodeTracker,
        learner: Learner,
        stopped: RunRow | None,
    ) -> RunResult:
        run = scope.run
        total = self.spec.training.total_timesteps
        progress = ProgressBar(total) if self._progress else None
        session = TrainingSession(
            builder=builder,
            learner=learner,
            env=env,
            run_id=run.id,
            ledger=ledger,
            bus=scope.bus,
            store=CheckpointStore(self.settings.models_path),
            watcher=scope.watcher,
            settings=self.settings,
            progress=progress,
        )
        with closing(session):
            if stopped is None:
                builder.fit_preprocessing(env.env)
            else:
                self._restore(ledger, session, stopped)
            with progress or nullcontext():
                learner.train(env, total, session)
                if progress is not None:
                    progress.update(env.transitions, env.mean_reward, force=True)
            session.save()
            evaluation = None if scope.watcher.reason else session.evaluate()
        metrics = self._metrics(run, evaluation)
        if session.best_reward is not None:
            metrics["best_reward"] = session.best_reward
        session.announce(session.checkpoint, final=True)
        in_sample = None if evaluation is None else evaluation.in_sample
        finish(ledger, scope, metrics=metrics, timesteps=learner.timesteps, in_sample=in_sample)
        return result_of(ledger.run(run.id))

    def _restore(self, ledger: Ledger, session: TrainingSession, run: RunRow) -> None:
        assert run.checkpoint is not None
        loaded = load_checkpoint(Path(run.checkpoint), expected_sha256=run.checkpoint_sha256)
        how = session.restore(loaded)
        ledger.drop_beyond(run.id, loaded.checkpoint.timesteps)
        if run.best_checkpoint is not None and run.best_reward is not None:
            best = load_checkpoint(Path(run.best_checkpoint))
            if best.checkpoint.timesteps <= loaded.checkpoint.timesteps:
                session.best, session.best_reward = best.checkpoint, run.best_reward
        notice = f"resumed at step {loaded.checkpoint.timesteps} from {run.status}; resume: {how}"
        if how == "approximate":
            notice += " (episodes start fresh)"
        ledger.update_run(
            run.id, resume=how, timesteps=loaded.checkpoint.timesteps, notices=[*(run.notices or []), notice]
        )

    # -- evaluate and replay --------------------------------------------------------------------------------------

    def evaluate(
        self,
        *,
        run: str | None = None,
        checkpoint: str | int | None = None,
        seed: int | str | None = None,
        window: Window | None = None,
        episodes: int | None = None,
        deterministic: bool | None = None,
        strict: bool = False,
    ) -> RunResult:
        """Judges a policy on the evaluation window, in a row of its own.

        Args:
            run: The training run that made the policy; None takes the runtime's own (`from_run`).
            checkpoint: `best`, a step, or a folder; None takes the run's last.
            seed: Seed of the episodes; None takes the parent run's; `random` draws one.
            window: Other dates than the spec's.
            episodes: Another number of episodes than the spec's.
            deterministic: Another way to act than the spec's.
            strict: Refuse, instead of warn, when components changed since the version was stored.
        """
        arguments = {"seed": seed, "window": window, "episodes": episodes, "deterministic": deterministic}
        return self._judge("evaluate", run, checkpoint, arguments, strict=strict)

    def replay(
        self,
        new_window: Window | None = None,
        *,
        run: str | None = None,
        checkpoint: str | int | None = None,
        seed: int | str | None = None,
        episodes: int | None = None,
        deterministic: bool | None = None,
        strict: bool = False,
    ) -> RunResult:
        """Feeds a trained policy another window or seed, under its pinned version; see `evaluate` for the arguments."""
        arguments = {"seed": seed, "window": new_window, "episodes": episodes, "deterministic": deterministic}
        return self._judge("replay", run, checkpoint, arguments, strict=strict)

    def _judge(
        self, target: str, run: str | None, checkpoint: str | int | None, arguments: Mapping[str, Any], *, strict: bool
    ) -> RunResult:
        refuse_verb(self.spec, target)
        if arguments["episodes"] is not None and arguments["episodes"] < 1:
            raise RunError(
                f"{arguments['episodes']} episodes", "a policy is judged by at least one", "Give a larger number."
            )
        with Ledger.open(self.settings) as ledger, torch_threads(self.settings.infer.threads):
            refuse_if_halted(ledger, None)
            parent = ledger.run(run) if run is not None else self._run
            version, notices = self._version_to_judge(ledger, parent, strict=strict)
            store = CheckpointStore(self.settings.models_path)
            loaded = Selection(ledger, store, self.spec).load(parent, checkpoint, verb=target)
            window = arguments["window"] or self.spec.evaluation.window
            row = self._create_run(
                ledger,
                version,
                target,
                seed=draw_seed(arguments["seed"], self.spec.seed if parent is None else parent.seed),
                window=window,
                parent=parent,
                arguments={
                    key: [value.start, value.end] if isinstance(value, Window) else value
                    for key, value in {**arguments, "checkpoint": checkpoint}.items()
                    if value is not None
                },
                notices=notices,
                checkpoint=None if loaded is None else loaded.checkpoint,
                timesteps=0 if loaded is None else loaded.checkpoint.timesteps,
            )
            with run_scope(ledger, row, self.settings, self._sinks) as scope:
                self._roll_out(ledger, scope, loaded, window, arguments)
            return result_of(ledger.run(row.id))

    def _roll_out(
        self,
        ledger: Ledger,
        scope: RunScope,
        loaded: LoadedCheckpoint | None,
        window: Window,
        arguments: Mapping[str, Any],
    ) -> None:
        spec = self.spec
        episodes = arguments["episodes"] or spec.evaluation.episodes
        deterministic = (
            spec.evaluation.deterministic if arguments["deterministic"] is None else arguments["deterministic"]
        )
        builder = self._start(ledger, scope, window)
        env = builder.build_env(
            "evaluate",
            num_envs=min(episodes, spec.training.n_envs),
            phase="evaluate",
            window=window,
            render=spec.evaluation.render,
        )
        try:
            scope.bus.emit("env.built", **_describe_env(env))
            learner = builder.build_learner(env, training=False)
            if loaded is not None:
                learner.set_state(loaded.states["learner"])
                load_preprocessing(env, loaded.states.get("preprocessing"))
            else:
                builder.fit_preprocessing(env)
            scope.bus.emit("agent.built", agent=builder.agent.rl_alias, device=builder.device)
            started = datetime.now(UTC)
            phase: EvaluationPhase = "replay" if scope.run.target == "replay" else "evaluate"
            evaluation = evaluate_learner(
                learner,
                env,
                episodes=episodes,
                deterministic=deterministic,
                in_sample=builder.in_sample(window),
                seed=derived_seed(scope.run.seed, "evaluate"),
                halt=scope.watcher,
                record_frames=spec.evaluation.render,
            )
        finally:
            env.close()
        if evaluation is not None:
            record_evaluation(
                ledger,
                scope.bus,
                scope.run.id,
                evaluation,
                phase=phase,
                timesteps=scope.run.timesteps,
                seed=scope.run.seed,
                deterministic=deterministic,
                checkpoint_sha256=scope.run.checkpoint_sha256,
                started=started,
            )
        metrics = self._metrics(scope.run, evaluation)
        in_sample = None if evaluation is None else evaluation.in_sample
        finish(ledger, scope, metrics=metrics, timesteps=scope.run.timesteps, in_sample=in_sample)

    def _version_to_judge(self, ledger: Ledger, parent: RunRow | None, *, strict: bool) -> tuple[VersionRow, list[str]]:
        if parent is None:
            return ledger.persist_spec(self.spec), []
        version = ledger.version(parent.version_id)
        if version.spec_hash != self.spec.spec_hash:
            raise RunError(
                f"run {parent.id}",
                f"it belongs to another version ({version.spec_hash[:12]}) than this spec ({self.spec.spec_hash[:12]})",
                "Use RLRuntime.from_run(run), which takes the run's own version.",
            )
        drift = component_drift(version.component_versions, self.spec.component_versions)
        if drift and strict:
            raise RunError(f"run {parent.id}", "; ".join(drift), "Leave --strict out to replay all the same.")
        return version, drift

    # -- shared ---------------------------------------------------------------------------------------------------

    def _the_run(self) -> RunRow:
        if self._run is None:
            raise RunError("this runtime", "it was not made from a run", "Use RLRuntime.from_run(run).")
        return self._run

    def _create_run(
        self,
        ledger: Ledger,
        version: VersionRow,
        target: str,
        *,
        seed: int,
        window: Window,
        parent: RunRow | None = None,
        checkpoint: Checkpoint | None = None,
        **columns: Any,
    ) -> RunRow:
        device = resolve_device(self.settings.infer.device)
        return ledger.create_run(
            spec_id=version.spec_id,
            version_id=version.id,
            parent_run_id=None if parent is None else parent.id,
            family=self.spec.slug,
            name=self.settings.store.run_name,
            target=target,
            seed=seed,
            spec_hash=version.spec_hash,
            exec_hash=self.spec.exec_hash,
            code_fingerprint={**code_fingerprint(), "components": self.spec.component_versions},
            machine=machine_fingerprint(device),
            device=device,
            window_start=window.start,
            window_end=window.end,
            checkpoint=None if checkpoint is None else str(checkpoint.path),
            checkpoint_sha256=None if checkpoint is None else checkpoint.sha256,
            **columns,
        )

    def _start(self, ledger: Ledger, scope: RunScope, window: Window) -> Builder:
        run = scope.run
        scope.bus.emit(
            "start",
            target=run.target,
            spec=self.spec.slug,
            version_id=run.version_id,
            spec_hash=run.spec_hash,
            seed=run.seed,
        )
        builder = Builder(self.spec, seed=run.seed, device=run.device)
        fingerprint = builder.env.data_fingerprint(window)
        notices = [*(run.notices or []), *(note for note in builder.env.notices() if note not in (run.notices or []))]
        ledger.update_run(run.id, data_fingerprint=fingerprint, notices=notices)
        scope.bus.emit("data.loaded", data_fingerprint=fingerprint, window=[window.start, window.end], notices=notices)
        return builder

    def _metrics(self, run: RunRow, evaluation: Evaluation | None) -> dict[str, Any]:
        if evaluation is None:
            return {}
        metrics = dict(evaluation.metrics)
        if evaluation.frames:
            metrics["recording"] = str(
                save_gif(evaluation.frames, self.settings.below_home(Path("media")) / f"{run.id}.gif")
            )
        return metrics


def draw_seed(wanted: int | str | None, default: int) -> int:
    """The seed that a run pins."""
    if wanted is None:
        return default
    if wanted == "random":
        return secrets.randbelow(LARGEST_SEED + 1)
    if not str(wanted).isdigit() or int(wanted) > LARGEST_SEED:
        raise RunError(
            f"seed {wanted!r}", f"it is not a whole number from 0 to {LARGEST_SEED}", "Give such a number, or: random."
        )
    return int(wanted)


def _describe_env(env: Any) -> dict[str, Any]:
    return {
        "num_envs": env.num_envs,
        "observation_space": str(env.single_observation_space),
        "action_space": str(env.single_action_space),
    }
