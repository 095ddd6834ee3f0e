"""`rl doctor`."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from uuid import uuid4

from alphaswarm_rl.operations import doctor


def states(answer):
    return {finding["name"]: finding["state"] for finding in answer.json["findings"]}


def test_healthy(rl, home):
    answer = rl("doctor", "--json")
    assert answer.code == 0, answer.out
    assert answer.json["healthy"] is True
    found = states(answer)
    for name in (
        "python",
        "alphaswarm-rl",
        "torch",
        "gymnasium",
        "device",
        "home",
        "free space",
        "database",
        "components",
    ):
        assert found[name] == "ok"
    assert found["the ensemblers"] == "waits"
    assert not home.exists()
    text = rl("doctor").out
    assert text.endswith("healthy\n")
    assert "ensembler" in text


def test_many_entry_points_are_counted_and_named_in_json(rl):
    (found,) = [each for each in rl("doctor", "--json").json["findings"] if each["name"].endswith("of alphaswarm-rl")]
    modules = found["data"]["modules"]
    assert "alphaswarm_rl.rewards.pnl" in modules
    assert found["text"] == f"{len(modules)} modules"


def test_disk_use(rl, trained):
    findings = {finding["name"]: finding for finding in rl("doctor", "--json").json["findings"]}
    for part in ("disk: checkpoints", "disk: event logs", "disk: ledger file"):
        assert findings[part]["data"]["bytes"] > 0


def test_a_broken_database(rl, home):
    home.mkdir()
    (home / "ledger.db").write_text("this is no database, and long enough to be seen as none" * 20)
    answer = rl("doctor", "--json")
    assert answer.code == 1
    assert answer.json["healthy"] is False
    assert states(answer)["database"] == "broken"
    assert states(answer)["components"] == "ok"


def test_broken_settings(rl, monkeypatch):
    monkeypatch.setenv("RL_LOGS_LEVEL", "loud")
    answer = rl("doctor", "--json")
    assert answer.code == 1
    assert states(answer)["settings"] == "broken"


def test_a_home_that_cannot_be_written(rl):
    answer = rl("doctor", "--home", "/proc/nowhere", "--json")
    assert answer.code == 1
    assert states(answer)["home"] == "broken"


def test_a_plugin_is_named(rl):
    assert "plug-ins" in states(rl("doctor", "--plugin", "json", "--json"))


def test_a_missing_extra_shows_how_to_get_it(rl, monkeypatch):
    monkeypatch.setattr(doctor, "extras", lambda: {"postgres": ["psycopg"]})
    answer = rl("doctor")
    assert answer.code == 0
    assert "pip install 'alphaswarm-rl[postgres]'" in answer.out


def test_extras_come_from_the_metadata(monkeypatch):
    assert set(doctor.extras()) == {
        "alpaca",
        "anytrading",
        "backtest",
        "box2d",
        "eval",
        "mlflow",
        "mujoco",
        "otel",
        "postgres",
        "render",
        "tensorboard",
        "tune",
        "wandb",
        "yahoo",
    }
    monkeypatch.setattr(
        doctor, "requires", lambda _: ["no-such-distribution>=1; extra == 'x'", "click>=8", 'click; extra == "y"']
    )
    assert doctor.extras() == {"x": ["no-such-distribution"], "y": []}


def test_no_compiler(rl, monkeypatch):
    real = shutil.which
    monkeypatch.setattr(shutil, "which", lambda name, *rest: None if name in doctor._COMPILERS else real(name, *rest))
    assert states(rl("doctor", "--json"))["compiler"] == "missing"


def broken(answer):
    assert answer.code == 1, answer.out
    return {finding["name"]: finding for finding in answer.json["findings"] if finding["state"] == "broken"}


def test_a_checkpoint_that_was_cut_short_is_named(rl, trained):
    arrays = Path(trained["checkpoint"]) / "state.safetensors"
    whole = arrays.stat().st_size
    os.truncate(arrays, whole - 1)
    found = broken(rl("doctor", "--json"))
    assert list(found) == ["checkpoints"]
    why = f"state.safetensors has {whole - 1} bytes, and should have {whole}"
    assert found["checkpoints"]["data"]["damaged"] == {trained["checkpoint"]: why}
    assert why in found["checkpoints"]["text"]


def test_files_of_runs_that_the_ledger_does_not_know_are_named(rl, trained, home):
    lost, other = str(uuid4()), str(uuid4())
    (home / "models" / lost / "000000000001").mkdir(parents=True)
    (home / "logs" / f"{lost}.jsonl").write_text("")
    (home / "logs" / f"{other}.jsonl").write_text("")
    (home / "models" / "thesis").mkdir()
    assert rl("runs", "rm", trained["run_id"], "--yes").code == 0
    found = broken(rl("doctor", "--json"))
    assert list(found) == ["files of runs"]
    assert set(found["files of runs"]["data"]["runs"]) == {lost, other}
    assert "rl db rebuild" in found["files of runs"]["text"]


def test_a_home_that_was_copied_or_moved_is_named(rl, trained, home, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(home, copy)
    found = broken(rl("doctor", "--home", copy, "--json"))
    assert set(found) == {"home", "lake"}
    assert trained["checkpoint"] in found["home"]["text"]
    assert str(home / "lake") in found["lake"]["text"]
    assert rl("doctor").code == 0
    home.rename(tmp_path / "moved")
    found = broken(rl("doctor", "--home", tmp_path / "moved", "--json"))
    assert set(found) == {"home", "lake"}
    assert str(home / "lake") in found["lake"]["text"]
    assert "put it back" in found["lake"]["text"]


def test_slow_libraries_are_not_loaded_and_the_lake_is_counted(trained, home):
    """Loading torch alone would take half of the two seconds in which it answers, Iceberg's library a third of them."""
    script = "import sys; from click.testing import CliRunner; from alphaswarm_rl.cli import rl\n"
    script += "answer = CliRunner().invoke(rl, ['doctor', '--json'])\n"
    script += "print(answer.stdout); sys.exit(bool({'torch', 'numba', 'pandas', 'pyiceberg'} & {*sys.modules}))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    found = {finding["name"]: finding["data"] for finding in json.loads(done.stdout)["findings"]}["lake"]
    assert found["rows"] > 0
    assert found["files"] == len(list((home / "lake" / "warehouse").rglob("*.parquet")))
    assert found["segments"] == 0
