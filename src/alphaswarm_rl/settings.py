"""Where and how the system runs: never part of a spec, never hashed."""

from __future__ import annotations

import logging
import os
import re
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, field_validator, model_validator

from alphaswarm_rl.core.model import FrozenModel


class StoreSettings(FrozenModel):
    """Where a run's artefacts go."""

    backend: Literal["local", "tensorboard", "s3", "mlflow", "wandb"] = Field("local", description="Tracking back-end.")
    tracking_uri: str = Field(
        "http://localhost:5000", description="Address of the tracker: a server of MLflow or W&B, or s3://bucket/prefix."
    )
    experiment_name: str = Field(
        "rl-experiment", min_length=1, description="Experiment at the tracker, where the spec names none."
    )
    delivery_seconds: float = Field(
        10.0, ge=0, description="Seconds that a run waits at its end for its tracker; the rest is delivered later."
    )
    run_name: str | None = Field(None, description="A name for the run, stored in its row and shown in listings.")
    model_dir: Path = Field(Path("models"), description="Folder of the checkpoints.")
    checkpoint_freq: int = Field(10_000, ge=1, description="Transitions between two checkpoints of a training run.")
    keep_last: int = Field(3, ge=1, description="How many of a run's newest checkpoints are kept; the best one is too.")


class RegistrySettings(FrozenModel):
    """The model registry: where it is, what a model needs, how many are kept."""

    enable: bool = Field(True, description="Whether checkpoints enter the model registry.")
    db_path: Path = Field(Path("rl_registry.db"), description="Stand-alone registry file.")
    min_reward: float | None = Field(
        None, description="What the lower bound of a model's mean reward must reach; null: nothing."
    )
    min_episodes: int = Field(10, ge=1, description="Evaluation episodes a model needs to be validated.")
    judge_checkpoints: bool = Field(
        True,
        description="Whether a training whose spec has a validation window judges each of its checkpoints on it.",
    )
    keep_top_n: int | None = Field(10, ge=1, description="How many models of a scope are kept; null: all.")
    max_age: int | None = Field(None, ge=1, description="Days after which a model may be pruned; null: never.")


class GatesSettings(FrozenModel):
    """The gates that a model must pass."""

    profile: str = Field("default", min_length=1, description="Profile: which gates a model must pass.")
    max_dispersion: float = Field(
        1.0, gt=0, description="Most that returns of episodes may spread, as a multiple of their usual size."
    )
    min_bars: int = Field(100, ge=2, description="Bars that a model which trades must have been judged on.")
    measure: Literal["sharpe", "sortino", "mean_return", "total_return"] = Field(
        "sharpe", description="Measure of a trading account whose bootstrap lower bound must reach the minimum."
    )
    min_measure: float = Field(0.0, description="What the lower bound of that measure must reach.")
    max_drawdown: float = Field(
        0.3, ge=0, le=1, description="Deepest fall of a trading account that is allowed, as a part of its value."
    )
    max_shortfall: float = Field(
        0.0,
        ge=0,
        description="Most that the lower bound of a trading account's yearly return may be below that of cash and of "
        "equal weights after costs.",
    )
    max_profit_share: float = Field(
        0.5, gt=0, description="Most of the profit that one asset may make where three or more are traded."
    )


def _exporter(signal: str, also: str = "") -> Any:
    default = "null: OTLP where an endpoint is given, else the file."
    return Field(None, description=f"Where {signal} go: a file in the home, OTLP,{also} or nowhere; {default}")


def _endpoint(signal: str) -> Any:
    return Field("http://localhost:4318", description=f"OTLP endpoint of {signal}; with grpc port 4317.")


class MetricsSettings(FrozenModel):
    """OpenTelemetry metrics."""

    enable: bool = Field(False, description="Whether metrics are exported.")
    exporter: Literal["file", "otlp", "prometheus", "none"] | None = _exporter(
        "metrics", " a page that Prometheus scrapes,"
    )
    endpoint: str = _endpoint("metrics")
    protocol: Literal["grpc", "http"] = Field("http", description="OTLP protocol of all signals.")
    prometheus_host: str = Field("localhost", min_length=1, description="Where the page for Prometheus is served.")
    prometheus_port: int = Field(9464, description="Port of that page; 0 takes a free one.")
    export_interval: int = Field(10, ge=1, description="Seconds between two exports.")
    track_reward: bool = Field(True, description="Whether the reward is exported.")
    track_loss: bool = Field(True, description="Whether the losses are exported.")
    track_entropy: bool = Field(True, description="Whether the entropy is exported.")
    track_fps: bool = Field(True, description="Whether transitions per second are exported.")
    granularity: Literal["step", "episode"] = Field(
        "episode",
        description="Which rewards are exported: episode: the mean return of the episodes that ended; "
        "step: also the mean reward of the last step.",
    )


