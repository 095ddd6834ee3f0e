"""Moving pictures of an episode."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from alphaswarm_rl.core.errors import require

_MILLISECONDS_PER_FRAME = 33


def save_gif(frames: Sequence[np.ndarray[Any, Any]], path: Path) -> Path:
    """Writes RGB frames as an animated GIF."""
    image = require("PIL.Image", extra="render")
    pictures = [image.fromarray(frame) for frame in frames]
    path.parent.mkdir(parents=True, exist_ok=True)
    pictures[0].save(path, save_all=True, append_images=pictures[1:], duration=_MILLISECONDS_PER_FRAME, loop=0)
    return path
