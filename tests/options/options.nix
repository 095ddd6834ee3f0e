# Generated from the table of options by `rl options --nix`.
{ lib, ... }:
{
  # Env: Environment definition (Gym/Gymnasium). EnvSpec → Env (Computation)
  options.rl.env.envId = lib.mkOption {
    type = lib.types.str;
    default = "CartPole-v1";
    description = "Environment: a Gymnasium id, or the alias of an environment in the catalogue.";
  };
  options.rl.env.nEnvs = lib.mkOption {
    type = lib.types.int;
    default = 4;
    description = "Environments stepped together.";
  };
  options.rl.env.seed = lib.mkOption {
    type = lib.types.nullOr (lib.types.either lib.types.int (lib.types.enum [ "random" ]));
    default = null;
    description = "Seed of the run; null means 0, and random draws one that the run's row keeps.";
  };
  # Obs: Observation/state space & preprocessing. RawObs → ProcessedObs (Computation)
  options.rl.obs.normalize = lib.mkOption {
    type = lib.types.enum [ "none" "running" "fixed" ];
    default = "running";
    description = "How observations are standardised; true means running and false none.";
  };
  options.rl.obs.clipRange = lib.mkOption {
    type = lib.types.nullOr (lib.types.either lib.types.float (lib.types.listOf lib.types.float));
    default = 10.0;
    description = "Bounds of the observations; one number c means [-c, c].";
  };
  options.rl.obs.stackFrames = lib.mkOption {
    type = lib.types.nullOr lib.types.int;
    default = null;
    description = "How many of the newest observations are seen together.";
  };
  # Feature: Feature engineering & embeddings. Obs → Features (Computation)
  options.rl.feature.encoder = lib.mkOption {
    type = lib.types.nullOr lib.types.str;
    default = "mlp";
    description = "Network that turns observations into features: mlp, cnn or a backbone's alias; null: the policy's own.";
  };
  options.rl.feature.embedDim = lib.mkOption {
    type = lib.types.int;
    default = 64;
    description = "Width of the features.";
  };
  # Agent: Policy/algorithm selection. (Obs, Action) → Policy (Computation)
  options.rl.agent.algorithm = lib.mkOption {
    type = lib.types.str;
    default = "ppo";
    description = "Agent, by its alias in the catalogue: ppo, a2c, dqn, sac and others, or a policy's such as equal_weight.";
  };
  options.rl.agent.policyType = lib.mkOption {
    type = lib.types.enum [ "MlpPolicy" "CnnPolicy" "MultiInputPolicy" ];
    default = "MlpPolicy";
    description = "Kind of policy network.";
  };
  options.rl.agent.netArch = lib.mkOption {
    type = lib.types.listOf lib.types.int;
    default = [ 64 64 ];
    description = "Widths of the policy's hidden layers.";
  };
  # Train: Training loop & hyperparameters. (Env, Agent) → Model (Computation)
  options.rl.train.totalTimesteps = lib.mkOption {
    type = lib.types.int;
    default = 100000;
    description = "Transitions over all environments.";
  };
  options.rl.train.learningRate = lib.mkOption {
    type = lib.types.str;
    default = "3e-4";
    description = "Learning rate.";
  };
  options.rl.train.batchSize = lib.mkOption {
    type = lib.types.int;
    default = 64;
    description = "Transitions per gradient step.";
  };
  options.rl.train.gamma = lib.mkOption {
    type = lib.types.float;
    default = 0.99;
    description = "Discount factor.";
  };
  options.rl.train.logInterval = lib.mkOption {
    type = lib.types.int;
    default = 10;
    description = "Rollouts between two points of the training's curve (off-policy: 1,000 transitions each).";
  };
  options.rl.train.evalDuringTraining = lib.mkOption {
    type = lib.types.bool;
    default = false;
    description = "Whether the best model is sought by evaluations while training.";
  };
  options.rl.train.initFrom = lib.mkOption {
    type = lib.types.nullOr lib.types.str;
    default = null;
    description = "Trained weights and normaliser to begin with: a run, model:ID or the folder of a checkpoint.";
  };
  options.rl.train.logDir = lib.mkOption {
    type = lib.types.str;
    default = "logs";
    description = "Folder of the runs' event logs.";
  };
  # Eval: Evaluation & validation. (Model, Env) → Metrics (Computation)
  options.rl.eval.episodes = lib.mkOption {
    type = lib.types.int;
    default = 10;
    description = "Episodes of one evaluation.";
  };
  options.rl.eval.deterministic = lib.mkOption {
    type = lib.types.bool;
    default = true;
    description = "Whether the policy acts without drawing.";
  };
  options.rl.eval.render = lib.mkOption {
    type = lib.types.bool;
    default = false;
    description = "Whether the first episode is kept as a moving picture.";
  };
  # Infer: Inference/deployment. (Model, Obs) → Action (Computation)
  options.rl.infer.modelPath = lib.mkOption {
    type = lib.types.nullOr lib.types.str;
    default = null;
    description = "Checkpoint folder that `rl infer` loads; null: the newest run's.";
  };
  options.rl.infer.device = lib.mkOption {
    type = lib.types.enum [ "auto" "cpu" "cuda" "mps" ];
    default = "auto";
    description = "Device of every verb's tensors.";
  };
  options.rl.infer.threads = lib.mkOption {
    type = lib.types.int;
    default = 1;
    description = "CPU threads of torch in every verb. The bytes of a result depend on it, so it is pinned.";
  };
  options.rl.infer.offline = lib.mkOption {
    type = lib.types.bool;
    default = false;
    description = "Whether `rl infer` answers and `rl decide` decides without looking at the kill switch.";
  };
  options.rl.infer.bot = lib.mkOption {
    type = lib.types.nullOr lib.types.str;
    default = null;
    description = "Bot in whose name policies answer, which a halt of `bot:NAME` refuses; null: none.";
  };
  # Store: Experiment tracking. Experiment → Artifacts (Information)
  options.rl.store.backend = lib.mkOption {
    type = lib.types.enum [ "local" "tensorboard" "s3" "mlflow" "wandb" ];
    default = "local";
    description = "Tracking back-end.";
  };
  options.rl.store.trackingUri = lib.mkOption {
    type = lib.types.str;
    default = "http://localhost:5000";
    description = "Address of the tracker: a server of MLflow or W&B, or s3://bucket/prefix.";
  };
  options.rl.store.experimentName = lib.mkOption {
    type = lib.types.str;
    default = "rl-experiment";
    description = "Experiment at the tracker, where the spec names none.";
  };
  options.rl.store.runName = lib.mkOption {
    type = lib.types.nullOr lib.types.str;
    default = null;
    description = "A name for the run, stored in its row and shown in listings.";
  };
  options.rl.store.modelDir = lib.mkOption {
    type = lib.types.str;
    default = "models";
    description = "Folder of the checkpoints.";
  };
  options.rl.store.checkpointFreq = lib.mkOption {
    type = lib.types.int;
    default = 10000;
    description = "Transitions between two checkpoints of a training run.";
  };
  options.rl.store.keepLast = lib.mkOption {
    type = lib.types.int;
    default = 3;
    description = "How many of a run's newest checkpoints are kept; the best one is too.";
  };
  options.rl.store.deliverySeconds = lib.mkOption {
    type = lib.types.float;
    default = 10.0;
    description = "Seconds that a run waits at its end for its tracker; the rest is delivered later.";
  };
  # Registry: Model metadata & validation. Model → Metadata (Information)
  options.rl.registry.enable = lib.mkOption {
    type = lib.types.bool;
    default = true;
    description = "Whether checkpoints enter the model registry.";
  };
  options.rl.registry.dbPath = lib.mkOption {
    type = lib.types.str;
    default = "rl_registry.db";
    description = "Stand-alone registry file.";
  };
  options.rl.registry.minReward = lib.mkOption {
    type = lib.types.nullOr lib.types.float;
    default = null;
    description = "What the lower bound of a model's mean reward must reach; null: nothing.";
  };
  options.rl.registry.minEpisodes = lib.mkOption {
    type = lib.types.int;
    default = 10;
    description = "Evaluation episodes a model needs to be validated.";
  };
  options.rl.registry.judgeCheckpoints = lib.mkOption {
    type = lib.types.bool;
    default = true;
    description = "Whether a training whose spec has a validation window judges each of its checkpoints on it.";
  };
  options.rl.registry.keepTopN = lib.mkOption {
    type = lib.types.nullOr lib.types.int;
    default = 10;
    description = "How many models of a scope are kept; null: all.";
  };
  options.rl.registry.maxAge = lib.mkOption {
    type = lib.types.nullOr lib.types.int;
    default = null;
    description = "Days after which a model may be pruned; null: never.";
  };
  # Metrics: Runtime telemetry (reward, loss). Step → Metrics (Signal)
  options.rl.metrics.enable = lib.mkOption {
    type = lib.types.bool;
    default = false;
    description = "Whether metrics are exported.";
  };
  options.rl.metrics.endpoint = lib.mkOption {
    type = lib.types.str;
    default = "http://localhost:4318";
    description = "OTLP endpoint of metrics; with grpc port 4317.";
  };
  options.rl.metrics.protocol = lib.mkOption {
    type = lib.types.enum [ "grpc" "http" ];
    default = "http";
    description = "OTLP protocol of all signals.";
  };
  options.rl.metrics.exporter = lib.mkOption {
    type = lib.types.nullOr (lib.types.enum [ "file" "otlp" "prometheus" "none" ]);
    default = null;
    description = "Where metrics go: a file in the home, OTLP, a page that Prometheus scrapes, or nowhere; null: OTLP where an endpoint is given, else the file.";
  };
  options.rl.metrics.prometheusHost = lib.mkOption {
    type = lib.types.str;
    default = "localhost";
    description = "Where the page for Prometheus is served.";
  };
  options.rl.metrics.prometheusPort = lib.mkOption {
    type = lib.types.int;
    default = 9464;
    description = "Port of that page; 0 takes a free one.";
  };
  options.rl.metrics.exportInterval = lib.mkOption {
    type = lib.types.int;
    default = 10;
    description = "Seconds between two exports.";
  };
  options.rl.metrics.trackReward = lib.mkOption {
    type = lib.types.bool;
    default = true;
    description = "Whether the reward is exported.";
  };
  options.rl.metrics.trackLoss = lib.mkOption {
    type = lib.types.bool;
    default = true;
    description = "Whether the losses are exported.";
  };
  options.rl.metrics.trackEntropy = lib.mkOption {
    type = lib.types.bool;
    default = true;
    description = "Whether the entropy is exported.";
  };
  options.rl.metrics.trackFps = lib.mkOption {
    type = lib.types.bool;
    default = true;
    description = "Whether transitions per second are exported.";
  };
  options.rl.metrics.granularity = lib.mkOption {
    type = lib.types.enum [ "step" "episode" ];
    default = "episode";
    description = "Which rewards are exported: episode: the mean return of the episodes that ended; step: also the mean reward of the last step.";
  };
  # Traces: Episode/step spans. Episode → Trace (Signal)
  options.rl.traces.enable = lib.mkOption {
    type = lib.types.bool;
    default = false;
    description = "Whether traces are exported.";
  };
  options.rl.traces.endpoint = lib.mkOption {
    type = lib.types.str;
    default = "http://localhost:4318";
    description = "OTLP endpoint of traces; with grpc port 4317.";
  };
  options.rl.traces.exporter = lib.mkOption {
    type = lib.types.nullOr (lib.types.enum [ "file" "otlp" "none" ]);
    default = null;
    description = "Where traces go: a file in the home, OTLP, or nowhere; null: OTLP where an endpoint is given, else the file.";
  };
  options.rl.traces.sampleRate = lib.mkOption {
    type = lib.types.float;
    default = 1.0;
    description = "Share of the episodes whose spans are kept, each whole; the run's is always kept.";
  };
  options.rl.traces.traceEpisodes = lib.mkOption {
    type = lib.types.bool;
    default = true;
    description = "Whether an episode is a span.";
  };
  options.rl.traces.traceSteps = lib.mkOption {
    type = lib.types.bool;
    default = false;
    description = "Whether a step is a span (high volume).";
  };
  options.rl.traces.traceEvals = lib.mkOption {
    type = lib.types.bool;
    default = true;
    description = "Whether an evaluation is a span.";
  };
  # Logs: Structured events. Event → Log (Signal)
  options.rl.logs.enable = lib.mkOption {
    type = lib.types.bool;
    default = false;
    description = "Whether log lines are exported by OpenTelemetry.";
  };
  options.rl.logs.endpoint = lib.mkOption {
    type = lib.types.str;
    default = "http://localhost:4318";
    description = "OTLP endpoint of log lines; with grpc port 4317.";
  };
  options.rl.logs.exporter = lib.mkOption {
    type = lib.types.nullOr (lib.types.enum [ "file" "otlp" "none" ]);
    default = null;
    description = "Where log lines go: a file in the home, OTLP, or nowhere; null: OTLP where an endpoint is given, else the file.";
  };
  options.rl.logs.level = lib.mkOption {
    type = lib.types.enum [ "debug" "info" "warn" "error" ];
    default = "info";
    description = "Least severity that is written.";
  };
  # Gates: What a model must pass. Evidence → Verdicts (Information)
  options.rl.gates.profile = lib.mkOption {
    type = lib.types.str;
    default = "default";
    description = "Profile: which gates a model must pass.";
  };
  options.rl.gates.maxDispersion = lib.mkOption {
    type = lib.types.float;
    default = 1.0;
    description = "Most that returns of episodes may spread, as a multiple of their usual size.";
  };
  options.rl.gates.minBars = lib.mkOption {
    type = lib.types.int;
    default = 100;
    description = "Bars that a model which trades must have been judged on.";
  };
  options.rl.gates.measure = lib.mkOption {
    type = lib.types.enum [ "sharpe" "sortino" "mean_return" "total_return" ];
    default = "sharpe";
    description = "Measure of a trading account whose bootstrap lower bound must reach the minimum.";
  };
  options.rl.gates.minMeasure = lib.mkOption {
    type = lib.types.float;
    default = 0.0;
    description = "What the lower bound of that measure must reach.";
  };
  options.rl.gates.maxDrawdown = lib.mkOption {
    type = lib.types.float;
    default = 0.3;
    description = "Deepest fall of a trading account that is allowed, as a part of its value.";
  };
  options.rl.gates.maxShortfall = lib.mkOption {
    type = lib.types.float;
    default = 0.0;
    description = "Most that the lower bound of a trading account's yearly return may be below that of cash and of equal weights after costs.";
  };
  options.rl.gates.maxProfitShare = lib.mkOption {
    type = lib.types.float;
    default = 0.5;
    description = "Most of the profit that one asset may make where three or more are traded.";
  };
  # Data: Market data. Source → Panel (Information)
  options.rl.data.root = lib.mkOption {
    type = lib.types.str;
    default = ".";
    description = "Folder that paths in a spec are relative to; a relative one is below the working folder.";
  };
  # Trajectory: Step-by-step tables. Step → Rows (Information)
  options.rl.trajectory.namespace = lib.mkOption {
    type = lib.types.str;
    default = "rl";
    description = "Namespace of the six tables.";
  };
  options.rl.trajectory.table = lib.mkOption {
    type = lib.types.str;
    default = "trajectories";
    description = "Table of steps.";
  };
  options.rl.trajectory.equityTable = lib.mkOption {
    type = lib.types.str;
    default = "equity_curves";
    description = "Table of equity curves.";
  };
  options.rl.trajectory.actionLogTable = lib.mkOption {
    type = lib.types.str;
    default = "action_logs";
    description = "Table of action components.";
  };
  options.rl.trajectory.rewardDecompTable = lib.mkOption {
    type = lib.types.str;
    default = "reward_decomposition";
    description = "Table of reward terms.";
  };
  options.rl.trajectory.positionsTable = lib.mkOption {
    type = lib.types.str;
    default = "positions";
    description = "Table of positions.";
  };
  options.rl.trajectory.fillsTable = lib.mkOption {
    type = lib.types.str;
    default = "fills";
    description = "Table of fills.";
  };
  options.rl.trajectory.persist = lib.mkOption {
    type = lib.types.bool;
    default = true;
    description = "Whether steps are kept on disk.";
  };
  options.rl.trajectory.flushRows = lib.mkOption {
    type = lib.types.int;
    default = 1000;
    description = "Steps per environment before the buffer is flushed.";
  };
  options.rl.trajectory.requireIceberg = lib.mkOption {
    type = lib.types.bool;
    default = false;
    description = "Whether a failed table commit fails the run.";
  };
  # Record: What is recorded of a run. Run → Steps (Information)
  options.rl.record.train = lib.mkOption {
    type = lib.types.nullOr lib.types.str;
    default = null;
    description = "Training steps that are recorded: all, off, or sample:N for one whole episode in N; null: all, and off on a GPU.";
  };
  options.rl.record.maxRows = lib.mkOption {
    type = lib.types.int;
    default = 50000000;
    description = "Training transitions after which `all` records only one episode in 100.";
  };
  options.rl.record.observations = lib.mkOption {
    type = lib.types.bool;
    default = false;
    description = "Whether whole observations are recorded too, for learning from them later.";
  };
  options.rl.record.positions = lib.mkOption {
    type = lib.types.enum [ "judged" "all" "none" ];
    default = "judged";
    description = "Steps whose positions and fills are recorded: judged (validation, evaluation and replay), all, or none.";
  };
  options.rl.record.memoryMb = lib.mkOption {
    type = lib.types.int;
    default = 256;
    description = "Memory for steps on their way to disk; the loop waits beyond it.";
  };
  # Lake: Where recorded steps are kept. Rows → Tables (Information)
  options.rl.lake.catalogUrl = lib.mkOption {
    type = lib.types.nullOr lib.types.str;
    default = null;
    description = "Catalogue of the tables: an SQLite, PostgreSQL or REST URL; null: an SQLite file in the home.";
  };
  options.rl.lake.warehouse = lib.mkOption {
    type = lib.types.nullOr lib.types.str;
    default = null;
    description = "Folder or s3:// address of the tables' files; null: a folder in the home.";
  };
  options.rl.lake.s3Endpoint = lib.mkOption {
    type = lib.types.nullOr lib.types.str;
    default = null;
    description = "Address of an S3 server that is not Amazon's.";
  };
  options.rl.lake.s3Region = lib.mkOption {
    type = lib.types.nullOr lib.types.str;
    default = null;
    description = "Region of the S3 warehouse.";
  };
  options.rl.lake.segmentRows = lib.mkOption {
    type = lib.types.int;
    default = 262144;
    description = "Transitions after which a segment file is closed.";
  };
  options.rl.lake.commitRows = lib.mkOption {
    type = lib.types.int;
    default = 1000000;
    description = "Rows of a table after which segments are committed to it.";
  };
  options.rl.lake.commitSeconds = lib.mkOption {
    type = lib.types.float;
    default = 60.0;
    description = "Seconds after which segments are committed all the same.";
  };
  # Home: Home folder & ledger. Run → Ledger (Information)
  options.rl.home.folder = lib.mkOption {
    type = lib.types.str;
    default = ".alphaswarm";
    description = "Folder below which all state lives.";
  };
  options.rl.home.plugins = lib.mkOption {
    type = lib.types.listOf lib.types.str;
    default = [ ];
    description = "Modules of components of your own, imported before anything is named.";
  };
  options.rl.home.dbUrl = lib.mkOption {
    type = lib.types.nullOr lib.types.str;
    default = null;
    description = "Database URL of the ledger; null: an SQLite file in the home folder.";
  };
  options.rl.home.episodeRate = lib.mkOption {
    type = lib.types.float;
    default = 100.0;
    description = "Episodes per 1,000 transitions above which a batch of episodes is stored as one row.";
  };
  options.rl.home.haltPollSeconds = lib.mkOption {
    type = lib.types.float;
    default = 0.25;
    description = "Seconds between two questions to the kill switch; above 0.5 it is 0.5.";
  };
  options.rl.home.haltSilenceSeconds = lib.mkOption {
    type = lib.types.float;
    default = 30.0;
    description = "Seconds without an answer from the kill switch after which runs halt and no answers are given.";
  };
  options.rl.home.heartbeatSeconds = lib.mkOption {
    type = lib.types.float;
    default = 10.0;
    description = "Seconds between two heartbeats of a run.";
  };
  options.rl.home.silenceSeconds = lib.mkOption {
    type = lib.types.float;
    default = 30.0;
    description = "Seconds without a heartbeat after which a run counts as dead whose process cannot be seen: one on another host, or in another container; longer than two heartbeats take.";
  };
}
