"""A policy that was trained before."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Self

from pydantic import Field, NonNegativeInt, PositiveInt, model_validator
from pydantic_core import PydanticCustomError

from alphaswarm_rl.core.component import ComponentConfig
from alphaswarm_rl.core.errors import ComponentError
from alphaswarm_rl.core.kinds import Policy

if TYPE_CHECKING:
    from alphaswarm_rl.core.contracts import FrozenRef, PolicyRequest, PolicyRunner


class FrozenPolicy(Policy):
    """What a training run or a registered model learnt, as a policy that learns nothing more.

    It sees observations as they come from the environment and prepares them as in its training, with the statistics of
    that; the spec's own `obs` must leave them alone. Memory and stacked frames last for an episode. The environment
    must have the spaces that it was trained for. The checkpoint is verified, and its checksum said in the run's row.
    """

    rl_alias = "frozen"
    rl_category = "trained"
    rl_tags = ("discrete", "continuous")

    class Config(ComponentConfig):
        """Parameters of the frozen policy."""

        run: str | None = Field(
            None, min_length=4, description="Id of a training run, or a unique beginning of it; null: a model is named."
        )
        model: PositiveInt | None = Field(None, description="Id of a registered model; null: a run is named.")
        checkpoint: Literal["last", "best"] | NonNegativeInt = Field(
            "last", description="Which checkpoint of the run: its last, its best, or the one at a step."
        )
        sha256: str | None = Field(
            None,
            pattern="^[0-9a-f]{64}$",
            description="Checksum that the checkpoint must have; null: the one that ledger or registry recorded.",
        )
        deterministic: bool | None = Field(
            None, description="Whether it acts without drawing; null: as whoever evaluates it asks, and training draws."
        )

        @model_validator(mode="after")
        def _one_is_named(self) -> Self:
            if (self.run is None) == (self.model is None):
                raise PydanticCustomError("frozen", "exactly one of run and model is needed", {})
            if self.run == "latest":
                raise PydanticCustomError("frozen", "run: latest would be another one tomorrow; name its id", {})
            if self.model is not None and self.checkpoint != "last":
                raise PydanticCustomError("frozen", "a model is one checkpoint: leave checkpoint out", {})
            return self

    def names(self) -> FrozenRef:
        """The policy that it names."""
        from alphaswarm_rl.core.contracts import FrozenRef

        c = self.config
        return FrozenRef(run=c.run, model=c.model, checkpoint=c.checkpoint, sha256=c.sha256)

    def build(self, request: PolicyRequest) -> PolicyRunner:
        """The trained policy, for that environment; one of other spaces is an error."""
        from alphaswarm_rl.policies.runners import FrozenRunner

        if request.load_policy is None:
            raise ComponentError(
                f"policy {self.rl_alias!r}",
                "whoever builds it has no way to runs and models",
                "Run it through RLRuntime, or the command rl.",
            )
        return FrozenRunner(request.load_policy(self.names()), request, deterministic=self.config.deterministic)
