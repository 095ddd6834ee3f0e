"""The table holds every documented option, and every setting exactly once."""

from pathlib import Path
from typing import get_args

import pytest
from pydantic import BaseModel

from alphaswarm_rl.options.paths import value_at
from alphaswarm_rl.options.resolve import starting_spec
from alphaswarm_rl.options.table import FEATURES, OPTIONS, options_of
from alphaswarm_rl.settings import Settings
from alphaswarm_rl.spec import refuse_absent

# (option, default, ENV, flag), as the documents give them.
DOCUMENTED = [
    ("env.envId", "CartPole-v1", "RL_ENV_ID", "--env-id"),
    ("env.nEnvs", 4, "RL_ENV_N_ENVS", "--n-envs"),
    ("env.seed", None, "RL_ENV_SEED", "--seed"),
    ("obs.normalize", "running", "RL_OBS_NORMALIZE", "--obs-normalize"),
    ("obs.clipRange", 10.0, "RL_OBS_CLIP_RANGE", "--obs-clip-range"),
    ("obs.stackFrames", None, "RL_OBS_STACK_FRAMES", "--stack-frames"),
    ("feature.encoder", "mlp", "RL_FEAT_ENCODER", "--encoder"),
    ("feature.embedDim", 64, "RL_FEAT_EMBED_DIM", "--embed-dim"),
    ("agent.algorithm", "ppo", "RL_AGENT_ALGORITHM", "--algorithm"),
    ("agent.policyType", "MlpPolicy", "RL_AGENT_POLICY_TYPE", "--policy-type"),
    ("agent.netArch", (64, 64), "RL_AGENT_NET_ARCH", "--net-arch"),
    ("train.totalTimesteps", 100_000, "RL_TRAIN_TOTAL_TIMESTEPS", "--total-timesteps"),
    ("train.learningRate", 3e-4, "RL_TRAIN_LEARNING_RATE", "--learning-rate"),
    ("train.batchSize", 64, "RL_TRAIN_BATCH_SIZE", "--batch-size"),
    ("train.gamma", 0.99, "RL_TRAIN_GAMMA", "--gamma"),
    ("train.logDir", Path("./logs"), "RL_TRAIN_LOG_DIR", "--log-dir"),
    ("eval.episodes", 10, "RL_EVAL_EPISODES", "--episodes"),
    ("eval.deterministic", True, "RL_EVAL_DETERMINISTIC", "--deterministic"),
    ("eval.render", False, "RL_EVAL_RENDER", "--render"),
    ("infer.modelPath", None, "RL_INFER_MODEL_PATH", "--model-path"),
    ("infer.device", "auto", "RL_INFER_DEVICE", "--device"),
    ("store.backend", "local", "RL_STORE_BACKEND", "--backend"),
    ("store.trackingUri", "http://localhost:5000", "RL_STORE_TRACKING_URI", "--tracking-uri"),
    ("store.experimentName", "rl-experiment", "RL_STORE_EXPERIMENT_NAME", "--experiment-name"),
    ("store.runName", None, "RL_STORE_RUN_NAME", "--run-name"),
    ("store.modelDir", Path("./models"), "RL_STORE_MODEL_DIR", "--model-dir"),
    ("store.checkpointFreq", 10_000, "RL_STORE_CHECKPOINT_FREQ", "--checkpoint-freq"),
    ("registry.enable", True, "RL_REGISTRY_ENABLE", "--registry"),
    ("registry.dbPath", Path("./rl_registry.db"), "RL_REGISTRY_DB", "--registry-db"),
    ("registry.minReward", None, "RL_REGISTRY_MIN_REWARD", "--min-reward"),
    ("registry.minEpisodes", 10, "RL_REGISTRY_MIN_EPISODES", "--min-episodes"),
    ("registry.judgeCheckpoints", True, "RL_REGISTRY_JUDGE_CHECKPOINTS", "--judge-checkpoints"),
    ("registry.keepTopN", 10, "RL_REGISTRY_KEEP_TOP_N", "--keep-top-n"),
    ("registry.maxAge", None, "RL_REGISTRY_MAX_AGE", "--max-age"),
    ("metrics.enable", False, "RL_METRICS_ENABLE", "--metrics"),
    ("metrics.endpoint", "http://localhost:4318", "OTEL_EXPORTER_OTLP_ENDPOINT", "--metrics-endpoint"),
    ("metrics.protocol", "http", "OTEL_EXPORTER_OTLP_PROTOCOL", "--metrics-protocol"),
    ("metrics.exportInterval", 10, "RL_METRICS_INTERVAL", "--metrics-interval"),
    ("metrics.trackReward", True, "RL_METRICS_TRACK_REWARD", "--track-reward"),
    ("metrics.trackLoss", True, "RL_METRICS_TRACK_LOSS", "--track-loss"),
    ("metrics.trackEntropy", True, "RL_METRICS_TRACK_ENTROPY", "--track-entropy"),
    ("metrics.trackFps", True, "RL_METRICS_TRACK_FPS", "--track-fps"),
    ("metrics.granularity", "episode", "RL_METRICS_GRANULARITY", "--metrics-granularity"),
    ("traces.enable", False, "RL_TRACES_ENABLE", "--traces"),
    ("traces.endpoint", "http://localhost:4318", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "--traces-endpoint"),
    ("traces.sampleRate", 1.0, "RL_TRACES_SAMPLE_RATE", "--trace-sample-rate"),
    ("traces.traceEpisodes", True, "RL_TRACES_EPISODES", "--trace-episodes"),
    ("traces.traceSteps", False, "RL_TRACES_STEPS", "--trace-steps"),
    ("traces.traceEvals", True, "RL_TRACES_EVALS", "--trace-evals"),
    ("logs.enable", False, "RL_LOGS_ENABLE", "--logs"),
    ("logs.endpoint", "http://localhost:4318", "OTEL_EXPORTER_OTLP_LOGS_ENDPOINT", "--logs-endpoint"),
    ("logs.level", "info", "RL_LOGS_LEVEL", "--log-level"),
    ("trajectory.namespace", "rl", "ALPHASWARM_RL_TRAJECTORY_NAMESPACE", "--trajectory-namespace"),
    ("trajectory.table", "trajectories", "ALPHASWARM_RL_TRAJECTORY_TABLE", "--trajectory-table"),
    ("trajectory.equityTable", "equity_curves", "ALPHASWARM_RL_EQUITY_TABLE", "--equity-table"),
    ("trajectory.actionLogTable", "action_logs", "ALPHASWARM_RL_ACTION_LOG_TABLE", "--action-log-table"),
    (
        "trajectory.rewardDecompTable",
        "reward_decomposition",
        "ALPHASWARM_RL_REWARD_DECOMP_TABLE",
        "--reward-decomp-table",
    ),
    ("trajectory.positionsTable", "positions", "ALPHASWARM_RL_POSITIONS_TABLE", "--positions-table"),
    ("trajectory.fillsTable", "fills", "ALPHASWARM_RL_FILLS_TABLE", "--fills-table"),
    ("trajectory.persist", True, "ALPHASWARM_RL_PERSIST_TRAJECTORIES", "--persist-trajectories"),
    ("trajectory.flushRows", 1000, "ALPHASWARM_RL_TRAJECTORY_FLUSH_ROWS", "--trajectory-flush-rows"),
    ("trajectory.requireIceberg", False, "ALPHASWARM_RL_REQUIRE_ICEBERG", "--require-iceberg"),
    ("record.positions", "judged", "RL_RECORD_POSITIONS", "--record-positions"),
    ("home.folder", Path(".alphaswarm"), "ALPHASWARM_RL_HOME", "--home"),
    ("home.dbUrl", None, "ALPHASWARM_RL_DB_URL", "--db-url"),
]