class TracesSettings(FrozenModel):
    """OpenTelemetry traces."""

    enable: bool = Field(False, description="Whether traces are exported.")
    exporter: Literal["file", "otlp", "none"] | None = _exporter("traces")
    endpoint: str = _endpoint("traces")
    sample_rate: float = Field(
        1.0, ge=0, le=1, description="Share of the episodes whose spans are kept, each whole; the run's is always kept."
    )
    trace_episodes: bool = Field(True, description="Whether an episode is a span.")
    trace_steps: bool = Field(False, description="Whether a step is a span (high volume).")
    trace_evals: bool = Field(True, description="Whether an evaluation is a span.")


class LogsSettings(FrozenModel):
    """Log lines."""

    enable: bool = Field(False, description="Whether log lines are exported by OpenTelemetry.")
    exporter: Literal["file", "otlp", "none"] | None = _exporter("log lines")
    endpoint: str = _endpoint("log lines")
    level: Literal["debug", "info", "warn", "error"] = Field("info", description="Least severity that is written.")


class InferSettings(FrozenModel):
    """Which model answers, and on what device."""

    model_path: Path | None = Field(
        None, description="Checkpoint folder that `rl infer` loads; null: the newest run's."
    )
    device: Literal["auto", "cpu", "cuda", "mps"] = Field("auto", description="Device of every verb's tensors.")
    threads: int = Field(
        1, ge=1, description="CPU threads of torch in every verb. The bytes of a result depend on it, so it is pinned."
    )
    offline: bool = Field(
        False, description="Whether `rl infer` answers and `rl decide` decides without looking at the kill switch."
    )
    bot: str | None = Field(
        None,
        pattern=r"^[a-z0-9][a-z0-9_-]{0,62}$",
        description="Bot in whose name policies answer, which a halt of `bot:NAME` refuses; null: none.",
    )


#: What a table may be called, and words joined by dots for its namespace.
_WORD = r"^[A-Za-z0-9_]+$"
_WORDS = r"^[A-Za-z0-9_]+(\.[A-Za-z0-9_]+)*$"


class TrajectorySettings(FrozenModel):
    """The step-by-step tables."""

    namespace: str = Field("rl", pattern=_WORDS, description="Namespace of the six tables.")
    table: str = Field("trajectories", pattern=_WORD, description="Table of steps.")
    equity_table: str = Field("equity_curves", pattern=_WORD, description="Table of equity curves.")
    action_log_table: str = Field("action_logs", pattern=_WORD, description="Table of action components.")
    reward_decomp_table: str = Field("reward_decomposition", pattern=_WORD, description="Table of reward terms.")
    positions_table: str = Field("positions", pattern=_WORD, description="Table of positions.")
    fills_table: str = Field("fills", pattern=_WORD, description="Table of fills.")
    persist: bool = Field(True, description="Whether steps are kept on disk.")
    flush_rows: int = Field(1000, ge=1, description="Steps per environment before the buffer is flushed.")
    require_iceberg: bool = Field(False, description="Whether a failed table commit fails the run.")

    @model_validator(mode="after")
    def _tables_differ(self) -> TrajectorySettings:
        steps = (self.table, self.equity_table, self.action_log_table, self.reward_decomp_table)
        names = (*steps, self.positions_table, self.fills_table)
        if len(set(names)) < len(names):
            raise ValueError(f"the six tables need six names, not {', '.join(names)}")
        return self


class RecordSettings(FrozenModel):
    """How much of a run is recorded step by step."""

    train: str | None = Field(
        None,
        description="Training steps that are recorded: all, off, or sample:N for one whole episode in N; "
        "null: all, and off on a GPU.",
    )

    @field_validator("train")
    @classmethod
    def _is_known(cls, train: str | None) -> str | None:
        if train is not None and re.fullmatch(r"all|off|sample:[1-9][0-9]*", train) is None:
            raise ValueError("it is all, off, or sample:N with a whole number N")
        return train

    max_rows: int = Field(
        50_000_000,
        ge=0,
        description="Training transitions after which `all` records only one episode in 100.",
    )
    observations: bool = Field(
        False, description="Whether whole observations are recorded too, for learning from them later."
    )
    positions: Literal["judged", "all", "none"] = Field(
        "judged",
        description="Steps whose positions and fills are recorded: judged (validation, evaluation and replay), all, "
        "or none.",
    )
    memory_mb: int = Field(256, ge=16, description="Memory for steps on their way to disk; the loop waits beyond it.")


class LakeSettings(FrozenModel):
    """Where the step-by-step tables are kept."""

    catalog_url: str | None = Field(
        None,
        description="Catalogue of the tables: an SQLite, PostgreSQL or REST URL; null: an SQLite file in the home.",
    )
    warehouse: str | None = Field(
        None, description="Folder or s3:// address of the tables' files; null: a folder in the home."
    )
    s3_endpoint: str | None = Field(None, description="Address of an S3 server that is not Amazon's.")
    s3_region: str | None = Field(None, description="Region of the S3 warehouse.")
    segment_rows: int = Field(262_144, ge=1, description="Transitions after which a segment file is closed.")
    commit_rows: int = Field(1_000_000, ge=1, description="Rows of a table after which segments are committed to it.")
    commit_seconds: float = Field(60.0, gt=0, description="Seconds after which segments are committed all the same.")


class DataSettings(FrozenModel):
    """Where market data lies."""

    root: Path = Field(
        Path(),
        description="Folder that paths in a spec are relative to; a relative one is below the working folder.",
    )


