"""The lines of code and the commands of the five documents that this system was built from, letter by letter.

S0 is their page on the Iceberg data plane, S1 on the framework, S2 on hybrid agents, S3 and S4 the two of the Nix
module. What works is run or read as it stands there, but for placeholders such as `<model_id>`. What belongs to later
work is in `LATER` by name, with the reason, and a test fails as soon as it begins to work: then it moves up. Trees, flow
charts and prose in fences are no code.
"""

import json
import os
import re
import sqlite3
import subprocess
import sys
from functools import cache, partial
from importlib.metadata import distribution
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

import click
import duckdb
import pytest
from stable_baselines3 import PPO

from alphaswarm_rl import Ledger, RLExperimentSpec, RLRuntime, Settings
from alphaswarm_rl.cli.root import rl
from alphaswarm_rl.core import catalogue
from alphaswarm_rl.core.errors import UnknownComponent
from alphaswarm_rl.db.engine import read
from alphaswarm_rl.envs.gym_ids import resolve
from alphaswarm_rl.execution.stepped_engine import RL_AGENT
from alphaswarm_rl.lake.catalog import Lake
from alphaswarm_rl.lake.views import ensure_duckdb_views, register_run_views
from alphaswarm_rl.models import ModelRegistry
from alphaswarm_rl.options.resolve import effective_spec
from alphaswarm_rl.options.settings import load_settings
from alphaswarm_rl.options.table import BY_KEY, OPTIONS
from alphaswarm_rl.spec import load_spec
from tests.docs.pages import ROOT
from tests.docs.seed_texts import (
    S3_BINDINGS,
    S3_COMMANDS,
    S3_DEPENDENCIES,
    S3_DISCOVERY,
    S3_ENVIRONMENTS,
    S3_HOTSWAP_FLOW,
    S3_ISOMORPHISM,
    S3_OPTION_SPACE,
    S3_SCHEMA,
    S3_TARGETS,
    S3_USAGE,
    S3_VALIDATION,
    S4_BINDINGS,
    S4_COMMANDS,
    S4_EXTENSIONS,
    S4_HOTSWAP_FLOW,
    S4_MAPPING,
    S4_OPTIONS,
    S4_PACKAGES,
    S4_STORE_AND_OBS,
    S4_STORE_MAPPING,
    S4_VALIDATION,
)
from tests.docs.warm_rl import warm_rl

PACKAGE = ROOT / "src" / "alphaswarm_rl"
BIN = Path(sys.executable).parent

# -- S0: tables, settings, views ---------------------------------------------------------------------------------------

S0_TABLES = {
    "rl.trajectories": "run_id, episode, step, ts, reward, info",
    "rl.equity_curves": "run_id, episode, step, ts, portfolio_value, drawdown, cash",
    "rl.action_logs": "run_id, episode, step, ts, asset_idx, action_value",
    "rl.reward_decomposition": "run_id, episode, step, ts, term_name, contribution",
}
S0_SETTINGS = """
ALPHASWARM_RL_TRAJECTORY_NAMESPACE rl
ALPHASWARM_RL_TRAJECTORY_TABLE trajectories
ALPHASWARM_RL_EQUITY_TABLE equity_curves
ALPHASWARM_RL_ACTION_LOG_TABLE action_logs
ALPHASWARM_RL_REWARD_DECOMP_TABLE reward_decomposition
ALPHASWARM_RL_PERSIST_TRAJECTORIES true
ALPHASWARM_RL_TRAJECTORY_FLUSH_ROWS 1000
ALPHASWARM_RL_REQUIRE_ICEBERG false
"""
S0_VIEWS = "rl_trajectories / rl_equity_curves / rl_action_logs / rl_reward_decomposition"
S0_LEDGER = """
rl_experiment_specs
rl_experiment_versions
rl_runs
rl_evaluations
rl_trajectory_refs / rl_equity_curve_refs
rl_component_registrations
"""

#: A market of its own, so that every table has rows.
TRADING = {
    "name": "Seeds",
    "data_pipeline": {"class": "synthetic", "kwargs": {"n_assets": 2, "n_bars": 300, "seed": 1}},
    "env": {"class": "stock_trading", "kwargs": {"fill": "next_close"}},
    "observation": {"class": "portfolio_state"},
    "reward": {"class": "CompositeReward", "kwargs": {"terms": [{"class": "pnl"}]}},
    "agent": {"class": "ppo_inhouse", "kwargs": {"n_steps": 16, "batch_size": 32, "n_epochs": 1, "net_arch": [8]}},
    "training": {"total_timesteps": 256, "n_envs": 4, "end": "2020-06-01"},
    "evaluation": {"start": "2020-06-01", "end": "2020-08-01"},
}


