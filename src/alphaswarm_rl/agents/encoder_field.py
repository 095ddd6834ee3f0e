"""The field `encoder` of agents: the network between the observation and the layers."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, Field, ValidationInfo
from pydantic_core import PydanticCustomError

from alphaswarm_rl.core.errors import AlphaSwarmError
from alphaswarm_rl.core.refs import ComponentRef, reference

DEFAULT_EMBED_DIM = 64


def _as_encoder(value: Any, info: ValidationInfo) -> Any:
    """An encoder by its name, or a backbone as a reference to it: one meaning, one hash."""
    if value is None or value in ("mlp", "cnn"):
        return value
    named = {"class": value} if isinstance(value, str) else value
    try:
        return reference(named, "policy_backbone", stored=bool((info.context or {}).get("stored")))
    except AlphaSwarmError as error:
        raise PydanticCustomError(
            "component", "{text}", {"text": f"{error} Other encoders are 'mlp' and 'cnn'"}
        ) from error


_Backbone = Annotated[ComponentRef, Field(json_schema_extra={"rl_kind": "policy_backbone"})]
Encoder = Annotated[str | _Backbone | None, BeforeValidator(_as_encoder)]
