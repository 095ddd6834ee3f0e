"""The one table of options: every row is a Nix option, an ENV name and a flag for one field.

Rows follow the pipeline. Adding an option means adding a row, and for a setting its field in `settings.py`, which the
row takes type, default and description from; the readers, the command line, the listings and the Nix module follow.
What only one command takes, and no file or variable sets, is a plain flag of that command in `cli/`.
"""

from __future__ import annotations

from typing import Any

from alphaswarm_rl.options.option import Feature, Option, snake
from alphaswarm_rl.options.types import (
    BOOLEAN,
    BOUNDS,
    INTEGER,
    INTEGERS,
    NUMBER,
    PROTOCOL,
    SCIENTIFIC,
    SEED,
    STRATEGY,
    TEXT,
    TEXTS,
    WEIGHTS,
    OptionType,
    choice,
    or_null,
    type_of,
)
from alphaswarm_rl.settings import Settings

FEATURES = (
    Feature("Env", "Environment definition (Gym/Gymnasium)", "EnvSpec → Env", "Computation", "ENV"),
    Feature("Obs", "Observation/state space & preprocessing", "RawObs → ProcessedObs", "Computation", "OBS"),
    Feature("Feature", "Feature engineering & embeddings", "Obs → Features", "Computation", "FEAT"),
    Feature("Agent", "Policy/algorithm selection", "(Obs, Action) → Policy", "Computation", "AGENT"),
    Feature("Train", "Training loop & hyperparameters", "(Env, Agent) → Model", "Computation", "TRAIN"),
    Feature("Eval", "Evaluation & validation", "(Model, Env) → Metrics", "Computation", "EVAL"),
    Feature("Infer", "Inference/deployment", "(Model, Obs) → Action", "Computation", "INFER"),
    Feature("Store", "Experiment tracking", "Experiment → Artifacts", "Information", "STORE"),
    Feature("Registry", "Model metadata & validation", "Model → Metadata", "Information", "REGISTRY"),
    Feature("Metrics", "Runtime telemetry (reward, loss)", "Step → Metrics", "Signal", "METRICS"),
    Feature("Traces", "Episode/step spans", "Episode → Trace", "Signal", "TRACES"),
    Feature("Logs", "Structured events", "Event → Log", "Signal", "LOGS"),
    Feature("Gates", "What a model must pass", "Evidence → Verdicts", "Information", "GATES"),
    Feature("Data", "Market data", "Source → Panel", "Information", "DATA"),
    Feature("Trajectory", "Step-by-step tables", "Step → Rows", "Information", "TRAJECTORY"),
    Feature("Record", "What is recorded of a run", "Run → Steps", "Information", "RECORD"),
    Feature("Lake", "Where recorded steps are kept", "Rows → Tables", "Information", "LAKE"),
    Feature("Home", "Home folder & ledger", "Run → Ledger", "Information", "HOME"),
)


#: Commands that run something, by what they do with it: these take most of the table.
_RUNS_SPEC = ("train", "tune", "evaluate")
_RUNS_STORED_VERSION = ("resume", "replay", "backtest")
_RUNS = (*_RUNS_SPEC, *_RUNS_STORED_VERSION)
_TRAINS = ("train", "tune", "resume")
#: Commands that read or write the tables of recorded steps.
_STEPS = (
    *("lake", "sql", "compare", "runs.equity", "runs.rewards", "runs.actions", "runs.trajectories"),
    *("runs.positions", "runs.fills", "runs.holdings", "runs.rm", "runs.gc"),
)
#: Commands that load a policy without running a spec.
_LOADS = ("infer", "decide", "models.add", "models.load", "models.judge")
#: Commands that put a model through its gates without training or being one of the runs above.
_GATES = ("models.validate", "models.judge")
#: Commands that read market data without being one of the above.
_DATA = ("compare", "audit", "data", "spec.validate")
#: Options that every command takes besides its own.
EVERY = "every"

_by_name = {feature.name: feature for feature in FEATURES}


def _env_names(feature: str, name: str, names: tuple[str, ...]) -> tuple[str, ...]:
    # The rule's name is the canonical one where no document gives another, and an alias of it otherwise. A name that
    # has the long prefix already stands alone.
    if names and names[0].startswith("ALPHASWARM_"):
        return names
    return tuple(dict.fromkeys([*names, f"RL_{_by_name[feature].prefix}_{snake(name).upper()}"]))