@pytest.fixture(scope="module")
def worked(tmp_path_factory):
    """S1's worked example: persist, train, replay; with what both runs answered."""
    settings = Settings(home=tmp_path_factory.mktemp("worked") / "home")
    stages = []
    spec = RLExperimentSpec.from_data(TRADING)
    names = {"spec": spec, "settings": settings, "new_window": {"start": "2020-08-01", "end": "2020-10-01"}}
    exec("from alphaswarm_rl.registry import persist_spec", names)
    names["version_id"] = names["persist_spec"](spec, settings=settings)
    trained = RLRuntime(spec, settings, sinks=[lambda event: stages.append(event.stage)]).train()
    # "When you `RLRuntime(spec).replay(new_window)`": with the settings of this test, and without.
    os.environ["ALPHASWARM_RL_HOME"] = str(settings.home)
    try:
        replayed = eval("RLRuntime(spec).replay(new_window)", {"RLRuntime": RLRuntime, **names})
    finally:
        del os.environ["ALPHASWARM_RL_HOME"]
    return SimpleNamespace(trained=trained, replayed=replayed, stages=stages, **names)


@pytest.mark.parametrize("line", S0_SETTINGS.split("\n")[1:-1])
def test_s0_every_variable_is_a_setting_with_that_default(line):
    name, default = line.split()
    (option,) = (option for option in OPTIONS if name in option.env)
    assert option.env[0] == name
    assert option.type.read(default) == option.default


def test_s0_views_have_the_columns_and_the_rows(worked):
    with duckdb.connect() as connection:
        ensure_duckdb_views(connection, worked.settings)
        names = register_run_views(worked.trained.run_id, connection, worked.settings)
        views = S0_VIEWS.split(" / ")
        for view, (table, columns) in zip(views, S0_TABLES.items(), strict=True):
            kind = table.removeprefix("rl.")
            assert view == f"rl_{kind}"
            assert re.fullmatch(rf"rl_{kind}_run_[0-9a-f]+", names[kind])
            counts = [connection.execute(f"SELECT count({columns.split(', ')[0]}) FROM {name}").fetchone()[0]
                      for name in (view, names[kind])]  # fmt: skip
            assert counts[0] > counts[1] > 0
            connection.execute(f"SELECT {columns} FROM {view}")
            # S1, step 4: a view per spec hash.
            of_spec = f'alphaswarm_silver_rl_{kind}."{worked.trained.spec_hash}"'
            assert connection.execute(f"SELECT count(*) FROM {of_spec}").fetchone()[0] == counts[0]


@pytest.mark.parametrize("table", re.findall(r"rl_\w+", S0_LEDGER))
def test_s0_the_ledger_has_its_tables_and_rows_in_them(worked, table):
    with Ledger.open(worked.settings) as ledger, read(ledger.engine) as connection:
        assert connection.exec_driver_sql(f"SELECT count(*) FROM {table}").scalar_one() > 0


# -- S1: the worked example, names, components -------------------------------------------------------------------------

S1_STAGES = "start → data.loaded → env.built → agent.built → train.step (×many, sparse) → train.checkpoint → done"
S1_STEP_4 = "episode, step, obs_hash, action, reward, value, log_prob"
#: Modules and what they hold.
S1_MODULES = """
alphaswarm_rl/core/base.py RLComponent
alphaswarm_rl/spec.py RLExperimentSpec
alphaswarm_rl/runtime.py RLRuntime
alphaswarm_rl/registry.py persist_spec
alphaswarm_rl/registry.py build_from_config
"""
S1_VERBS = "RLRuntime.train RLRuntime.evaluate RLRuntime.replay"
S1_PAGES = "rl-components rl-iceberg rl-policy-backbones tutorials/first-rl-experiment"
S1_PACKAGES = (
    "core envs rewards observations actions terminations data_pipelines agents policies advantage portfolio configs"
)
#: By kind: what the tables of S1 and S2 name and what is here.
COMPONENTS = """
reward differential_sharpe differential_downside implementation_shortfall running_inventory exp_utility hindsight
reward CompositeReward StopProperlyWrapper
env tradesim_algotrading tradesim_portfolio
agent ppo_inhouse
replay_buffer GeneralReplayBuffer PrioritizedReplayBuffer NStepInfoReplayBuffer
advantage_estimator ReinforcePlusPlusAdvantage GRPOAdvantage GAEAdvantage
policy_backbone TransformerBackbone RecurrentBackbone AutoencoderBackbone PatchTSTBackbone
termination DrawdownTermination MarginCallTermination RiskBreachTermination
observation FundamentalBuilder
data_pipeline DeterministicMedallionReplay DataProcessor
trajectory_store IcebergTrajectoryStore
portfolio_stage StaticUniverseSelector LiquiditySelector IdentityAllocator SoftmaxAllocator ConstantTimingAdjuster
portfolio_stage TurbulenceTimingAdjuster VolatilityTargetingTimingAdjuster PositionCapRiskOverlay
portfolio_stage GrossExposureRiskOverlay StackedRiskOverlay
"""
#: Classes and functions that are no components.
S1_NAMES = """
alphaswarm_rl.core.base RLComponent
alphaswarm_rl.core.base BaseAdvantageEstimator
alphaswarm_rl.core.base TimeSeriesEncoder
alphaswarm_rl.data_pipelines DataProcessor
alphaswarm_rl.data_pipelines FeatureEngineer
alphaswarm_rl.data_pipelines.steps df_to_array
alphaswarm_rl.terminations DrawdownTermination
alphaswarm_rl.lake.views ensure_duckdb_views
alphaswarm_rl.lake.views register_run_views
alphaswarm_rl.statistics CombinatorialPurgedKFold
alphaswarm_rl.statistics benjamini_hochberg
alphaswarm_rl.statistics deflated_sharpe_ratio
alphaswarm_rl.statistics holm_bonferroni
alphaswarm_rl.statistics probability_of_backtest_overfitting
alphaswarm_rl.statistics rademacher_anti_serum
alphaswarm_rl.statistics walk_forward_anchored
alphaswarm_rl.statistics walk_forward_rolling
alphaswarm_rl.portfolio.pipeline WeightCentricPipeline
alphaswarm_rl.core.risk_limits RiskLimits
alphaswarm_rl.core.orders DomainOrder
alphaswarm_rl.execution.weight_to_orders WeightToOrders
alphaswarm_rl.execution.bridge RLAgentBridge
alphaswarm_rl.core.kinds BaseBacktestEngine
alphaswarm_rl.execution.backtest_env RLBacktestEnv
"""


