"""Which dates a policy's training saw, and of which data: what makes an evaluation in-sample."""

from __future__ import annotations

from alphaswarm_rl.core.hashing import canonical_json, sha256_text
from alphaswarm_rl.core.window import Window
from alphaswarm_rl.spec import RLExperimentSpec
from alphaswarm_rl.spec.init_from import SeenWindow
from alphaswarm_rl.spec.sections import TrainingSpec


def training_windows(training: TrainingSpec) -> tuple[Window, ...]:
    """What training and validation see; a best model without a window of its own is sought everywhere."""
    if training.validation_window or training.eval_during_training:
        return (training.window, training.validation_window)
    return (training.window,)


def seen_windows(spec: RLExperimentSpec) -> tuple[SeenWindow, ...]:
    """What a policy of that spec has seen: in its training, and in that of the weights it began with."""
    data = data_digest(spec)
    own = [SeenWindow(start=seen.start, end=seen.end, data=data) for seen in training_windows(spec.training)]
    return tuple(dict.fromkeys([*own, *earlier_windows(spec.training)]))


def earlier_windows(training: TrainingSpec) -> tuple[SeenWindow, ...]:
    """What the weights saw that a training began with."""
    return () if training.init_from is None else training.init_from.seen or ()


def data_digest(spec: RLExperimentSpec) -> str:
    """SHA-256 of the reference to the data that a spec plays: its pipeline, or its environment."""
    source = spec.env if spec.data_pipeline is None else spec.data_pipeline
    return sha256_text(canonical_json(None if source is None else source.canonical_form()))