class LedgerSettings(FrozenModel):
    """How the ledger is kept."""

    url: str | None = Field(None, description="Database URL of the ledger; null: an SQLite file in the home folder.")
    episode_rate: float = Field(
        100.0, gt=0, description="Episodes per 1,000 transitions above which a batch of episodes is stored as one row."
    )
    halt_poll_seconds: float = Field(
        0.25, gt=0, le=5, description="Seconds between two questions to the kill switch; above 0.5 it is 0.5."
    )
    halt_silence_seconds: float = Field(
        30.0,
        gt=0,
        description="Seconds without an answer from the kill switch after which runs halt and no answers are given.",
    )
    heartbeat_seconds: float = Field(10.0, gt=0, le=10, description="Seconds between two heartbeats of a run.")
    silence_seconds: float = Field(
        30.0,
        gt=0,
        description="Seconds without a heartbeat after which a run counts as dead whose process cannot be seen: one on "
        "another host, or in another container; longer than two heartbeats take.",
    )

    @model_validator(mode="after")
    def _silence_is_longer_than_heartbeats(self) -> LedgerSettings:
        if self.silence_seconds <= 2 * self.heartbeat_seconds:
            raise ValueError(
                f"silence_seconds is {self.silence_seconds}, which must be more than two heartbeats "
                f"of {self.heartbeat_seconds} seconds"
            )
        return self


_log = logging.getLogger(__name__)

#: A section that nobody set: its class has the defaults, and is not built before it is needed.
_EMPTY: Any = Field({})


class Settings(FrozenModel):
    """Everything about the machine and the place; a spec says what is run, this says where."""

    home: Path = Field(Path(".alphaswarm"), description="Folder below which all state lives.")
    plugins: tuple[str, ...] = Field(
        (), description="Modules of components of your own, imported before anything is named."
    )
    log_dir: Path = Field(Path("logs"), description="Folder of the runs' event logs.")

    @field_validator("plugins")
    @classmethod
    def _names_modules(cls, plugins: tuple[str, ...]) -> tuple[str, ...]:
        for module in plugins:
            if not module.strip():
                raise ValueError("a plug-in has no name: write one as in import, my_package.my_module, or leave it out")
        return plugins

    ledger: LedgerSettings = _EMPTY
    store: StoreSettings = _EMPTY
    infer: InferSettings = _EMPTY
    registry: RegistrySettings = _EMPTY
    gates: GatesSettings = _EMPTY
    metrics: MetricsSettings = _EMPTY
    traces: TracesSettings = _EMPTY
    logs: LogsSettings = _EMPTY
    data: DataSettings = _EMPTY
    trajectory: TrajectorySettings = _EMPTY
    record: RecordSettings = _EMPTY
    lake: LakeSettings = _EMPTY

    @classmethod
    def load(cls, file: str | Path | None = None) -> Settings:
        """The settings as every command reads them: variables before the file before defaults.

        Args:
            file: A settings file; None takes `settings.yaml` in the home folder where there is one.
        """
        # The table of options stands above this room: it is found by its name, as components are.
        options = import_module("alphaswarm_rl.options.settings")
        settings: Settings = options.load_settings({}, os.environ, None if file is None else Path(file))
        for notice in import_module("alphaswarm_rl.options.sources").misspelt_names(os.environ):
            _log.warning("%s", notice)
        return settings

    def below_home(self, path: Path) -> Path:
        """`path` as an absolute one: relative paths are read as below the home folder."""
        return (self.home.expanduser() / path.expanduser()).absolute()

    @property
    def models_path(self) -> Path:
        """Folder of the checkpoints."""
        return self.below_home(self.store.model_dir)

    @property
    def logs_path(self) -> Path:
        """Folder of the runs' event logs."""
        return self.below_home(self.log_dir)

    @property
    def telemetry_path(self) -> Path:
        """Folder of the files that telemetry is exported to."""
        return self.below_home(Path("telemetry"))

    @property
    def data_path(self) -> Path:
        """Folder that paths in a spec are relative to."""
        return self.data.root.expanduser().absolute()

    @property
    def tracking_path(self) -> Path:
        """Folder of the local tracker, and of what is on its way to others."""
        return self.below_home(Path("tracking"))

    @property
    def lake_path(self) -> Path:
        """Folder of what the lake keeps on this machine: the spool, and by default the catalogue and the files."""
        return self.below_home(Path("lake"))

    @property
    def database_url(self) -> str:
        """URL of the ledger's database."""
        return self.ledger.url or f"sqlite:///{self.below_home(Path('ledger.db'))}"

    @property
    def registry_url(self) -> str:
        """URL of the model registry's database: the ledger's where one is named and no registry file is."""
        if self.ledger.url is not None and "db_path" not in self.registry.model_fields_set:
            return self.ledger.url
        return f"sqlite:///{self.below_home(self.registry.db_path)}"

    @property
    def registry_file(self) -> Path | None:
        """The model registry's own file; None where it is in the ledger's database."""
        own = self.registry_url != self.ledger.url
        return self.below_home(self.registry.db_path) if own else None