def test_s1_two_runs_of_one_version(worked):
    assert worked.trained.version_id == worked.replayed.version_id == worked.version_id
    assert worked.replayed.parent_run_id == worked.trained.run_id
    assert worked.replayed.checkpoint_sha256 == worked.trained.checkpoint_sha256
    with Ledger.open(worked.settings) as ledger:
        assert [run.target for run in ledger.runs()] == ["replay", "train"]
        (version,) = ledger.versions("seeds")
        replay = ledger.run(worked.replayed.run_id)
        assert ledger.run(worked.trained.run_id).halt_checks > 0  # should_halt, never true
    assert version.spec_hash == worked.trained.spec_hash
    assert (replay.window_start, replay.window_end) == ("2020-08-01", "2020-10-01")


def test_s1_stages_come_in_that_order(worked):
    expected = re.sub(r" \(.*?\)", "", S1_STAGES).split(" → ")
    assert [stage for stage in dict.fromkeys(worked.stages) if stage in expected] == expected


def test_s1_step_4_reads_these_columns(worked):
    with duckdb.connect() as connection:
        ensure_duckdb_views(connection, worked.settings)
        table = f'alphaswarm_silver_rl_trajectories."{worked.trained.spec_hash}"'
        assert connection.execute(f"SELECT {S1_STEP_4} FROM {table} WHERE phase = 'train'").fetchone() is not None


def test_s1_the_preset_is_a_ppo_of_50k_steps():
    path = "alphaswarm_rl/configs/experiments/my_first_rl.yaml"
    spec = load_spec(Path(path).stem)
    assert (PACKAGE.parent / path).exists()
    assert (spec.agent.name, spec.training.total_timesteps) == ("ppo", 50_000)


@pytest.mark.parametrize("line", [*S1_MODULES.split("\n")[1:-1], *S1_NAMES.split("\n")[1:-1]])
def test_s1_names_are_imported_from_there(line):
    module, name = line.split()
    names = {}
    exec(f"from {module.removesuffix('.py').replace('/', '.')} import {name}", names)
    assert names[name].__doc__


@pytest.mark.parametrize("verb", S1_VERBS.split())
def test_s1_the_runtime_has_these_verbs(verb):
    assert eval(verb, {"RLRuntime": RLRuntime}).__doc__


@pytest.mark.parametrize("page", S1_PAGES.split())
def test_s1_pages_are_there(page):
    assert (ROOT / "docs" / f"{page}.md").exists()


def test_s1_rows_come_by_append_arrow(tmp_path):
    assert Lake(Settings(home=tmp_path)).append_arrow.__doc__


@pytest.mark.parametrize("package", S1_PACKAGES.split())
def test_s1_packages_are_there(package):
    assert (PACKAGE / package).is_dir()


@pytest.mark.parametrize(
    ("kind", "name"), [(line.split()[0], name) for line in COMPONENTS.split("\n")[1:-1] for name in line.split()[1:]]
)
def test_s1_components_are_known_by_these_names(kind, name):
    assert catalogue.get(kind, name).rl_kind == kind


# -- S2: the spec extension --------------------------------------------------------------------------------------------

#: Its page shows the lines without their indents, which are in front here.
S2_SPEC = [
    (0, "training:"),
    (1, "total_timesteps: 200000"),
    (1, "log_interval: 10"),
    (1, "advantage:"),
    (2, "class: ReinforcePlusPlusAdvantage"),
    (2, "module_path: alphaswarm.rl.advantage.reinforce_plus_plus"),
    (2, "kwargs:"),
    (3, "minus_baseline: true"),
    (3, "global_normalization: true"),
    (3, "leave_one_out: true"),
    (1, "stop_properly_penalty_coef: 0.2"),
]


def test_s2_engines_give_their_context_the_agent():
    """`context['rl_agent']` under `supports_rl_injection=True`; what it is asked is in tests/execution."""
    assert RL_AGENT == "rl_agent"
    for engine in ("native", "backtrader"):
        assert catalogue.get("backtest_engine", engine).capabilities.supports_rl_injection is True


