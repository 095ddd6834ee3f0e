"""Rolling out a trained policy without a run of its own: what `rl infer --episodes` does."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from alphaswarm_rl.core.errors import EnvError
from alphaswarm_rl.core.seeding import derived_seed
from alphaswarm_rl.options import effective_spec
from alphaswarm_rl.runtime.building import Builder, load_preprocessing
from alphaswarm_rl.runtime.checkpoints import load_checkpoint
from alphaswarm_rl.runtime.fingerprints import resolve_device, torch_threads
from alphaswarm_rl.runtime.rollout import evaluate_learner

if TYPE_CHECKING:
    from alphaswarm_rl.core.contracts import AnyVectorEnv
    from alphaswarm_rl.runtime.inference import Inference
    from alphaswarm_rl.settings import Settings
    from alphaswarm_rl.spec import RLExperimentSpec

#: The stream of the run's own final evaluation: without --env, the same episodes are played.
_STREAM = "evaluate"


def roll_out(
    inference: Inference, settings: Settings, *, episodes: int, env_id: str | None
) -> Iterator[dict[str, Any]]:
    """One answer per episode.

    Args:
        inference: The policy.
        settings: The device.
        episodes: How many episodes.
        env_id: A Gymnasium id or the alias of an environment; None takes the spec's.
    """
    checkpoint = inference.checkpoint
    loaded = load_checkpoint(checkpoint.path, expected_sha256=checkpoint.sha256)
    device = resolve_device(settings.infer.device)
    spec = inference.spec if env_id is None else effective_spec(inference.spec, {"env.envId": env_id}, {}).spec
    builder = Builder(spec, seed=loaded.seed, device=device)
    env = _build_env(builder, num_envs=min(episodes, spec.training.n_envs))
    try:
        if env_id is not None:
            _refuse_other_spaces(env, env_id, inference.spec, seed=loaded.seed, device=device)
        learner = builder.build_learner(env, training=False)
        learner.set_state(loaded.states["learner"])
        load_preprocessing(env, loaded.states.get("preprocessing"))
        with torch_threads(settings.infer.threads):
            evaluation = evaluate_learner(
                learner,
                env,
                episodes=episodes,
                deterministic=inference.deterministic,
                in_sample=None,
                seed=derived_seed(loaded.seed, _STREAM),
            )
    finally:
        env.close()
    assert evaluation is not None, "only a halt ends it early, and nobody can ask for one"
    for episode, (reward, length) in enumerate(zip(evaluation.returns, evaluation.lengths, strict=True)):
        yield {"episode": episode, "reward": reward, "length": length, "checkpoint_sha256": checkpoint.sha256}


def _build_env(builder: Builder, *, num_envs: int) -> AnyVectorEnv:
    return builder.build_env(_STREAM, num_envs=num_envs, phase="evaluate", window=builder.spec.evaluation.window)


def _refuse_other_spaces(env: AnyVectorEnv, env_id: str, spec: RLExperimentSpec, *, seed: int, device: str) -> None:
    trained = _build_env(Builder(spec, seed=seed, device=device), num_envs=1)
    try:
        for name in ("observation", "action"):
            theirs = getattr(env, f"single_{name}_space")
            ours = getattr(trained, f"single_{name}_space")
            if theirs != ours:
                raise EnvError(
                    f"environment {env_id!r}",
                    f"its {name} space is {theirs}, and the policy was trained for {ours}",
                    "Choose an environment of the same spaces.",
                )
    finally:
        trained.close()