def _spec(
    feature: str,
    name: str,
    flag: str,
    path: str,
    default: object,
    type_: OptionType,
    description: str,
    *env: str,
    also: tuple[str, ...] = (),
) -> Option:
    """A row of the spec: commands that run a stored version refuse it, but for those in `also`."""
    names, verbs = _env_names(feature, name, env), (*_RUNS_SPEC, *also)
    refused_by = tuple(verb for verb in _RUNS_STORED_VERSION if verb not in also)
    return Option(feature, name, "spec", path, default, names, flag, type_, description, verbs, refused_by)


def _setting(
    feature: str,
    name: str,
    flag: str,
    path: str,
    *env: str,
    verbs: tuple[str, ...] = _RUNS,
    part: str | None = None,
    type_: OptionType | None = None,
) -> Option:
    """A row of the settings; every command that runs something takes it unless `verbs` says otherwise."""
    model: Any = Settings
    *sections, last = path.split(".")
    for section in sections:
        model = model.model_fields[section].annotation
    field = model.model_fields[last]
    return Option(
        feature=feature,
        name=name,
        target="settings",
        path=path,
        default=field.default,
        env=_env_names(feature, name, env),
        flag=flag,
        type=type_ or type_of(field.annotation),
        description=field.description,
        verbs=verbs,
        part=part,
    )


_POLICY = choice("MlpPolicy", "CnnPolicy", "MultiInputPolicy")

_SPEC_OPTIONS = (
    _spec("Env", "envId", "--env-id", "env", "CartPole-v1", TEXT,
          "Environment: a Gymnasium id, or the alias of an environment in the catalogue.", "RL_ENV_ID"),
    _spec("Env", "nEnvs", "--n-envs", "training.n_envs", 4, INTEGER, "Environments stepped together.", "RL_ENV_N_ENVS"),
    _spec("Env", "seed", "--seed", "training.seed", None, or_null(SEED),
          "Seed of the run; null means 0, and random draws one that the run's row keeps.",
          also=("replay", "backtest")),
    _spec("Obs", "normalize", "--obs-normalize", "obs.normalize", "running", STRATEGY,
          "How observations are standardised; true means running and false none.", "RL_OBS_NORMALIZE"),
    _spec("Obs", "clipRange", "--obs-clip-range", "obs.clip_range", 10.0, or_null(BOUNDS),
          "Bounds of the observations; one number c means [-c, c]."),
    _spec("Obs", "stackFrames", "--stack-frames", "obs.stack_frames", None, or_null(INTEGER),
          "How many of the newest observations are seen together."),
    _spec("Feature", "encoder", "--encoder", "agent.kwargs.encoder", "mlp", or_null(TEXT),
          "Network that turns observations into features: mlp, cnn or a backbone's alias; null: the policy's own.",
          "RL_FEAT_ENCODER", "RL_FEATURE_ENCODER"),
    _spec("Feature", "embedDim", "--embed-dim", "agent.kwargs.embed_dim", 64, INTEGER,
          "Width of the features.", "RL_FEAT_EMBED_DIM", "RL_FEATURE_EMBED_DIM"),
    _spec("Agent", "algorithm", "--algorithm", "agent.class", "ppo", TEXT,
          "Agent, by its alias in the catalogue: ppo, a2c, dqn, sac and others, or a policy's such as equal_weight.",
          "RL_AGENT_ALGORITHM"),
    _spec("Agent", "policyType", "--policy-type", "agent.kwargs.policy_type", "MlpPolicy", _POLICY,
          "Kind of policy network.", "RL_AGENT_POLICY_TYPE", "RL_AGENT_POLICY"),
    _spec("Agent", "netArch", "--net-arch", "agent.kwargs.net_arch", (64, 64), INTEGERS,
          "Widths of the policy's hidden layers.", "RL_AGENT_NET_ARCH"),
    _spec("Train", "totalTimesteps", "--total-timesteps", "training.total_timesteps", 100_000, INTEGER,
          "Transitions over all environments.", "RL_TRAIN_TOTAL_TIMESTEPS", "RL_TRAIN_TIMESTEPS"),
    _spec("Train", "learningRate", "--learning-rate", "agent.kwargs.learning_rate", 3e-4, SCIENTIFIC,
          "Learning rate.", "RL_TRAIN_LEARNING_RATE", "RL_TRAIN_LR"),
    _spec("Train", "batchSize", "--batch-size", "agent.kwargs.batch_size", 64, INTEGER,
          "Transitions per gradient step.", "RL_TRAIN_BATCH_SIZE"),
    _spec("Train", "gamma", "--gamma", "agent.kwargs.gamma", 0.99, NUMBER, "Discount factor.", "RL_TRAIN_GAMMA"),
    _spec("Train", "logInterval", "--log-interval", "training.log_interval", 10, INTEGER,
          "Rollouts between two points of the training's curve (off-policy: 1,000 transitions each)."),
    _spec("Train", "evalDuringTraining", "--eval-during-training", "training.eval_during_training", False, BOOLEAN,
          "Whether the best model is sought by evaluations while training."),
    _spec("Train", "initFrom", "--init-from", "training.init_from", None, or_null(WEIGHTS),
          "Trained weights and normaliser to begin with: a run, model:ID or the folder of a checkpoint."),
    _spec("Eval", "episodes", "--episodes", "evaluation.episodes", 10, INTEGER,
          "Episodes of one evaluation.", "RL_EVAL_EPISODES", also=("replay",)),
    _spec("Eval", "deterministic", "--deterministic", "evaluation.deterministic", True, BOOLEAN,
          "Whether the policy acts without drawing.", "RL_EVAL_DETERMINISTIC",
          also=("replay", "backtest")),
    _spec("Eval", "render", "--render", "evaluation.render", False, BOOLEAN,
          "Whether the first episode is kept as a moving picture."),
)  # fmt: skip