def test_s2_the_spec_extension():
    text = "\n".join("  " * depth + line for depth, line in S2_SPEC)
    rest = "\n".join(f"{name}: {json.dumps(TRADING[name])}" for name in ("name", "data_pipeline", "env", "agent"))
    spec = RLExperimentSpec.from_yaml_str(f"{text}\n{rest}")
    assert (spec.training.total_timesteps, spec.training.log_interval) == (200_000, 10)
    assert (spec.training.advantage.name, spec.training.stop_properly_penalty_coef) == ("reinforce_plus_plus", 0.2)
    flags = ("minus_baseline", "global_normalization", "leave_one_out")
    assert [spec.training.advantage.kwargs[name] for name in flags] == [True] * 3
    RLRuntime(spec)  # nothing in it waits


# -- S3: options, schema, validation, usage ----------------------------------------------------------------------------

#: "Options", by feature: what each takes.
_SPACE = [
    (feature.lower(), *option)
    for feature, options in re.findall(r"^### (\w+).*\n((?:- .+\n)+)", S3_OPTION_SPACE, re.MULTILINE)
    for option in re.findall(r"^- `(\w+)`: (.+)$", options, re.MULTILINE)
]
#: Values that an option of the spec has to be valid with, where the starting spec is not of that kind.
_OTHER = {"custom": "autoencoder"}

# -- S4: the same, and what the modules declare ------------------------------------------------------------------------

#: The SQL that its registry is made by.
S4_SCHEMA = S4_BINDINGS.partition("\"init_registry.sql\" ''\n")[2].partition("  '';")[0]
S4_METRICS_JSON = {
    "algorithm": "PPO",
    "env_id": "CartPole-v1",
    "timestamp": 1_770_000_000,
    "total_timesteps": 4096,
    "mean_reward": 50.0,
    "std_reward": 5.0,
    "mean_episode_length": 50.0,
    "hyperparams": '{"net_arch": [8]}',
    "git_commit": "8f20cf85",
}

_MAPPED = [line for table in (S3_ISOMORPHISM, S4_STORE_MAPPING, S4_MAPPING) for line in table.split("\n")[3:-1]]


@pytest.mark.parametrize("line", _MAPPED)
def test_s3_s4_option_variable_and_flag_are_one(line):
    name, variable, *flag = line.split()
    key, _, value = name.partition("=")
    option = BY_KEY[key if "." in key else f"store.{key}"]
    variable, _, given = variable.partition("=")
    assert variable in option.env
    assert flag[0] == option.flag
    for text in filter(None, (given, value.strip('"'), *flag[1:])):
        option.type.read(text)


def test_s3_s4_the_original_sql_makes_a_registry_and_leaves_ours_alone(settings):
    with sqlite3.connect(settings.home.parent / "theirs.db") as theirs:
        theirs.executescript(S3_SCHEMA)
    opened = settings.model_copy(
        update={"registry": settings.registry.model_copy(update={"db_path": settings.home.parent / "theirs.db"})}
    )
    with ModelRegistry.open(opened) as registry:
        assert registry.list() == []
    for path in (opened.registry_file, settings.registry_file):
        ModelRegistry.open(settings).close()
        with sqlite3.connect(path) as ours:
            ours.executescript(S4_SCHEMA)
            columns = [row[1] for row in ours.execute("PRAGMA table_info(models)")]
        assert columns[:12] == re.findall(r"^      (\w+) [A-Z]+", S4_SCHEMA, re.MULTILINE)
        assert len(columns) > 12  # ours stand behind them


class _TheirRegistry:
    """`registry` of their pseudocode: a connection to our file."""

    def __init__(self, path):
        self.path = path

    def query(self, sql, *values):
        with sqlite3.connect(self.path) as connection:
            connection.row_factory = sqlite3.Row
            return SimpleNamespace(**dict(connection.execute(sql, values).fetchone()))

    def execute(self, sql, *values):
        with sqlite3.connect(self.path) as connection:
            connection.execute(sql, values)


@pytest.mark.parametrize("text", [S3_VALIDATION, S4_VALIDATION], ids=["S3", "S4"])
@pytest.mark.parametrize(
    ("least", "std", "steps"), [(None, 5.0, 600), (60.0, 5.0, 600), (None, 30.0, 600), (None, 5.0, 400)]
)
def test_s3_s4_validate_model_runs_on_our_registry_and_agrees(settings, tmp_path, text, least, std, steps):
    from alphaswarm_rl.registry import validate_model

    ModelRegistry.open(settings).close()
    with sqlite3.connect(settings.registry_file) as connection:
        values = (str(tmp_path), "ppo", "CartPole-v1", 0, steps, 50.0, std, 50.0)
        connection.execute(
            "INSERT INTO models (model_path, algorithm, env_id, timestamp, total_timesteps, mean_reward, std_reward,"
            " mean_episode_length) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            values,
        )
    names = {
        "registry": _TheirRegistry(settings.registry_file),
        "cfg": SimpleNamespace(minReward=least, minEpisodes=10),
    }
    exec(text, names)
    theirs = names["validate_model"](1)
    assert theirs is (least is None and std < 25 and steps >= 500)
    ours = settings.model_copy(
        update={
            "gates": settings.gates.model_copy(update={"profile": "seed-legacy"}),
            "registry": settings.registry.model_copy(update={"min_reward": least}),
        }
    )
    with ModelRegistry.open(ours) as registry:
        verdicts = {check.gate: check.passed for check in registry.validate(1, dry_run=True).checks}
    assert all(passed for gate, passed in verdicts.items() if gate.startswith("legacy")) is theirs
    # Of a row that was never evaluated ours says no, whatever the figures are.
    assert validate_model(1, settings=ours) is False


