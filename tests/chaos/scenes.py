"""What the chaos tests share: small runs, and what must hold of a run at its end whatever happened on the way."""

from pathlib import Path

from alphaswarm_rl.inference.checkpoints import CheckpointStore
from alphaswarm_rl.lake.catalog import Lake
from alphaswarm_rl.ledger import Ledger
from alphaswarm_rl.models.registry import ModelRegistry
from alphaswarm_rl.options.settings import load_settings
from tests.lake.killing import SMALL, TRADING, rl, rows_of

#: So that a process that stands still counts as dead soon.
IMPATIENT = (*SMALL, "--heartbeat-seconds", 0.1, "--silence-seconds", 0.4)
SILENCE_S = 0.5

CARTPOLE = """\
name: chaos cartpole
env: {class: cartpole}
agent: {class: ppo_inhouse, kwargs: {n_steps: 32, batch_size: 64, n_epochs: 1, net_arch: [8]}}
training: {total_timesteps: 2200, n_envs: 4, seed: 3, eval_during_training: true, eval_freq: 700}
evaluation: {episodes: 6}
"""
#: Each checkpoint is judged on a validation window.
JUDGED = """\
name: chaos judged
env: {class: stock_trading, kwargs: {fill: next_close}}
data_pipeline: {class: synthetic, kwargs: {n_assets: 2, n_bars: 300, features: [macd], seed: 1}}
agent: {class: ppo_inhouse, kwargs: {n_steps: 32, batch_size: 64, n_epochs: 1, net_arch: [8]}}
training:
  {total_timesteps: 1100, n_envs: 4, seed: 3, end: "2020-06-01",
   validation_start: "2020-06-01", validation_end: "2020-08-03"}
evaluation: {start: "2020-08-03", end: "2020-11-02", episodes: 1}
"""
SPECS = {
    "cartpole": CARTPOLE,
    "judged": JUDGED,
    "trading": TRADING,
    "parquet": f"{CARTPOLE}trajectory_store: {{class: parquet}}\n",
}


def written(folder, name):
    """The file of one of the specs."""
    path = folder / f"{name}.yaml"
    path.write_text(SPECS[name])
    return path


def the_run(home, environ=None):
    """The one run of a home."""
    with Ledger.open(settings_of(home, environ)) as ledger:
        (run,) = ledger.runs(limit=None)
    return run


def settings_of(home, environ=None):
    """The settings of a home."""
    return load_settings({}, {"ALPHASWARM_RL_HOME": str(home), **(environ or {})})


def state_of(home, environ=None, run=None):
    """What a whole run leaves: its rows by table, the checksum of its last checkpoint, its best model and others."""
    run = run or the_run(home, environ)
    settings = settings_of(home, environ)
    with Lake(settings) as lake:
        rows = {kind: table.drop_columns("spec_hash") for kind, table in rows_of(lake, run.id).items()}
    return rows, run.checkpoint_sha256, models_of(settings, run)


def models_of(settings, run):
    """A run's best model, the steps of the checkpoints that are kept, and what the registry has of it by step."""
    best = None if run.best_checkpoint is None else int(Path(run.best_checkpoint).name)
    with ModelRegistry.open(settings) as registry:
        known = [row for row in registry.list(archived=True) if row.run_id == run.id]
    # A step that was saved by two claims has two rows, and the earlier one is archived once its file is gone.
    registered = {(row.total_timesteps, row.sha256, row.mean_reward) for row in known if not row.archived}
    return {
        "best": (best, run.best_reward),
        "kept": list(CheckpointStore(settings.models_path).steps(run.id)),
        "registered": sorted(registered, key=lambda row: row[:2]),
    }


def registry_of(home, environ=None):
    """Every model, with its evaluations and validations."""
    with ModelRegistry.open(settings_of(home, environ)) as registry:
        return [(row, registry.evaluations(row.id), registry.validations(row.id)) for row in registry.list()]


def assert_same(found, expected):
    """The same rows in all tables, the same weights, and the same models."""
    for kind, rows in expected[0].items():
        assert found[0][kind].num_rows == rows.num_rows, kind
        assert found[0][kind].equals(rows), kind
    assert found[1:] == expected[1:]


def assert_well(home, environ=None):
    """Tables, files and ledger agree, and nothing is left over."""
    verified = rl("lake", "verify", "--json", home=home, environ=environ)
    assert verified.json == {"ok": True, "findings": []}, verified.out + verified.err
    run = the_run(home, environ)
    assert run.status == "completed"
    assert not (home / "lake" / "spool" / run.id).exists()
    assert all(row.archived or row.path.is_dir() for row, *_ in registry_of(home, environ))
    doctor = rl("doctor", "--json", home=home, environ=environ)
    assert doctor.code == 0, doctor.out
