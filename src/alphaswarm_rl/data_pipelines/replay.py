"""Recorded steps of earlier runs, for learning without an environment."""

from __future__ import annotations

import abc
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Literal, NoReturn

from pydantic import Field, model_validator

from alphaswarm_rl.core.errors import DataError
from alphaswarm_rl.core.kinds import DataPipeline
from alphaswarm_rl.data_pipelines.iceberg import PinConfig, read_rows

if TYPE_CHECKING:
    from alphaswarm_rl.core.contracts import DataRequest
    from alphaswarm_rl.data_pipelines.transitions import Transitions

_TABLE = "trajectories"


class TransitionPipeline(DataPipeline):
    """A data pipeline that gives recorded transitions. It has no bars, so no environment can trade on it."""

    @abc.abstractmethod
    def transitions(self, request: DataRequest) -> Transitions:
        """All transitions that it is set to give."""

    def batches(self, request: DataRequest, size: int, seed: int | None = None) -> Iterator[Transitions]:
        """All transitions once, `size` at a time: shuffled by the seed, or in order."""
        return self.transitions(request).batches(size, seed)

    def build(self, request: DataRequest) -> NoReturn:
        """Refuses: there is no panel to be had."""
        raise DataError(
            f"the data pipeline {self.rl_alias!r}",
            "it gives recorded transitions to learn from, not bars to trade",
            "Call its transitions(request) or batches(request, size); for market data name another, such as iceberg.",
        )


class ReplayRLDataPipeline(TransitionPipeline):
    """Recorded steps of runs, given back as transitions (s, a, r, s') for offline learning.

    The runs must have recorded their observations (`--record-observations`). A row's s' is the observation of the
    next row of its episode, or the episode's last sight where it ended. The last row of an episode that was cut, by the
    end of training or a halt, has no s' and gives no transition.
    """

    rl_alias = "replay"
    rl_category = "lake"
    rl_source = "pyiceberg"

    class Config(PinConfig):
        """Parameters of recorded steps."""

        runs: list[str] = Field(default_factory=list, description="Ids of the runs; or give spec_hash.")
        spec_hash: str | None = Field(
            None, pattern=r"^[0-9a-f]{64}$", description="All runs of the spec of this hash; or give runs."
        )
        phases: list[Literal["train", "validation", "evaluate", "replay", "backtest", "paper"]] = Field(
            ["train"], min_length=1, description="Phases whose steps are given."
        )

        @model_validator(mode="after")
        def _runs_or_a_spec(self) -> ReplayRLDataPipeline.Config:
            if bool(self.runs) == (self.spec_hash is not None):
                raise ValueError("runs and spec_hash both say which runs: give one of them")
            return self

    def transitions(self, request: DataRequest) -> Transitions:
        """The transitions of the runs, ordered by run, phase, environment, episode and step."""
        from alphaswarm_rl.data_pipelines.transitions import COLUMNS, transitions_of

        if request.window or request.symbols:
            raise DataError(
                f"the data pipeline {self.rl_alias!r}",
                "recorded steps are given as they were, not cut to dates or symbols",
                "Leave window and symbols out of the request; choose by runs and phases.",
            )
        config = self.config
        chosen: dict[str, Sequence[object]] = (
            {"run_id": config.runs} if config.runs else {"spec_hash": [config.spec_hash]}
        )
        rows = read_rows(request, _TABLE, config, columns=COLUMNS, where={**chosen, "phase": config.phases})
        found = set(rows["run_id"].unique().to_pylist())
        for run_id in config.runs:
            if run_id not in found:
                self._refuse(f"run {run_id}", request, {"run_id": [run_id]})
        if not found:
            self._refuse(f"the spec {config.spec_hash}", request, chosen)
        return transitions_of(rows)

    def _refuse(self, what: str, request: DataRequest, chosen: dict[str, Sequence[object]]) -> None:
        rows = read_rows(request, _TABLE, self.config, columns=["phase"], where=chosen)
        phases = sorted(rows["phase"].unique().to_pylist())
        existing = f"it has some of {', '.join(phases)}" if phases else "it has none of any phase"
        raise DataError(
            what,
            f"the lake holds no step of it in {', '.join(self.config.phases)}; {existing}",
            "Check the whole id and the phases; steps that were not delivered yet come with: rl lake commit.",
        )