def test_s3_usage_is_what_our_options_take(settings):
    flags = {}
    for key, value in re.findall(r"^    (\w+\.\w+) = (.+?);", S3_USAGE, re.MULTILINE):
        text = re.sub(r"\s+", ", ", value[2:-2]).join("[]") if value.startswith("[") else value
        flags[key] = json.loads(text)
    assert len(flags) == 21
    spec = effective_spec(None, {key: value for key, value in flags.items() if BY_KEY[key].target == "spec"}, {}).spec
    assert (spec.env.kwargs["id"], spec.training.n_envs, spec.training.total_timesteps) == ("CartPole-v1", 8, 100_000)
    assert spec.agent.name == "ppo"
    assert (spec.agent.kwargs["net_arch"], spec.agent.kwargs["learning_rate"]) == ([64, 64], 3e-4)
    loaded = load_settings({key: value for key, value in flags.items() if BY_KEY[key].target == "settings"}, {})
    assert (loaded.store.backend, loaded.store.experiment_name) == ("mlflow", "cartpole-ppo")
    assert (loaded.registry.min_reward, loaded.registry.keep_top_n) == (195.0, 10)
    assert loaded.metrics.enable
    assert loaded.traces.enable
    assert loaded.logs.enable


def test_s3_s4_every_option_is_there_by_feature():
    assert len(_SPACE) == 47
    assert [f"{feature}.{name}" for feature, name, _ in _SPACE if f"{feature}.{name}" not in BY_KEY] == []


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (f"{feature}.{name}", value)
        for feature, name, words in _SPACE
        for value in re.split(", | or ", words)
        if name in ("encoder", "algorithm", "policyType", "device", "backend", "protocol", "level")
    ],
)
def test_s3_options_take_the_values_that_it_names(key, value):
    option, value = BY_KEY[key], _OTHER.get(value, value)
    if option.target == "settings":
        load_settings({key: value}, {})
    else:
        spec = effective_spec(None, {key: value}, {}).spec
        assert value.lower() in json.dumps(spec.as_data()["agent"]).lower()


def test_s3_every_feature_has_variables_of_its_prefix():
    prefixes = re.findall(r"`(\w+_)` \|$", S3_BINDINGS, re.MULTILINE)
    assert len(prefixes) == 12
    names = [name for option in OPTIONS for name in option.env]
    assert [prefix for prefix in prefixes if not any(name.startswith(prefix) for name in names)] == []


@pytest.mark.parametrize("name", re.findall(r"`perSystem\.packages\.(\S+)`", S3_TARGETS))
def test_s3_its_programs_are_installed(name):
    points = {point.name for point in distribution("alphaswarm-rl").entry_points.select(group="console_scripts")}
    assert name in points


@pytest.mark.parametrize("name", re.findall(r"^\| `([\w-]+)` \|", S3_DEPENDENCIES, re.MULTILINE))
def test_s3_its_dependencies_are_installed(name):
    assert sqlite3.sqlite_version if name == "sqlite" else distribution(name).version


@pytest.fixture(scope="module")
def names_of_commands(tmp_path_factory):
    """A folder with every command that the distribution installs, each a warm `rl` with the words it stands for.

    Where the system cannot wait for forks as that needs, the folder that they are installed in.
    """
    if not hasattr(os, "pidfd_open"):
        yield BIN
        return
    with warm_rl(tmp_path_factory.mktemp("bin")) as folder:
        for point in distribution("alphaswarm-rl").entry_points.select(group="console_scripts"):
            main = point.load()
            words = main.args if isinstance(main, partial) else ()
            if point.name != "rl":
                command = folder / point.name
                command.write_text(f'#!/bin/sh\nexec {folder / "rl"} {" ".join(words)} "$@"\n')
                command.chmod(0o755)
        yield folder