ALIASES = {
    "RL_FEATURE_ENCODER": "feature.encoder",
    "RL_FEATURE_EMBED_DIM": "feature.embedDim",
    "RL_AGENT_POLICY": "agent.policyType",
    "RL_TRAIN_TIMESTEPS": "train.totalTimesteps",
    "RL_TRAIN_LR": "train.learningRate",
    "RL_REGISTRY_DB_PATH": "registry.dbPath",
    "RL_METRICS_EXPORT_INTERVAL": "metrics.exportInterval",
    "RL_METRICS_ENDPOINT": "metrics.endpoint",
    "RL_METRICS_PROTOCOL": "metrics.protocol",
    "RL_TRACES_ENDPOINT": "traces.endpoint",
    "RL_LOGS_ENDPOINT": "logs.endpoint",
    "RL_METRICS_EXPORTER": "metrics.exporter",
    "RL_TRACES_EXPORTER": "traces.exporter",
    "RL_LOGS_EXPORTER": "logs.exporter",
}

# Rows of our own, by the rule.
OURS = {
    "train.logInterval",
    "train.evalDuringTraining",
    "train.initFrom",
    "home.plugins",
    "gates.profile",
    "gates.maxDispersion",
    "gates.minBars",
    "gates.measure",
    "gates.minMeasure",
    "gates.maxDrawdown",
    "gates.maxShortfall",
    "gates.maxProfitShare",
    "metrics.exporter",
    "metrics.prometheusHost",
    "metrics.prometheusPort",
    "traces.exporter",
    "logs.exporter",
    "infer.threads",
    "infer.offline",
    "infer.bot",
    "store.keepLast",
    "store.deliverySeconds",
    "data.root",
    "record.train",
    "record.maxRows",
    "record.observations",
    "record.memoryMb",
    "lake.catalogUrl",
    "lake.warehouse",
    "lake.s3Endpoint",
    "lake.s3Region",
    "lake.segmentRows",
    "lake.commitRows",
    "lake.commitSeconds",
    "home.episodeRate",
    "home.haltPollSeconds",
    "home.haltSilenceSeconds",
    "home.heartbeatSeconds",
    "home.silenceSeconds",
}