_SETTINGS_OPTIONS = (
    _setting("Train", "logDir", "--log-dir", "log_dir", "RL_TRAIN_LOG_DIR"),
    _setting("Infer", "modelPath", "--model-path", "infer.model_path", "RL_INFER_MODEL_PATH", verbs=("infer",)),
    _setting("Infer", "device", "--device", "infer.device", "RL_INFER_DEVICE", verbs=(*_RUNS, *_LOADS)),
    _setting("Infer", "threads", "--threads", "infer.threads", verbs=(*_RUNS, *_LOADS)),
    _setting("Infer", "offline", "--offline", "infer.offline", verbs=("infer", "decide")),
    _setting("Infer", "bot", "--bot", "infer.bot", verbs=("infer", "decide")),
    _setting("Store", "backend", "--backend", "store.backend", "RL_STORE_BACKEND"),
    _setting("Store", "trackingUri", "--tracking-uri", "store.tracking_uri", "RL_STORE_TRACKING_URI"),
    _setting("Store", "experimentName", "--experiment-name", "store.experiment_name"),
    _setting("Store", "runName", "--run-name", "store.run_name", verbs=(*_RUNS_SPEC, "replay", "backtest")),
    _setting("Store", "modelDir", "--model-dir", "store.model_dir", "RL_STORE_MODEL_DIR",
             verbs=(*_RUNS, "models.add", "models.prune")),
    _setting("Store", "checkpointFreq", "--checkpoint-freq", "store.checkpoint_freq", "RL_STORE_CHECKPOINT_FREQ",
             verbs=_TRAINS),
    _setting("Store", "keepLast", "--keep-last", "store.keep_last", verbs=(*_TRAINS, "models.prune")),
    _setting("Store", "deliverySeconds", "--delivery-seconds", "store.delivery_seconds"),
    _setting("Registry", "enable", "--registry", "registry.enable"),
    _setting("Registry", "dbPath", "--registry-db", "registry.db_path", "RL_REGISTRY_DB",
             verbs=(*_RUNS, "infer", "decide", "models", "runs.rm", "runs.gc", "sql")),
    _setting("Registry", "minReward", "--min-reward", "registry.min_reward", verbs=(*_RUNS, *_GATES)),
    _setting("Registry", "minEpisodes", "--min-episodes", "registry.min_episodes", verbs=(*_RUNS, *_GATES)),
    _setting("Registry", "judgeCheckpoints", "--judge-checkpoints", "registry.judge_checkpoints", verbs=_TRAINS),
    _setting("Registry", "keepTopN", "--keep-top-n", "registry.keep_top_n", verbs=("models.prune",)),
    _setting("Registry", "maxAge", "--max-age", "registry.max_age", verbs=("models.prune",)),
    _setting("Metrics", "enable", "--metrics", "metrics.enable"),
    _setting("Metrics", "endpoint", "--metrics-endpoint", "metrics.endpoint", "OTEL_EXPORTER_OTLP_ENDPOINT"),
    _setting("Metrics", "protocol", "--metrics-protocol", "metrics.protocol", "OTEL_EXPORTER_OTLP_PROTOCOL",
             type_=PROTOCOL),
    _setting("Metrics", "exporter", "--metrics-exporter", "metrics.exporter", "OTEL_METRICS_EXPORTER"),
    _setting("Metrics", "prometheusHost", "--prometheus-host", "metrics.prometheus_host",
             "OTEL_EXPORTER_PROMETHEUS_HOST"),
    _setting("Metrics", "prometheusPort", "--prometheus-port", "metrics.prometheus_port",
             "OTEL_EXPORTER_PROMETHEUS_PORT"),
    _setting("Metrics", "exportInterval", "--metrics-interval", "metrics.export_interval", "RL_METRICS_INTERVAL"),
    _setting("Metrics", "trackReward", "--track-reward", "metrics.track_reward"),
    _setting("Metrics", "trackLoss", "--track-loss", "metrics.track_loss"),
    _setting("Metrics", "trackEntropy", "--track-entropy", "metrics.track_entropy"),
    _setting("Metrics", "trackFps", "--track-fps", "metrics.track_fps"),
    _setting("Metrics", "granularity", "--metrics-granularity", "metrics.granularity"),
    _setting("Traces", "enable", "--traces", "traces.enable"),
    _setting("Traces", "endpoint", "--traces-endpoint", "traces.endpoint", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"),
    _setting("Traces", "exporter", "--traces-exporter", "traces.exporter", "OTEL_TRACES_EXPORTER"),
    _setting("Traces", "sampleRate", "--trace-sample-rate", "traces.sample_rate"),
    _setting("Traces", "traceEpisodes", "--trace-episodes", "traces.trace_episodes", "RL_TRACES_EPISODES"),
    _setting("Traces", "traceSteps", "--trace-steps", "traces.trace_steps", "RL_TRACES_STEPS"),
    _setting("Traces", "traceEvals", "--trace-evals", "traces.trace_evals", "RL_TRACES_EVALS"),
    _setting("Logs", "enable", "--logs", "logs.enable"),
    _setting("Logs", "endpoint", "--logs-endpoint", "logs.endpoint", "OTEL_EXPORTER_OTLP_LOGS_ENDPOINT"),
    _setting("Logs", "exporter", "--logs-exporter", "logs.exporter", "OTEL_LOGS_EXPORTER"),
    _setting("Logs", "level", "--log-level", "logs.level", verbs=(*_RUNS, EVERY)),
    _setting("Gates", "profile", "--gates-profile", "gates.profile", verbs=(*_RUNS, *_GATES)),
    _setting("Gates", "maxDispersion", "--max-dispersion", "gates.max_dispersion", verbs=(*_RUNS, *_GATES)),
    _setting("Gates", "minBars", "--min-bars", "gates.min_bars", verbs=(*_RUNS, *_GATES)),
    _setting("Gates", "measure", "--gates-measure", "gates.measure", verbs=(*_RUNS, *_GATES)),
    _setting("Gates", "minMeasure", "--min-measure", "gates.min_measure", verbs=(*_RUNS, *_GATES)),
    _setting("Gates", "maxDrawdown", "--max-drawdown", "gates.max_drawdown", verbs=(*_RUNS, *_GATES)),
    _setting("Gates", "maxShortfall", "--max-shortfall", "gates.max_shortfall", verbs=(*_RUNS, *_GATES)),
    _setting("Gates", "maxProfitShare", "--max-profit-share", "gates.max_profit_share",
             verbs=(*_RUNS, *_GATES)),
    _setting("Data", "root", "--data-root", "data.root", verbs=(*_RUNS, *_LOADS[1:], *_DATA)),
    _setting("Trajectory", "namespace", "--trajectory-namespace", "trajectory.namespace",
             "ALPHASWARM_RL_TRAJECTORY_NAMESPACE", verbs=(*_RUNS, *_STEPS)),
    _setting("Trajectory", "table", "--trajectory-table", "trajectory.table",
             "ALPHASWARM_RL_TRAJECTORY_TABLE", verbs=(*_RUNS, *_STEPS)),
    _setting("Trajectory", "equityTable", "--equity-table", "trajectory.equity_table",
             "ALPHASWARM_RL_EQUITY_TABLE", verbs=(*_RUNS, *_STEPS)),
    _setting("Trajectory", "actionLogTable", "--action-log-table", "trajectory.action_log_table",
             "ALPHASWARM_RL_ACTION_LOG_TABLE", verbs=(*_RUNS, *_STEPS)),
    _setting("Trajectory", "rewardDecompTable", "--reward-decomp-table", "trajectory.reward_decomp_table",
             "ALPHASWARM_RL_REWARD_DECOMP_TABLE", verbs=(*_RUNS, *_STEPS)),
    _setting("Trajectory", "positionsTable", "--positions-table", "trajectory.positions_table",
             "ALPHASWARM_RL_POSITIONS_TABLE", verbs=(*_RUNS, *_STEPS)),
    _setting("Trajectory", "fillsTable", "--fills-table", "trajectory.fills_table",
             "ALPHASWARM_RL_FILLS_TABLE", verbs=(*_RUNS, *_STEPS)),
    _setting("Trajectory", "persist", "--persist-trajectories", "trajectory.persist",
             "ALPHASWARM_RL_PERSIST_TRAJECTORIES"),
    _setting("Trajectory", "flushRows", "--trajectory-flush-rows", "trajectory.flush_rows",
             "ALPHASWARM_RL_TRAJECTORY_FLUSH_ROWS"),
    _setting("Trajectory", "requireIceberg", "--require-iceberg", "trajectory.require_iceberg",
             "ALPHASWARM_RL_REQUIRE_ICEBERG"),
    _setting("Record", "train", "--record-train", "record.train"),
    _setting("Record", "maxRows", "--record-max-rows", "record.max_rows"),
    _setting("Record", "observations", "--record-observations", "record.observations"),
    # A resumed run goes on as it began.
    _setting("Record", "positions", "--record-positions", "record.positions",
             verbs=(*_RUNS_SPEC, "replay", "backtest")),
    _setting("Record", "memoryMb", "--record-memory-mb", "record.memory_mb"),
    _setting("Lake", "catalogUrl", "--lake-catalog-url", "lake.catalog_url", verbs=(*_RUNS, *_STEPS)),
    _setting("Lake", "warehouse", "--lake-warehouse", "lake.warehouse", verbs=(*_RUNS, *_STEPS)),
    # Amazon's own names, as its command line and boto3 read them; the one for S3 alone goes before.
    _setting("Lake", "s3Endpoint", "--lake-s3-endpoint", "lake.s3_endpoint",
             "RL_LAKE_S3_ENDPOINT", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", verbs=(*_RUNS, *_STEPS)),
    _setting("Lake", "s3Region", "--lake-s3-region", "lake.s3_region", verbs=(*_RUNS, *_STEPS)),
    _setting("Lake", "segmentRows", "--lake-segment-rows", "lake.segment_rows"),
    _setting("Lake", "commitRows", "--lake-commit-rows", "lake.commit_rows"),
    _setting("Lake", "commitSeconds", "--lake-commit-seconds", "lake.commit_seconds"),
    _setting("Home", "folder", "--home", "home", "ALPHASWARM_RL_HOME", verbs=(*_RUNS, EVERY)),
    _setting("Home", "plugins", "--plugin", "plugins", "ALPHASWARM_RL_PLUGINS", verbs=(EVERY,), type_=TEXTS),
    _setting("Home", "dbUrl", "--db-url", "ledger.url", "ALPHASWARM_RL_DB_URL", verbs=(*_RUNS, EVERY)),
    _setting("Home", "episodeRate", "--episode-rate", "ledger.episode_rate", verbs=_TRAINS),
    _setting("Home", "haltPollSeconds", "--halt-poll-seconds", "ledger.halt_poll_seconds",
             verbs=(*_RUNS, "infer", "decide")),
    _setting("Home", "haltSilenceSeconds", "--halt-silence-seconds", "ledger.halt_silence_seconds",
             verbs=(*_RUNS, "infer", "decide")),
    _setting("Home", "heartbeatSeconds", "--heartbeat-seconds", "ledger.heartbeat_seconds"),
    _setting("Home", "silenceSeconds", "--silence-seconds", "ledger.silence_seconds"),
)  # fmt: skip

#: Every option, in the order of the pipeline.
OPTIONS: tuple[Option, ...] = tuple(
    option for feature in FEATURES for option in (*_SPEC_OPTIONS, *_SETTINGS_OPTIONS) if option.feature == feature.name
)
BY_KEY = {option.key: option for option in OPTIONS}


def options_of(feature: Feature) -> tuple[Option, ...]:
    """The options of one feature."""
    return tuple(option for option in OPTIONS if option.feature == feature.name)