@pytest.mark.timeout(300)
def test_s3_s4_the_commands(names_of_commands, tmp_path):
    """One after the other, as a user would: train, list, validate, infer, evaluate; then add, list, validate, load."""
    (tmp_path / "metrics.json").write_text(json.dumps({**S4_METRICS_JSON, "total_timesteps": 0}))
    PPO("MlpPolicy", "CartPole-v1", policy_kwargs={"net_arch": [8]}, device="cpu").save(tmp_path / "theirs.zip")
    first = S3_COMMANDS.replace("<model_id>", "1").replace("<id>", "1")
    second = S4_COMMANDS.replace("<model_path> <metrics_json>", "theirs.zip metrics.json").replace("<model_id>", "1")
    second = second.replace("[--validated] [--top-n]", "--validated --top-n 1")
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", f"{first}echo ADDED\n{second}"],
        input="[0.0, 0.1, 0.02, -0.1]\n",
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env={
            **os.environ,
            "PATH": os.pathsep.join([str(names_of_commands), os.environ["PATH"]]),
            "RL_TRAIN_TOTAL_TIMESTEPS": "2048",
            "RL_AGENT_NET_ARCH": "[8]",
        },
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    assert '"action"' in done.stdout.partition("ADDED")[0]
    with ModelRegistry.open(Settings(home=tmp_path / "home"), make=False) as registry:
        assert registry.get(1).validated
        their = next(row for row in registry.list() if row.git_commit == "8f20cf85")
        assert (their.algorithm, their.env_id, their.timestamp) == ("ppo", "CartPole-v1", 1_770_000_000)
    with sqlite3.connect(tmp_path / "home" / "rl_registry.db") as connection:
        for flow in (S3_HOTSWAP_FLOW, S4_HOTSWAP_FLOW):
            (statement,) = re.findall(r"Inference queries: \"?(SELECT .+ LIMIT 1)", flow)
            (path,) = connection.execute(statement).fetchone()
            assert Path(path).exists()


def test_s3_introspection_names_every_feature_and_option():
    (command,) = re.findall(r"^introspect-options .*$", S3_DISCOVERY, re.MULTILINE)
    program, *words = command.split()
    done = subprocess.run([BIN / program, *words], capture_output=True, text=True, check=True)
    feature = ""
    for mark, word in re.findall(r"^# +([🔹•]) (\w+)$", S3_DISCOVERY, re.MULTILINE):
        feature = word if mark == "🔹" else feature
        assert (f"\n{word}: " if mark == "🔹" else f"  {feature.lower()}.{word} ") in f"\n{done.stdout}"
    assert feature == "Agent"


@pytest.mark.parametrize("env_id", re.findall(r"`(\S+)`", S3_ENVIRONMENTS))
def test_s3_environments_are_there(env_id):
    spec = RLExperimentSpec.from_data({"name": "x", "env": {"class": env_id}})
    assert spec.env.kwargs["id"] == env_id
    found = resolve(env_id)
    assert found.spec.name == env_id.rpartition("-")[0]
    assert (found.notice is None) is (env_id != "LunarLander-v2")


def _declared(text):
    """Options of a Nix text by key, with what stands behind `=`."""
    feature = ""
    for line in text.split("\n"):
        opened = re.search(r"options\.rl\.(\w+) = ", line)
        feature = opened[1] if opened else feature
        option = re.match(r"\s+(\w+) = (.+?);(?:\s*#.*| \};.*)?$", line)
        if option and not opened:
            yield f"{feature}.{option[1]}", option[2]


@pytest.mark.parametrize(("key", "what"), [*_declared(S4_OPTIONS), *_declared(S4_STORE_AND_OBS)])
def test_s4_options_have_these_types_and_defaults(key, what):
    option = BY_KEY[key]
    for choice in re.findall(r'"(\w+)"', what.partition("enum")[2].partition("]")[0]):
        option.type.read(choice)
    if "bool" in what:
        option.type.read(True)
    if "nullOr" in what:
        assert option.type.read("null") is None
    default = re.search(r"default = (.+)", what)
    if default:
        expected = json.loads(default[1].rstrip("; }"))
        read = None if expected is None else option.type.read(expected)
        assert read == option.default or (key, expected) == ("registry.dbPath", "./rl_registry.db")


def test_s4_the_bindings_export_what_we_read(settings):
    values = {
        "${cfg.endpoint}": "http://collector:4318",
        "${cfg.protocol}": "http",
        "${toString cfg.exportInterval}": "7",
        "${cfg.dbPath}": "./reg.db",
        "${toString cfg.minReward}": "195.0",
        "${toString cfg.minEpisodes}": "3",
    }
    environ = {
        name: values.get(value, value) for name, value in re.findall(r'export (\w+)="(.+)"$', S4_BINDINGS, re.MULTILINE)
    }
    assert len(environ) == 7
    loaded = load_settings({}, environ)
    assert (loaded.metrics.endpoint, loaded.metrics.export_interval) == ("http://collector:4318", 7)
    assert (loaded.registry.min_reward, loaded.registry.min_episodes) == (195.0, 3)
    assert loaded.registry.db_path == Path("reg.db")
    assert loaded.metrics.exporter == "otlp"


#: Packages of Nix that are one of ours by another name, or that nothing here needs (in `LATER`).
_PACKAGES = {"sqlite", "opentelemetry-exporter-otlp", "opentelemetry-instrumentation"}


@pytest.mark.parametrize(
    "name", [name for name in re.findall(r"Packages\.(\S+)", S4_PACKAGES) if name not in _PACKAGES]
)
def test_s4_packages_are_installed(name):
    assert distribution(name).version