def test_every_documented_option_is_there_and_in_order():
    documented = [option for option in OPTIONS if option.key not in OURS]
    assert [(option.key, option.default, option.env[0], option.flag) for option in documented] == DOCUMENTED
    assert {option.key for option in OPTIONS} >= OURS


def test_other_names_are_aliases():
    owners = {name: option.key for option in OPTIONS for name in option.env_names}
    assert {name: owners.get(name) for name in ALIASES} == ALIASES
    assert {owners.get(f"ALPHASWARM_{name}") for name in ALIASES} == set(ALIASES.values())


def test_no_name_is_claimed_twice():
    names = [name for option in OPTIONS for name in option.env_names]
    assert len(names) == len(set(names))
    flags = [flag for option in OPTIONS for flag in (option.flag, option.off_flag) if flag]
    assert len(flags) == len(set(flags))
    assert len({option.key for option in OPTIONS}) == len(OPTIONS)
    assert len({option.path for option in OPTIONS}) == len(OPTIONS)


def test_the_long_prefix_goes_before_the_short_one_only():
    for option in OPTIONS:
        own, short, foreign = option.levels
        assert all(name.startswith("ALPHASWARM_RL_") for name in own)
        assert {f"ALPHASWARM_{name}" for name in short} <= set(own)
        assert all(name.startswith(("OTEL_", "AWS_")) for name in foreign)
        assert not short or set(own) == {f"ALPHASWARM_{name}" for name in short}


def settings_fields(model, prefix=""):
    for name, field in model.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from settings_fields(field.annotation, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}"


def test_every_setting_is_reached_by_exactly_one_option():
    paths = [option.path for option in OPTIONS if option.target == "settings"]
    assert sorted(paths) == sorted(settings_fields(Settings))


def test_defaults_of_settings_options_are_the_models():
    defaults = Settings().model_dump()
    for option in OPTIONS:
        if option.target == "settings":
            assert value_at(defaults, option.path) == option.default


def test_types_of_settings_options_take_what_the_model_takes():
    level = next(option for option in OPTIONS if option.key == "logs.level")
    assert level.type.choices == get_args(type(Settings().logs).model_fields["level"].annotation)


def test_features_have_the_documented_signatures():
    assert [(feature.name, feature.signature, feature.category) for feature in FEATURES][:12] == [
        ("Env", "EnvSpec → Env", "Computation"),
        ("Obs", "RawObs → ProcessedObs", "Computation"),
        ("Feature", "Obs → Features", "Computation"),
        ("Agent", "(Obs, Action) → Policy", "Computation"),
        ("Train", "(Env, Agent) → Model", "Computation"),
        ("Eval", "(Model, Env) → Metrics", "Computation"),
        ("Infer", "(Model, Obs) → Action", "Computation"),
        ("Store", "Experiment → Artifacts", "Information"),
        ("Registry", "Model → Metadata", "Information"),
        ("Metrics", "Step → Metrics", "Signal"),
        ("Traces", "Episode → Trace", "Signal"),
        ("Logs", "Event → Log", "Signal"),
    ]
    assert [feature.name for feature in FEATURES][12:] == ["Gates", "Data", "Trajectory", "Record", "Lake", "Home"]
    assert [option for feature in FEATURES for option in options_of(feature)] == list(OPTIONS)


def test_the_starting_spec_has_every_default():
    spec = starting_spec()
    refuse_absent(spec)
    data = spec.as_data()
    assert data["name"] == "rl-experiment"
    assert data["env"]["class"] == "gymnasium"
    assert data["env"]["kwargs"]["id"] == "CartPole-v1"
    assert data["obs"] == {"normalize": "running", "clip_range": [-10, 10], "stack_frames": None}
    for option in OPTIONS:
        if option.target == "spec" and option.path not in {"env", "obs.clip_range", "agent.kwargs.net_arch"}:
            assert value_at(data, option.path) == option.default
    assert data["agent"]["kwargs"]["net_arch"] == [64, 64]


@pytest.mark.parametrize("option", OPTIONS, ids=[option.key for option in OPTIONS])
def test_every_option_says_what_it_does(option):
    assert option.description.endswith(".")
    assert option.description[0].isupper()
