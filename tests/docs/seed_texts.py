"""What documents S3 and S4 of `test_seeds` say, letter by letter: options, SQL, code, commands."""

S3_ISOMORPHISM = """
Options                    ENV                           CLI
-------                    ---                           ---
trackingUri                RL_STORE_TRACKING_URI         --tracking-uri
experimentName             RL_STORE_EXPERIMENT_NAME      --experiment-name
backend="mlflow"           RL_STORE_BACKEND=mlflow       --backend mlflow
registry.dbPath            RL_REGISTRY_DB=./reg.db       --registry-db
registry.minReward         RL_REGISTRY_MIN_REWARD=0.9    --min-reward
metrics.enable             RL_METRICS_ENABLE=1           --metrics
metrics.endpoint           OTEL_EXPORTER_OTLP_ENDPOINT   --metrics-endpoint
traces.sampleRate          RL_TRACES_SAMPLE_RATE=1.0     --trace-sample-rate
logs.level                 RL_LOGS_LEVEL=info            --log-level
"""
S3_SCHEMA = """
CREATE TABLE models (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  model_path TEXT NOT NULL,
  algorithm TEXT NOT NULL,
  env_id TEXT NOT NULL,
  timestamp INTEGER NOT NULL,
  total_timesteps INTEGER,
  mean_reward REAL,
  std_reward REAL,
  mean_episode_length REAL,
  hyperparams TEXT,  -- JSON
  git_commit TEXT,
  validated BOOLEAN DEFAULT 0
);

CREATE INDEX idx_timestamp ON models(timestamp);
CREATE INDEX idx_mean_reward ON models(mean_reward);
CREATE INDEX idx_validated ON models(validated);
"""
S3_VALIDATION = """
def validate_model(model_id: int) -> bool:
    row = registry.query("SELECT * FROM models WHERE id = ?", model_id)
    
    checks = [
        row.mean_reward >= cfg.minReward if cfg.minReward else True,
        row.total_timesteps >= cfg.minEpisodes * row.mean_episode_length,
        row.std_reward < row.mean_reward * 0.5,  # Stability check
    ]
    
    if all(checks):
        registry.execute("UPDATE models SET validated = 1 WHERE id = ?", model_id)
        return True
    return False
"""
S3_USAGE = """
{
  rl = {
    enable = true;
    
    # Core pipeline
    env.envId = "CartPole-v1";  # or "forex-v0", "stocks-v0" for gym-anytrading
    env.nEnvs = 8;
    agent.algorithm = "ppo";
    agent.netArch = [ 64 64 ];
    train.totalTimesteps = 100000;
    train.learningRate = "3e-4";
    eval.episodes = 10;
    
    # Experiment tracking (optional)
    store.backend = "mlflow";
    store.trackingUri = "http://localhost:5000";
    store.experimentName = "cartpole-ppo";
    
    # Model registry (default: enabled)
    registry.enable = true;
    registry.dbPath = "./rl_registry.db";
    registry.minReward = 195.0;  # CartPole-v1 solved threshold
    registry.keepTopN = 10;
    
    # Observability (optional)
    metrics.enable = true;
    metrics.trackReward = true;
    metrics.trackLoss = true;
    traces.enable = true;
    traces.traceEpisodes = true;
    logs.enable = true;
    logs.level = "info";
  };
}
"""
S3_COMMANDS = """
# No need for nix develop - interact via CLI directly
rl-train                              # Training with automatic registry tracking
rl-registry-list --validated --top-n 5  # Query registry
rl-registry-validate <model_id>       # Validate model
rl-infer --load-best                  # Load best model for inference
rl-eval --model-id <id>               # Evaluation
"""
S3_DISCOVERY = """
# Introspect available options for any module
introspect-options Modules/Computation/Services/RL

# Output:
# 📋 Features in Modules/Computation/Services/RL/Universe/
# 
# 🔹 Env
#     • envId
#     • nEnvs
#     • seed
# 🔹 Agent
#     • algorithm
#     • policyType
#     • netArch
# ...
"""
S3_OPTION_SPACE = """
### Env
- `envId`: Gymnasium environment ID or custom
- `nEnvs`: Number of parallel environments
- `seed`: Random seed

### Obs
- `normalize`: Normalization strategy
- `clipRange`: Clipping bounds
- `stackFrames`: Frame stacking (null or int)

### Feature
- `encoder`: CNN, MLP, Transformer, custom
- `embedDim`: Embedding dimension

### Agent
- `algorithm`: PPO, A2C, DQN, SAC, TD3
- `policyType`: MlpPolicy, CnnPolicy, MultiInputPolicy
- `netArch`: Network architecture

### Train
- `totalTimesteps`: Total training steps
- `learningRate`: Learning rate (string for scientific notation)
- `batchSize`: Batch size
- `gamma`: Discount factor

### Eval
- `episodes`: Number of evaluation episodes
- `deterministic`: Use deterministic actions

### Infer
- `modelPath`: Path to trained model
- `device`: cpu, cuda, mps

### Store
- `backend`: local, s3, mlflow, wandb
- `trackingUri`: Generic tracking endpoint
- `experimentName`: Generic experiment name
- `modelDir`: Model save directory
- `checkpointFreq`: Checkpoint frequency

### Registry (SQLite)
- `enable`: Enable model registry
- `dbPath`: SQLite database path
- `minReward`: Minimum reward threshold for validation
- `minEpisodes`: Minimum episodes for validation
- `keepTopN`: Retain top N models
- `maxAge`: Maximum model age in days

### Metrics (OTEL)
- `enable`: Enable metrics export
- `endpoint`: OTEL collector endpoint
- `protocol`: grpc or http
- `exportInterval`: Export interval in seconds
- `trackReward`: Track reward metric
- `trackLoss`: Track loss metric
- `trackEntropy`: Track entropy metric
- `trackFps`: Track FPS metric

### Traces (OTEL)
- `enable`: Enable trace export
- `endpoint`: OTEL collector endpoint
- `sampleRate`: Trace sampling rate (0.0-1.0)
- `traceEpisodes`: Trace episode spans
- `traceSteps`: Trace step spans (high volume)
- `traceEvals`: Trace evaluation spans

### Logs (OTEL)
- `enable`: Enable log export
- `endpoint`: OTEL collector endpoint
- `level`: debug, info, warn, error
"""
S3_BINDINGS = """
| Feature | Primary Binding | ENV Prefix |
|---------|-----------------|------------|
| Env | `gymnasium.make()` | `RL_ENV_` |
| Obs | `gymnasium.spaces` | `RL_OBS_` |
| Feature | `sb3.common.torch_layers` | `RL_FEAT_` |
| Agent | `sb3.{PPO,A2C,DQN,...}` | `RL_AGENT_` |
| Train | `model.learn()` | `RL_TRAIN_` |
| Eval | `sb3.common.evaluation` | `RL_EVAL_` |
| Infer | `model.predict()` | `RL_INFER_` |
| Store | `model.save/load()` | `RL_STORE_` |
| Registry | `sqlite3` | `RL_REGISTRY_` |
| Metrics | `opentelemetry-api` | `OTEL_METRICS_` |
| Traces | `opentelemetry-sdk` | `OTEL_TRACES_` |
| Logs | `opentelemetry-instrumentation` | `OTEL_LOGS_` |
"""
S3_ENVIRONMENTS = """
| Environment | envId | Source | Notes |
|-------------|-------|--------|-------|
| CartPole | `CartPole-v1` | gymnasium | Classic control |
| LunarLander | `LunarLander-v2` | gymnasium | Box2D |
| MuJoCo Ant | `Ant-v4` | gymnasium | Robotics |
| FOREX Trading | `forex-v0` | gym-anytrading | Financial (custom Drv) |
| Stock Trading | `stocks-v0` | gym-anytrading | Financial (custom Drv) |
"""
S3_DEPENDENCIES = """
| Package | Purpose | Status |
|---------|---------|--------|
| `stable-baselines3` | RL algorithms | Custom Drv |
| `mlflow` | Experiment tracking | Custom Drv |
| `gym-anytrading` | Trading environments | Custom Drv |
| `sqlite` | Model registry | nixpkgs ✓ |
| `opentelemetry-*` | Observability | nixpkgs ✓ |
"""
S3_TARGETS = """
| Target | Purpose |
|--------|---------|
| `perSystem.devShells.rl` | Development environment with sb3 + gymnasium + sqlite + otel |
| `perSystem.packages.rl-train` | Training script |
| `perSystem.packages.rl-eval` | Evaluation script |
| `perSystem.packages.rl-infer` | Inference script |
| `perSystem.packages.rl-registry-list` | List models in registry |
| `perSystem.packages.rl-registry-validate` | Validate model by ID |
"""
S3_HOTSWAP_FLOW = """
1. Training loop saves checkpoint
2. Checkpoint callback writes to Registry (validated=0)
3. Eval callback runs evaluation
4. Eval writes metrics to Registry row
5. Validation layer checks criteria → validated=1 if passed
6. Inference queries: SELECT model_path FROM models WHERE validated=1 ORDER BY mean_reward DESC LIMIT 1
7. Load model from path
"""
S4_STORE_AND_OBS = """
options.rl.store = {
  backend = enum [ "local" "s3" "mlflow" "wandb" ];
  modelDir = str;
  checkpointFreq = int;
  trackingUri = str;           # Generic
  experimentName = str;        # Generic
  runName = nullOr str;
};
options.rl.obs = {
  normalize = bool;
  clipRange = nullOr float;
  stackFrames = nullOr int;
};
"""
S4_OPTIONS = """
{ lib, ... }:
{
  options.rl.metrics = {
    enable = lib.mkEnableOption "OTEL metrics";
    exportInterval = lib.mkOption { type = lib.types.int; default = 10; };  # seconds
    endpoint = lib.mkOption { type = lib.types.str; default = "http://localhost:4318"; };
    protocol = lib.mkOption { type = lib.types.enum ["grpc" "http"]; default = "http"; };
    
    # What to track
    trackReward = lib.mkOption { type = lib.types.bool; default = true; };
    trackLoss = lib.mkOption { type = lib.types.bool; default = true; };
    trackEntropy = lib.mkOption { type = lib.types.bool; default = true; };
    trackFps = lib.mkOption { type = lib.types.bool; default = true; };
  };
}
{ lib, ... }:
{
  options.rl.traces = {
    enable = lib.mkEnableOption "OTEL traces";
    endpoint = lib.mkOption { type = lib.types.str; default = "http://localhost:4318"; };
    sampleRate = lib.mkOption { type = lib.types.float; default = 1.0; };  # 0.0-1.0
    
    # Span granularity
    traceEpisodes = lib.mkOption { type = lib.types.bool; default = true; };
    traceSteps = lib.mkOption { type = lib.types.bool; default = false; };  # High volume
    traceEvals = lib.mkOption { type = lib.types.bool; default = true; };
  };
}
{ lib, ... }:
{
  options.rl.logs = {
    enable = lib.mkEnableOption "OTEL logs";
    endpoint = lib.mkOption { type = lib.types.str; default = "http://localhost:4318"; };
    level = lib.mkOption { type = lib.types.enum ["debug" "info" "warn" "error"]; default = "info"; };
  };
}
{ lib, ... }:
{
  options.rl.registry = {
    enable = lib.mkEnableOption "SQLite model registry";
    dbPath = lib.mkOption { type = lib.types.str; default = "./rl_registry.db"; };
    
    # Validation thresholds
    minReward = lib.mkOption { type = lib.types.nullOr lib.types.float; default = null; };
    minEpisodes = lib.mkOption { type = lib.types.int; default = 10; };
    
    # Retention
    keepTopN = lib.mkOption { type = lib.types.nullOr lib.types.int; default = 10; };
    maxAge = lib.mkOption { type = lib.types.nullOr lib.types.int; default = null; };  # days
  };
}
"""
S4_STORE_MAPPING = """
Options              ENV                        CLI
-------              ---                        ---
trackingUri          RL_STORE_TRACKING_URI      --tracking-uri
experimentName       RL_STORE_EXPERIMENT_NAME   --experiment-name
backend="mlflow"     RL_STORE_BACKEND=mlflow    --backend mlflow
"""
S4_MAPPING = """
Options                    ENV                           CLI
-------                    ---                           ---
metrics.enable             RL_METRICS_ENABLE=1           --metrics
metrics.endpoint           OTEL_EXPORTER_OTLP_ENDPOINT   --metrics-endpoint
metrics.trackReward        RL_METRICS_TRACK_REWARD=1     --track-reward
traces.enable              RL_TRACES_ENABLE=1            --traces
traces.sampleRate          RL_TRACES_SAMPLE_RATE=1.0     --trace-sample-rate
logs.level                 RL_LOGS_LEVEL=info            --log-level
registry.dbPath            RL_REGISTRY_DB=./reg.db       --registry-db
registry.minReward         RL_REGISTRY_MIN_REWARD=0.9    --min-reward
"""
S4_PACKAGES = """
✓ python3Packages.opentelemetry-api
✓ python3Packages.opentelemetry-sdk
✓ python3Packages.opentelemetry-exporter-otlp
✓ python3Packages.opentelemetry-exporter-otlp-proto-http
✓ python3Packages.opentelemetry-exporter-otlp-proto-grpc
✓ python3Packages.opentelemetry-instrumentation
✓ sqlite (core)
✓ python3Packages.sqlite (bindings, built-in)
"""
S4_COMMANDS = """
rl-registry-add <model_path> <metrics_json>
rl-registry-list [--validated] [--top-n]
rl-registry-validate <model_id>
rl-registry-load <model_id>
rl-load-best
"""
S4_VALIDATION = """
# Pseudocode
def validate_model(model_id: int) -> bool:
    row = registry.query("SELECT * FROM models WHERE id = ?", model_id)
    
    checks = [
        row.mean_reward >= cfg.minReward if cfg.minReward else True,
        row.total_timesteps >= cfg.minEpisodes * row.mean_episode_length,
        row.std_reward < row.mean_reward * 0.5,  # Not too noisy
    ]
    
    if all(checks):
        registry.execute("UPDATE models SET validated = 1 WHERE id = ?", model_id)
        return True
    return False
"""
S4_BINDINGS = """
{ config, lib, pkgs, ... }:
let
  cfg = config.rl.metrics;
in
{
  config = lib.mkIf cfg.enable {
    perSystem = { system, ... }: {
      devShells.rl = {
        buildInputs = with pkgs.python3Packages; [
          opentelemetry-api
          opentelemetry-sdk
          opentelemetry-exporter-otlp
        ];
        shellHook = ''
          export OTEL_METRICS_EXPORTER="otlp"
          export OTEL_EXPORTER_OTLP_ENDPOINT="${cfg.endpoint}"
          export OTEL_EXPORTER_OTLP_PROTOCOL="${cfg.protocol}"
          export RL_METRICS_INTERVAL="${toString cfg.exportInterval}"
        '';
      };
    };
  };
}
{ config, lib, pkgs, ... }:
let
  cfg = config.rl.registry;
  
  # Schema initialization script
  initSchema = pkgs.writeText "init_registry.sql" ''
    CREATE TABLE IF NOT EXISTS models (
      id INTEGER PRIMARY KEY AUTOINCREMENT,
      model_path TEXT NOT NULL,
      algorithm TEXT NOT NULL,
      env_id TEXT NOT NULL,
      timestamp INTEGER NOT NULL,
      total_timesteps INTEGER,
      mean_reward REAL,
      std_reward REAL,
      mean_episode_length REAL,
      hyperparams TEXT,  -- JSON
      git_commit TEXT,
      validated BOOLEAN DEFAULT 0
    );
    
    CREATE INDEX IF NOT EXISTS idx_timestamp ON models(timestamp);
    CREATE INDEX IF NOT EXISTS idx_mean_reward ON models(mean_reward);
    CREATE INDEX IF NOT EXISTS idx_validated ON models(validated);
  '';
in
{
  config = lib.mkIf cfg.enable {
    perSystem = { system, ... }: {
      devShells.rl = {
        buildInputs = [ pkgs.sqlite ];
        shellHook = ''
          export RL_REGISTRY_DB="${cfg.dbPath}"
          
          # Initialize schema if DB doesn't exist
          if [ ! -f "${cfg.dbPath}" ]; then
            ${pkgs.sqlite}/bin/sqlite3 "${cfg.dbPath}" < ${initSchema}
          fi
          
          ${lib.optionalString (cfg.minReward != null) ''
            export RL_REGISTRY_MIN_REWARD="${toString cfg.minReward}"
          ''}
          export RL_REGISTRY_MIN_EPISODES="${toString cfg.minEpisodes}"
        '';
      };
    };
  };
}
"""
S4_EXTENSIONS = """
- Add `tags` column (JSON) for custom metadata?
- Add `parent_model_id` for fine-tuning lineage?
- Add `deployment_status` enum (staging, production, archived)?
- **Recommendation**: Make configurable via `metrics.granularity = enum ["step" "episode"]`
"""
S4_HOTSWAP_FLOW = """
1. Training loop saves checkpoint
2. Checkpoint callback writes to Registry (validated=0)
3. Eval callback runs evaluation
4. Eval writes metrics to Registry row
5. Validation layer checks criteria
6. If passed: validated=1
7. Inference queries: "SELECT model_path FROM models WHERE validated=1 ORDER BY mean_reward DESC LIMIT 1"
8. Load model from path
"""
