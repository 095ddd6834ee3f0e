"""What a training begins with instead of random weights: the policy of another one, pinned by a checksum."""

from __future__ import annotations

import re
from typing import Any, Self

from pydantic import (
    Field,
    NonNegativeInt,
    PositiveInt,
    SerializerFunctionWrapHandler,
    model_serializer,
    model_validator,
)
from pydantic_core import PydanticCustomError

from alphaswarm_rl.core.errors import SpecError
from alphaswarm_rl.core.model import FrozenModel, PlainText
from alphaswarm_rl.core.types import JsonObject

_SHA256 = r"^[0-9a-f]{64}$"


class SeenWindow(FrozenModel):
    """Dates that the policy's training saw, and of which data."""

    start: str | None = Field(None, description="First date; null: the first there is.")
    end: str | None = Field(None, description="First date after; null: after the last there is.")
    data: str = Field(pattern=_SHA256, description="SHA-256 of the canonical reference to the data.")


class InitFrom(FrozenModel):
    """The checkpoint whose weights and normaliser a training begins with.

    It is named by run, model or folder. Once it was found and verified its checksum alone stands for it: that is what
    is hashed, and how it is found again, by whatever name.
    """

    run: PlainText | None = Field(None, description="Id of a training run, or a unique beginning of it.")
    model: PositiveInt | None = Field(None, description="Id of a registered model.")
    checkpoint: NonNegativeInt | PlainText = Field(
        "last", description="With a run: last, best or a step. Alone: the folder of a checkpoint."
    )
    sha256: str | None = Field(None, pattern=_SHA256, description="Checksum of the checkpoint; null: as it is found.")
    seen: tuple[SeenWindow, ...] | None = Field(
        None, description="What its training saw; written when the checkpoint is found."
    )

    @model_validator(mode="after")
    def _one_is_named(self) -> Self:
        if self.run is not None and len(self.run) < 4:
            raise PydanticCustomError("init_from", "a run is named by 4 characters of its id or more", {})
        if self.run is not None and self.model is not None:
            raise PydanticCustomError("init_from", "run and model are two names; keep one", {})
        if self.model is not None and self.checkpoint != "last":
            raise PydanticCustomError("init_from", "a model is one checkpoint: leave checkpoint out", {})
        if self.run is not None and self.checkpoint not in ("last", "best") and not isinstance(self.checkpoint, int):
            raise PydanticCustomError("init_from", "checkpoint of a run is last, best or a step", {})
        if self.run is None and self.model is None and self.folder is None and self.sha256 is None:
            raise PydanticCustomError("init_from", "name a run, a model, a checkpoint folder or a sha256", {})
        return self

    @model_serializer(mode="wrap")
    def _without_names(self, serialize: SerializerFunctionWrapHandler) -> JsonObject:
        # Names are of one home: what is stored, and what checkpoints hold, must not depend on them.
        data: JsonObject = serialize(self)
        if self.is_pinned:
            return {key: data[key] for key in ("sha256", "seen")}
        return {key: value for key, value in data.items() if value not in (None, "last")}

    @property
    def folder(self) -> str | None:
        """The folder that was named; None where a run or a model was, or nothing."""
        named = self.run is not None or self.model is not None
        return None if named or self.checkpoint in ("last", "best") else str(self.checkpoint)

    @property
    def is_pinned(self) -> bool:
        """Whether the checkpoint was found: its checksum is known, and what its training saw."""
        return self.sha256 is not None and self.seen is not None

    @property
    def called(self) -> str:
        """What errors and notices call it."""
        if self.run is not None:
            return f"run {self.run}" if self.checkpoint == "last" else f"checkpoint {self.checkpoint} of run {self.run}"
        if self.model is not None:
            return f"model {self.model}"
        return f"checkpoint {self.folder!r}" if self.folder is not None else f"checkpoint with SHA-256 {self.sha256}"

    def canonical_form(self) -> JsonObject:
        """What is hashed of it: the checksum alone, whatever it was called."""
        if self.sha256 is None:
            raise SpecError(
                f"training.init_from: {self.called}",
                "its checksum is not known yet, and the hash of the spec is made of that",
                "Train it, or write its sha256 beside it.",
            )
        return {"sha256": self.sha256}


def named_weights(value: object) -> Any:
    """What a short spelling means: `model:ID`, a SHA-256, a folder (with a slash), else a run."""
    if not isinstance(value, str):
        return value
    if re.fullmatch(r"model:[0-9]+", value):
        return {"model": int(value.removeprefix("model:"))}
    if re.fullmatch(_SHA256, value):
        return {"sha256": value}
    return {"checkpoint": value} if "/" in value or value.startswith((".", "~")) else {"run": value}
