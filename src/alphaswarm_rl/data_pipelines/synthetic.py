"""Bars that are made, not read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field, model_validator

from alphaswarm_rl.core.seeding import LARGEST_SEED
from alphaswarm_rl.data_pipelines.pipeline import DateText, PanelPipeline, PipelineConfig

if TYPE_CHECKING:
    from alphaswarm_rl.core.contracts import DataRequest
    from alphaswarm_rl.market.panel import MarketPanel

#: Parameters that each model has beside the common ones, with their values where none is given.
MODEL_PARAMETERS: dict[str, dict[str, float]] = {
    "gbm": {"drift": 0.05},
    "ou": {"mean_reversion": 5.0},
    "regime_switching": {"drift": 0.05, "persistence": 0.99, "stress_volatility": 0.5},
    "jumps": {"drift": 0.05, "jump_rate": 5.0, "jump_mean": -0.03, "jump_deviation": 0.05},
    "garch": {"drift": 0.05, "garch_alpha": 0.08, "garch_beta": 0.9},
    "oracle": {"drift": 0.05},
    "noise": {},
}
_OWN = sorted({name for parameters in MODEL_PARAMETERS.values() for name in parameters})


class SyntheticPipeline(PanelPipeline):
    """Bars drawn from a model of the market: GBM, Ornstein-Uhlenbeck, regimes, jumps, GARCH, and two controls.

    The controls test what learns. `oracle` is GBM with a feature `next_return`, the return that follows, marked as
    training-only: whoever cannot earn with it has a fault. `noise` is a martingale with a feature `noise` that says
    nothing: whoever earns with it after costs has one too.

    Asset i is the same whatever the number of assets, and the first bars are the same whatever the number of bars.
    """

    rl_alias = "synthetic"
    rl_category = "offline"

    class Config(PipelineConfig):
        """Parameters of synthetic bars. Rates are per year, in natural logarithms where they concern prices."""

        model: Literal["gbm", "ou", "regime_switching", "jumps", "garch", "oracle", "noise"] = Field(
            "gbm", description="Which model draws the returns."
        )
        n_assets: int = Field(5, ge=1, le=10_000, description="Number of assets.")
        n_bars: int = Field(1000, ge=2, description="Number of bars.")
        start: DateText = Field("2020-01-01", description="Date of the first bar, ISO, UTC.")
        bar: Literal["1m", "5m", "15m", "30m", "1h", "4h", "1d"] = Field("1d", description="Length of a bar.")
        weekends: bool = Field(False, description="Whether Saturdays and Sundays trade.")
        volatility: float = Field(0.2, gt=0, le=10, description="Volatility per year.")
        correlation: float = Field(0.3, ge=0, lt=1, description="Correlation of any two assets' shocks.")
        seed: int | None = Field(None, ge=0, le=LARGEST_SEED, description="Seed of the bars; null: the run's seed.")
        drift: float | None = Field(
            None,
            ge=-10,
            le=10,
            description="Expected growth per year; null: 0.05. Not for ou and noise, which have none.",
        )
        mean_reversion: float | None = Field(None, gt=0, description="ou: speed of return to 100, per year; null: 5.")
        persistence: float | None = Field(
            None, gt=0, lt=1, description="regime_switching: chance to stay calm or stressed for a bar; null: 0.99."
        )
        stress_volatility: float | None = Field(
            None, gt=0, le=10, description="regime_switching: volatility under stress, where drift turns; null: 0.5."
        )
        jump_rate: float | None = Field(None, ge=0, le=200, description="jumps: expected jumps per year; null: 5.")
        jump_mean: float | None = Field(None, ge=-1, le=1, description="jumps: mean log jump; null: -0.03.")
        jump_deviation: float | None = Field(
            None, ge=0, le=1, description="jumps: standard deviation of a log jump; null: 0.05."
        )
        garch_alpha: float | None = Field(
            None, ge=0, lt=1, description="garch: weight of the last squared shock; null: 0.08."
        )
        garch_beta: float | None = Field(None, ge=0, lt=1, description="garch: weight of the last variance; null: 0.9.")

        @model_validator(mode="before")
        @classmethod
        def _fill_in(cls, data: object) -> object:
            # Written out, so that a spec's hash holds the numbers that are used.
            if not isinstance(data, dict):
                return data
            own = MODEL_PARAMETERS.get(data.get("model", "gbm"), {})
            return {**data, **{name: value for name, value in own.items() if data.get(name) is None}}

        @model_validator(mode="after")
        def _belongs_to_the_model(self) -> SyntheticPipeline.Config:
            own = MODEL_PARAMETERS[self.model]
            strangers = [name for name in _OWN if getattr(self, name) is not None and name not in own]
            if strangers:
                raise ValueError(f"the model {self.model!r} has no parameter {strangers[0]!r}")
            if self.garch_alpha is not None and self.garch_beta is not None and self.garch_alpha + self.garch_beta >= 1:
                raise ValueError("garch_alpha + garch_beta must be below 1")
            return self

    def load(self, request: DataRequest) -> MarketPanel:
        """All bars."""
        from alphaswarm_rl.data_pipelines.synthetic_market import make_panel

        config = self.config
        seed = request.seed if config.seed is None else config.seed
        parameters = {name: getattr(config, name) for name in MODEL_PARAMETERS[config.model]}
        return make_panel(config, parameters, seed)
