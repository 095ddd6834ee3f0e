"""Runs another commit and this working tree side by side and says where they differ.

Every preset is trained in both, small, in fresh homes: hashes, data fingerprints, run rows, evaluations, every recorded
row, `state.safetensors` byte for byte, `checkpoint.json` in all fields that both have, and the JSON of a list of
commands must be equal, but for what names a place, a moment or the code itself. Then the other commit's home is
upgraded and used by this one: listed, resumed, replayed, asked.

    python scripts/compare_commits.py 046972f
    python scripts/compare_commits.py 046972f --only my_first_rl --keep
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
import venv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
STEPS = 4096

#: Fields that name a place, a moment, a process or the code: two runs of one commit differ in them too.
FREE = re.compile(
    r"(^|\.)(id|run_id|parent_run_id|model_id|version_id|spec_id|ids?|path|model_path|checkpoint|best_checkpoint|home|folder"
    r"|module_path|code_fingerprint|component_modules|checkpoint_sha256|sha256|schema_version|host|pid|process_start"
    r"|fps|steps_per_second|seconds|started|ended|took|file|uri|url|bytes|size|trace_id|children|snapshot_id|git_commit|timestamp)(\.|$)"
    r"|_at$|_s$|_seconds$|(^|\.)policy(\.|$)|^options\..*\.description$"
)
#: Texts that differ from run to run wherever they stand.
TEXTS = [
    (re.compile(r"\b[0-9a-f]{32}\b|\b[0-9a-f]{8}-[0-9a-f-]{27}\b"), "ID"),
    (re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d[.\d]*(Z|\+00:00)?"), "TIME"),
    (re.compile(r"(/[\w.+-]+){2,}"), "PATH"),
]
COMMANDS = (
    "runs list",
    "runs show latest",
    "runs equity latest",
    "runs rewards latest",
    "runs actions latest",
    "models list",
    "specs list",
    "components list",
    "options",
    "lake status",
    "lake verify",
)
TABLES = ("trajectories", "equity_curves", "action_logs", "reward_decomposition")


@dataclass(frozen=True)
class Side:
    """One commit: its interpreter and the home it writes to."""

    name: str
    python: Path
    home: Path

    def rl(self, *words: str, check: bool = True, given: str | None = None) -> str:
        """Runs a command of that commit and gives its standard output."""
        environment = {**os.environ, "ALPHASWARM_RL_HOME": str(self.home), "PYTHONHASHSEED": "0"}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed package has its bytecode
        done = subprocess.run(
            [str(self.python), "-m", "alphaswarm_rl.cli", *words],
            capture_output=True,
            text=True,
            env=environment,
            input=given,
            check=False,
        )
        if check and done.returncode:
            raise SystemExit(f"{self.name}: rl {' '.join(words)} ended with {done.returncode}:\n{done.stderr}")
        return done.stdout if not done.returncode else f"exit {done.returncode}\n{done.stdout}{done.stderr}"


def install(source: Path, folder: Path) -> Path:
    """An interpreter that finds this environment's packages and the package in `source`."""
    venv.create(folder, with_pip=False)
    site = next((folder / "lib").glob("python*/site-packages"))
    (site / "borrowed.pth").write_text("\n".join(path for path in sys.path if path.endswith("site-packages")))
    (site / "aaa_source.pth").write_text(str(source / "src"))
    project = tomllib.loads((source / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    metadata = site / f"alphaswarm_rl-{project['version']}.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: alphaswarm-rl\nVersion: {project['version']}\n")
    groups = {"console_scripts": project["scripts"], **project["entry-points"]}
    lines = [f"[{group}]\n" + "".join(f"{k} = {v}\n" for k, v in entries.items()) for group, entries in groups.items()]
    (metadata / "entry_points.txt").write_text("\n".join(lines))
    return folder / "bin" / "python"


def experiments(folder: Path) -> dict[str, Path | str]:
    """Every preset of an experiment, and a spec for every other preset and native agent, by name."""
    found: dict[str, Path | str] = {}
    configs = ROOT / "src" / "alphaswarm_rl" / "configs"
    for path in sorted((configs / "experiments").glob("*.yaml")):
        found[path.stem] = path.stem
    dated = {"start": "2020-01-01", "end": "2023-01-01"}
    base = {
        "data_pipeline": {"preset": "gbm_daily"},
        "env": {"class": "stock_portfolio"},
        "agent": {"class": "ppo_inhouse"},
        "training": {"n_envs": 4, **dated},
        "evaluation": {"start": "2023-01-01", "end": "2024-01-01"},
    }
    slots = {"envs": "env", "rewards": "reward", "observations": "observation", "terminations": "terminations"}
    slots |= {"actions": "action", "agents": "agent"}
    for kind, slot in slots.items():
        for path in sorted((configs / kind).glob("*.yaml")):
            part = {"preset": path.stem}
            spec = {**base, slot: [part] if slot == "terminations" else part}
            if path.stem == "cartpole":
                spec = {"env": part, "agent": base["agent"], "training": {"n_envs": 4}}
            found[f"{kind}-{path.stem}"] = _written(folder, f"{kind}-{path.stem}", spec)
    for agent in ("a2c_inhouse", "ddqn_inhouse", "equal_weight", "recurrent_ppo"):
        env = {"class": "cartpole"} if agent == "ddqn_inhouse" else base["env"]
        spec = {**base, "env": env, "agent": {"class": agent}}
        if agent == "equal_weight":
            spec["agent"] = {"class": "policy", "kwargs": {"policy": {"class": agent}}}
        if agent == "ddqn_inhouse":
            spec = {"env": env, "agent": {"class": agent}, "training": {"n_envs": 4}}
        found[f"agent-{agent}"] = _written(folder, f"agent-{agent}", spec)
    return found


def _written(folder: Path, name: str, spec: dict[str, object]) -> Path:
    path = folder / f"{name}.yaml"
    path.write_text(json.dumps({"name": name, **spec}))
    return path


def differences(left: object, right: object, path: str = "") -> Iterator[str]:
    """Where two JSON documents differ, but for what may; what only the right one has was added since."""
    if FREE.search(path):
        return
    if isinstance(left, dict) and isinstance(right, dict):
        for key in sorted(left):
            yield from differences(left[key], right.get(key), f"{path}.{key}".lstrip("."))
    elif _by_key(left) and _by_key(right):
        yield from differences(_by_key(left), _by_key(right), path)
    elif isinstance(left, list) and isinstance(right, list) and len(left) == len(right):
        for index, pair in enumerate(zip(left, right, strict=True)):
            yield from differences(*pair, f"{path}.{index}")
    elif _plain(left) != _plain(right):
        yield f"{path}: {left!r} != {right!r}"


def _by_key(value: object) -> dict[str, object]:
    """A list of things that have a key of their own, such as options, by that key."""
    keyed = isinstance(value, list) and all(isinstance(item, dict) and "key" in item for item in value)
    return {item["key"]: item for item in value} if keyed else {}


def _plain(value: object) -> object:
    if isinstance(value, str):
        for pattern, text in TEXTS:
            value = pattern.sub(text, value)
    return value


def compare_experiment(name: str, spec: Path | str, sides: tuple[Side, Side]) -> list[str]:
    """Trains in both and compares everything that was left behind."""
    found: list[str] = []
    words = ("train", str(spec), "--total-timesteps", str(STEPS), "--seed", "3", "--json")
    answers = [json.loads(side.rl(*words)) for side in sides]
    found += differences(*answers)
    runs = [answer["run_id"] for answer in answers]
    hashes = [json.loads(side.rl("spec", "hash", str(spec), "--json")) for side in sides]
    found += differences(*hashes, "spec hash")
    folders = [side.home / "models" / run for side, run in zip(sides, runs, strict=True)]
    kept = [sorted(path.relative_to(folder) for path in folder.glob("*/*")) for folder in folders]
    if kept[0] != kept[1]:
        found.append(f"checkpoints: {kept[0]} != {kept[1]}")
    for path in set(kept[0]) & set(kept[1]):
        files = [folder / path for folder in folders]
        if path.name == "checkpoint.json":
            found += differences(*(json.loads(file.read_text()) for file in files), str(path))
        elif path.suffix == ".safetensors" and files[0].read_bytes() != files[1].read_bytes():
            found.append(f"{path}: the bytes differ")
    for table in TABLES:
        statement = f"SELECT * EXCLUDE (run_id) FROM rl_{table} WHERE run_id = '{{}}' ORDER BY ALL"
        rows = [side.rl("sql", statement.format(run), "--json") for side, run in zip(sides, runs, strict=True)]
        if _plain(rows[0]) != _plain(rows[1]):
            found.append(f"rows of {table} differ")
    for verb in ("evaluate", "replay"):
        judged = [json.loads(side.rl(verb, run, "--json")) for side, run in zip(sides, runs, strict=True)]
        found += differences(*judged, verb)
    for command in COMMANDS:
        documents = [side.rl(*command.split(), "--json", check=False) for side in sides]
        found += differences(*map(_document, documents), command)
    return [f"{name}: {line}" for line in found]


def _document(text: str) -> object:
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return text


def use_the_others_home(old: Side, new: Side) -> list[str]:
    """Upgrades a home that the other commit wrote, and lists, resumes, replays and asks with this one."""
    words = ("train", "my_first_rl", "--total-timesteps", str(4 * STEPS), "--checkpoint-freq", str(STEPS), "--json")
    with subprocess.Popen(
        [str(old.python), "-m", "alphaswarm_rl.cli", *words],
        env={**os.environ, "ALPHASWARM_RL_HOME": str(old.home)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as training:
        while training.poll() is None and not list((old.home / "models").glob(f"*/{STEPS}/checkpoint.json")):
            pass
        training.kill()
    upgraded = Side("upgraded", new.python, old.home)
    upgraded.rl("db", "upgrade")
    runs = json.loads(upgraded.rl("runs", "list", "--json"))
    upgraded.rl("resume", "latest", "--json")
    upgraded.rl("replay", "latest", "--json")
    answers = upgraded.rl("infer", "--episodes", "1", check=False)
    listed = json.loads(upgraded.rl("models", "list", "--json"))
    return [] if runs and listed and answers else ["upgrade: the other commit's home is not whole"]


def main() -> int:
    """Compares and says what differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("commit")
    parser.add_argument("--only", action="append", default=[], help="Names of experiments; default all.")
    parser.add_argument("--keep", action="store_true", help="Keep homes and worktree.")
    arguments = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="compare-"))
    source = folder / "source"
    git = shutil.which("git") or "git"
    subprocess.run([git, "-C", str(ROOT), "worktree", "add", "--detach", str(source), arguments.commit], check=True)
    try:
        sides = (
            Side("other", install(source, folder / "venv-other"), folder / "home-other"),
            Side("this", install(ROOT, folder / "venv-this"), folder / "home-this"),
        )
        found: list[str] = []
        for name, spec in experiments(folder).items():
            if not arguments.only or name in arguments.only:
                lines = compare_experiment(name, spec, sides)
                sys.stdout.write(f"{name}: {'equal' if not lines else f'{len(lines)} differences'}\n")
                sys.stdout.write("".join(f"  {line}\n" for line in lines[:40]))
                sys.stdout.flush()
                found += lines
        if not arguments.only or "upgrade" in arguments.only:
            lines = use_the_others_home(*sides)
            sys.stdout.write(f"upgrade: {lines or 'listed, resumed, replayed, asked'}\n")
            found += lines
    finally:
        if not arguments.keep:
            subprocess.run([git, "-C", str(ROOT), "worktree", "remove", "--force", str(source)], check=True)
            shutil.rmtree(folder)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