def test_s4_what_it_asks_for_beside_is_there(settings):
    columns, granularity = re.findall(r"Add `(\w+)`", S4_EXTENSIONS), re.search(r"`(\S+) = enum (.+)`", S4_EXTENSIONS)
    with ModelRegistry.open(settings) as registry, read(registry.engine) as connection:
        known = [row[1] for row in connection.exec_driver_sql("PRAGMA table_info(models)")]
    assert columns == ["tags", "parent_model_id", "deployment_status"]
    assert set(columns) <= set(known)
    for choice in re.findall(r"\w+", granularity[2]):
        assert BY_KEY[granularity[1]].type.read(choice) == choice


# -- what belongs to later work ----------------------------------------------------------------------------------------


@cache
def _words():
    """The whole source."""
    return "\n".join(path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.py"))


def _defined():
    """Every class and function of the package by name."""
    return set(re.findall(r"^ *(?:class|def|async def) (\w+)", _words(), re.MULTILINE))


def _command(*words):
    command, context = rl, click.Context(rl)
    for word in words:
        command = command.get_command(context, word) if isinstance(command, click.Group) else None
    return command is not None


def _module(name):
    return (PACKAGE / name).exists() or (PACKAGE / f"{name}.py").exists()


#: By the document and its very words: why it is not here, and what would show that it is.
LATER = {
    "S0 /rl/runs/{id}/equity": ("a web service", lambda: _module("api")),
    "S0 /trajectories": ("a web service", lambda: _module("api")),
    "S0 /reward-decomposition": ("a web service", lambda: _module("api")),
    "S0 /actions": ("a web service", lambda: _module("api")),
    "S0 /rl/components": ("a web service", lambda: _module("api")),
    "S1 POST /rl/runs": ("a web service", lambda: _module("api")),
    "S1 /episodes": ("a web service", lambda: _module("api")),
    "S1 curl -N http://localhost:8000/chat/stream/<task_id>": ("a web service", lambda: _module("api")),
    "S1 curl -X POST http://localhost:8000/mcp/data/tools/data.rl.describe/invoke": ("MCP", lambda: _module("mcp")),
    'S1 -H "Content-Type: application/json"': ("MCP", lambda: _module("mcp")),
    """S1 -d '{"rl_run_id": "<from-step-1>"}'""": ("MCP", lambda: _module("mcp")),
    "S1 data.rl.list": ("MCP", lambda: _module("mcp")),
    "S1 data.iceberg.read_snapshot": ("MCP", lambda: _module("mcp")),
    'S1 -H "Authorization: Bearer $(alphaswarm-cli auth token)"': ("a web service", lambda: _command("auth", "token")),
    "S1 RLRuntime.paper": ("paper trading", lambda: hasattr(RLRuntime, "paper")),
    "S1 RLRuntime.walk_forward": ("ensemblers", lambda: hasattr(RLRuntime, "walk_forward")),
    "S1 alphaswarm_rl/api/routes/rl.py": ("a web service", lambda: _module("api")),
    "S1 alphaswarm_rl/tasks/rl_tasks.py": ("Celery", lambda: _module("jobs") or _module("tasks")),
    "S1 alphaswarm_rl/src/alphaswarm_rl/ensemblers/": ("ensemblers", lambda: _module("ensemblers")),
    "S1 alphaswarm_rl/src/alphaswarm_rl/experiments/": ("experiments", lambda: _module("experiments")),
    "S1 alphaswarm_rl/src/alphaswarm_rl/applications/": ("applications", lambda: _module("applications")),
    "S1 alphaswarm_rl/src/alphaswarm_rl/trajectories/": ("here it is lake/", lambda: _module("trajectories")),
    "S1 alphaswarm_rl/src/alphaswarm_rl/bridges/": ("engines", lambda: _module("bridges")),
    "S1 alphaswarm_rl.analytical": ("pure formulas", lambda: _module("analytical")),
    "S1 alphaswarm_client/src/routes/rl/": ("the UI", lambda: (ROOT / "alphaswarm_client").exists()),
    "S1 KillSwitch": ("the UI's top bar; the switch itself is rl halt", lambda: (ROOT / "ui").exists()),
    "S1 Ray": ("Ray", lambda: _module("executors")),
    "S1 alphaswarm_rl.envs.finrl_*": (
        "here they are fields and presets of our environments",
        lambda: any((PACKAGE / "envs").glob("finrl_*")),
    ),
    "S1 alphaswarm_models.models": ("the networks are here", lambda: find_spec("alphaswarm_models") is not None),
    "S1 slice_and_merge_regime_flow": ("regimes", lambda: "slice_and_merge" in _words()),
    "S1 csdi_imputed": ("imputed datasets", lambda: "csdi" in _words()),
    "S1 configs/agents/finagent/": ("language models", lambda: _module("configs/agents/finagent")),
    "S1 alphaswarm/agents/tools/finagent/": ("language models", lambda: find_spec("alphaswarm") is not None),
    "S2 truncates_episode=True": (
        "these three terminate, by failure, and have `improper`",
        lambda: "truncates_episode" in _words(),
    ),
    "S2 alpha_factors / backtest_summaries / rl_trajectory_summaries": (
        "texts to be searched",
        lambda: any(name in _words() for name in ("alpha_factors", "backtest_summaries", "trajectory_summaries")),
    ),
    "S2 data.alphas.*": ("MCP", lambda: _module("mcp")),
    "S2 data.backtests.*": ("MCP", lambda: _module("mcp")),
    "S2 data.brokers.*": ("MCP", lambda: _module("mcp")),
    "S3 python3Packages.opentelemetry-instrumentation": (
        "spans and logs are made by hand, nothing is instrumented",
        lambda: "opentelemetry-instrumentation" in (ROOT / "pyproject.toml").read_text(encoding="utf-8"),
    ),
    "S3 perSystem.devShells.rl": ("deployment by Nix", lambda: any(ROOT.glob("flake.nix"))),
    "S4 python3Packages.opentelemetry-exporter-otlp": (
        "the two packages that it consists of are installed",
        lambda: re.search(r"exporter-otlp[^-]", (ROOT / "pyproject.toml").read_text(encoding="utf-8")) is not None,
    ),
    "S4 ${pkgs.sqlite}/bin/sqlite3": (
        "deployment by Nix; the registry makes its own tables",
        lambda: any(ROOT.glob("*.nix")),
    ),
}
#: Files of the import package `alphaswarm`, which is not made: `alphaswarm.rl` is `alphaswarm_rl`.
LATER_FILES = """
S0 alphaswarm/rl/trajectories/iceberg_writer.py alphaswarm/rl/trajectories/duckdb_views.py
S0 alphaswarm/persistence/models_rl.py
S2 alphaswarm/rl/portfolio/pipeline.py alphaswarm/rl/envs/rl_backtest_env.py alphaswarm/rl/bridges/agent_bridge.py
S2 alphaswarm/rl/advantage/reinforce_plus_plus.py alphaswarm/rl/advantage/grpo.py alphaswarm/rl/terminations/
S2 alphaswarm/rl/rewards/stop_properly.py alphaswarm/rl/execution/weight_to_orders.py alphaswarm/data/mcp/tools/
S2 alphaswarm/streaming/feature_store/redis_store.py alphaswarm/streaming/ingesters/alphavantage.py
S2 alphaswarm/rl/data_pipelines/medallion_replay.py alphaswarm/rag/orders.py alphaswarm/bots/rl_trading_bot.py
"""
#: Pages of theirs that wait with what they are about; the others are in `S1_PAGES`.
LATER_PAGES = """
rl-lab rl-market-dynamics rl-prudex-evaluation rl-finagent weight-centric-pipeline agentic-rl
tutorials/first-agent-workflow reference/api reference/python/alphaswarm_rl
architecture/decisions/010-rl-production-enhancement
"""
#: Classes and functions that are nowhere yet.
LATER_NAMES = """
S1 analysis: almgren_chriss avellaneda_stoikov cartea_jaimungal
S1 PRUDEX: PrudexMetrics PrudexReport compute_prudex_metrics
S1 language models: LLMHybridAgent router_complete AgentSpec
S1 workflows: WorkflowRuntime
S1 ensemblers: WalkForwardEnsembler DRLAgent DRLEnsembleAgent
S1 regimes: RegimeAwareObservation RegimeStratifiedEvaluation
S2 streaming: RedisFeatureStore IFeatureStore AlphaVantageIngester
S2 tools: DataMCPTool
S2 bots: RLTradingBot
"""
#: Components that are nowhere yet, by kind.
LATER_COMPONENTS = """
reward dp_distillation
env tradesim_execution tradesim_hft finagent_trading almgren_chriss_residual avellaneda_stoikov_residual
agent eiie deeptrader investor_imitator eteo opd deepscalper hft_ddqn finagent_layered
policy_backbone eiie_conv sagcn market_scorer hft_qnet eteo_dual_head pd_dual_rnn sarl_lstm
observation regime_aware
experiment regime_stratified validation_suite prudex_compass
"""


@pytest.mark.parametrize("words", LATER)
def test_what_waits_does_not_work_unnoticed(words):
    reason, works = LATER[words]
    assert not works(), f"{words}: it waited for {reason}, and is here now: test it above"


@pytest.mark.parametrize("path", re.findall(r"alphaswarm/\S+", LATER_FILES))
def test_files_that_are_not_made_are_not_there_unnoticed(path):
    assert find_spec(path.partition("/")[0]) is None
    assert not (PACKAGE.parent / path).exists()


@pytest.mark.parametrize("page", LATER_PAGES.split())
def test_pages_that_wait_are_not_there_unnoticed(page):
    assert not (ROOT / "docs" / f"{page}.md").exists()


def test_names_that_wait_are_not_defined_unnoticed():
    waiting = {name for line in LATER_NAMES.split("\n")[1:-1] for name in line.partition(": ")[2].split()}
    assert len(waiting) == 20
    assert waiting & _defined() == set(), "these are here now: test them above"


@pytest.mark.parametrize(
    ("kind", "name"),
    [(line.split()[0], name) for line in LATER_COMPONENTS.split("\n")[1:-1] for name in line.split()[1:]],
)
def test_components_that_wait_are_not_registered_unnoticed(kind, name):
    with pytest.raises(UnknownComponent):
        catalogue.get(kind, name)
