"""Generated input for the command line: valid documents and command lines, damaged by chance.

A case is made by its kind and seed alone. One that is wrong by a rule which this file knows by itself (an unknown key,
a number outside of its documented limits, bytes that were changed under a checksum) says so, and must be refused; of
the others only an answer is asked for: no internal error, no traceback, no hang.
"""

import copy
import functools
import hashlib
import itertools
import json
import math
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import click
import yaml

from alphaswarm_rl.cli import rl as root
from alphaswarm_rl.core.presets import load_preset
from alphaswarm_rl.options.click_options import key_of
from alphaswarm_rl.options.table import OPTIONS
from alphaswarm_rl.settings import Settings
from alphaswarm_rl.spec import load_spec
from tests.cli.calling import Answer, call
from tests.market.panels import bars
from tests.options.samples import SAMPLES

GOLDEN = Path(__file__).parents[1] / "golden" / "checkpoints"
#: Seconds after which a command hangs.
PATIENCE = 120
#: Stands for an integer of 5,000 digits, which no library writes.
_MANY_DIGITS = "@5000@"


@dataclass(frozen=True)
class Case:
    """One command with its files.

    Attributes:
        kind: What is generated.
        seed: What it is generated from.
        arguments: What follows `rl`.
        wrong: Why it must be refused; None where it may be right.
        stdin: What it reads.
        environ: Its environment variables, beside those that are there.
    """

    kind: str
    seed: int
    arguments: tuple[str, ...]
    wrong: str | None = None
    stdin: str | None = None
    environ: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Outcome:
    """What came of a case: its answer, how long that took, and what is wrong with it."""

    case: Case
    answer: Answer
    seconds: float
    defect: str | None


def make(kind: str, seed: int, folder: Path) -> Case:
    """The case of that kind and seed; its files are written into the folder."""
    folder.mkdir(parents=True)
    return replace(_KINDS[kind](random.Random(f"{kind} {seed}"), folder), kind=kind, seed=seed)


def run(case: Case, folder: Path) -> Outcome:
    """Runs a case in this process."""
    with _inside(folder / "work"), _environment(case), _watched():
        begun = time.monotonic()
        try:
            answer = call(*case.arguments, stdin=case.stdin)
        except Hang:
            answer = Answer(-1, "", f"no answer within {PATIENCE} s")
        return Outcome(case, answer, time.monotonic() - begun, defect(case, answer))


def run_as_process(case: Case, folder: Path) -> Outcome:
    """Runs a case as a real command."""
    (folder / "work").mkdir(exist_ok=True)
    begun = time.monotonic()
    try:
        done = subprocess.run(
            [sys.executable, "-m", "alphaswarm_rl.cli", *case.arguments],
            input=case.stdin,
            capture_output=True,
            text=True,
            cwd=folder / "work",
            env={**os.environ, **dict(case.environ)},
            timeout=PATIENCE,
            check=False,
        )
        answer = Answer(done.returncode, done.stdout, done.stderr)
    except subprocess.TimeoutExpired:
        answer = Answer(-1, "", f"no answer within {PATIENCE} s")
    return Outcome(case, answer, time.monotonic() - begun, defect(case, answer))


def can_be_a_process(case: Case) -> bool:
    """Whether a system could pass its words on: none passes a NUL."""
    return not any("\0" in word for word in case.arguments)


def defect(case: Case, answer: Answer) -> str | None:
    """What is wrong with an answer; None where nothing is."""
    text = answer.out + answer.err
    if answer.code not in (0, 1, 2, 3):
        return f"it ended with {answer.code}"
    if "internal error" in text or "Traceback (most recent call last)" in text:
        return "internal error"
    if case.wrong is not None and answer.code == 0:
        return f"it went well, although {case.wrong}"
    if case.wrong is not None and not _has_a_reason(case, answer):
        return "it was refused without a reason"
    return None


def _has_a_reason(case: Case, answer: Answer) -> bool:
    if "--json" not in case.arguments:
        return "why: " in answer.err or any(word in answer.out for word in ("broken", '"why"'))
    try:
        documents = list(_documents(answer.out))
    except json.JSONDecodeError:
        return False
    return bool(documents) and '"why": "' in answer.out


def _documents(text: str) -> Iterator[object]:
    """Every JSON document of a text that is made of them."""
    decoder = json.JSONDecoder()
    while text := text.lstrip():
        document, end = decoder.raw_decode(text)
        text = text[end:]
        yield document


class Hang(BaseException):
    """A command that gives no answer."""


@contextmanager
def _watched() -> Iterator[None]:
    def interrupt(*_: object) -> None:
        raise Hang

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, PATIENCE)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@contextmanager
def _inside(folder: Path) -> Iterator[None]:
    folder.mkdir(exist_ok=True)
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


@contextmanager
def _environment(case: Case) -> Iterator[None]:
    before = dict(os.environ)
    os.environ.update(case.environ)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


# Damage to documents


def junk(rng: random.Random) -> object:
    """A value that hardly anybody means."""
    return copy.deepcopy(rng.choice(_JUNK))


def _nested(depth: int, inside: object = 1) -> object:
    for _ in range(depth):
        inside = [inside] if depth % 2 else {"a": inside}
    return inside


_JUNK = [
    None, True, False, 0, -1, 1, 7, 2**31, 2**63, -(2**64), 10**70, 10**100, 0.5, -0.0, 1e-320, 1e308, math.nan,
    math.inf, "", " ", "x", "-", "null", "1e5", "0x1F", "\0", "a\0b", "\x1b[31mred\x1b[0m", "\u202etxt", "\u00e9" * 200,
    "x" * 300, "line\nline", "../x", "x/../../y", "~nobody_at_all/x", "%s%n{0}", "'; DROP TABLE runs; --", "${HOME}",
    "\U0001f4a5", "2020-13-45", "9999-12-31T23:59:59+99:00", [], {}, [[]], [None], ["x", 1, None], {"": None},
    {"class": "x"}, {"class": 7}, {"preset": "../../x"}, {"spec": {"spec": {"spec": None}}},
    {"class": "random", "kwargs": []}, _nested(20), _nested(21), _nested(70), _nested(300), [1] * 300, _MANY_DIGITS,
]  # fmt: skip


def places(document: object) -> list[tuple[object, object]]:
    """Every container of a document with each of its keys or indices."""
    found: list[tuple[object, object]] = []
    waiting = [document]
    while waiting:
        value = waiting.pop()
        keys = list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
        for key in keys:
            found.append((value, key))
            waiting.append(value[key])
    return found


def damage(rng: random.Random, document: object) -> None:
    """Changes a document somewhere, in place."""
    for _ in range(rng.choice((1, 1, 1, 2))):
        found = places(document)
        if not found:
            return
        container, key = rng.choice(found)
        act = rng.randrange(5)
        if act == 0:
            del container[key]
        elif act == 1 and isinstance(container, dict):
            container[rng.choice(("x", "", "a\0b", "class", "seed", "\u00e4" * 90))] = junk(rng)
        elif act == 2:
            container[key] = copy.deepcopy(rng.choice(found)[0])
        else:
            container[key] = junk(rng)


def damage_bytes(rng: random.Random, content: bytes) -> bytes:
    """Changes bytes: cut, flipped, inserted, repeated or put elsewhere."""
    changed = bytearray(content)
    place, length = rng.randrange(len(changed) + 1), rng.choice((1, 2, 7, 100))
    act = rng.randrange(5)
    if act == 0:
        return bytes(changed[:place])
    if act == 1:
        for _ in range(rng.choice((1, 1, 4, 40))):
            changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    elif act == 2:
        changed[place:place] = rng.choice(
            (b"\0", b"\xff\xfe", b"\x80", b"{", b"]" * 99, b"&a ", b"*a", b"!!x ", b"\t", b"\r")
        )
    elif act == 3:
        changed[place:place] = changed[place : place + length] * rng.choice((1, 50))
    else:
        del changed[place : place + length]
    return bytes(changed)


_Dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


def as_yaml(document: object) -> str:
    """A document as YAML, with what plain writers cannot write."""
    text = yaml.dump(document, Dumper=_Dumper, allow_unicode=True, sort_keys=False)
    return text.replace(_MANY_DIGITS, "9" * 5000)


def as_json(document: object) -> str:
    """A document as JSON, with what plain writers cannot write."""
    return json.dumps(document).replace(f'"{_MANY_DIGITS}"', "9" * 5000)


#: Documents that are wrong whatever else they say.
_LETTERS = "abcdefghi"
_BOMBS = {
    "its anchors expand": "a: &a [x, x]\n"
    + "".join(f"{b}: &{b} [{', '.join([f'*{a}'] * 10)}]\n" for a, b in itertools.pairwise(_LETTERS)),
    "an anchor contains itself": "name: &a [*a]\n",
    "it is nested too deeply": "name: " + "[" * 5000 + "]" * 5000 + "\n",
    "it is nested too deeply in blocks": "".join(f"{' ' * depth}a:\n" for depth in range(900)),
    "it has a tag": "name: !!python/object/apply:os.system ['true']\n",
    "it holds a NUL": "name: a\0b\n",
    "a key is there twice": "name: a\nname: b\n",
    "it is far too large": "name: " + "x" * (2 << 20) + "\n",
    "it has an integer of 5,000 digits": f"name: {'9' * 5000}\n",
    "it is no mapping": "- a\n- b\n",
    "it is empty": "",
}


# Specs

_TINY = """\
name: tiny
env: {class: cartpole}
agent: {class: ppo, kwargs: {n_steps: 32, batch_size: 64, gamma: 0.9}}
training: {total_timesteps: 64, n_envs: 2, seed: 1}
evaluation: {episodes: 1}
obs: {normalize: running, clip_range: [-5, 5]}
"""
_PRESETS = ("cartpole_ppo", "stock_trading_ppo", "careful_weights_ppo", "algotrading_dqn", "crypto_trading_ppo")
#: What documents say of numbers (docs/spec.md, rl components show), and values outside of it.
_LIMITS = {
    ("training", "total_timesteps"): (0, -1, 1.5, "many", [1], True, math.nan),
    ("training", "n_envs"): (0, -4, 1_000_001, 0.5, {}, False),
    ("training", "seed"): (-1, 2**64, "x", 1.5),
    ("training", "stop_properly_penalty_coef"): (-0.1, 1.1, math.inf, "x"),
    ("training", "eval_during_training"): ("maybe", 7, []),
    ("training", "start"): ("yesterday", 20200101, "2020-13-45"),
    ("evaluation", "episodes"): (-1, 0.5, "all", [], True),
    ("evaluation", "deterministic"): ("maybe", 3, {}),
    ("obs", "normalize"): ("sometimes", 3, []),
    ("obs", "clip_range"): ([1, -1], [1], [1, 2, 3], "x", math.nan),
    ("obs", "stack_frames"): (0, -1, 0.5, "x"),
    ("agent", "kwargs", "gamma"): (-0.1, 1.1, "x", math.nan, True),
    ("agent", "kwargs", "learning_rate"): (-1, "x", []),
    ("agent", "kwargs", "batch_size"): (0, -1, 2.5, "x"),
    ("agent", "class"): ("no_such_agent", 7, None, ["ppo"]),
    ("env", "class"): ("no_such_env", 7, None, {}),
    ("name",): ("", 7, None, [], "x" * 241),
    ("slug",): ("A B", "x" * 81, 7),
    ("kind",): ("party", 7, []),
    ("terminations",): (7, "x", [7], [{"class": "no_such_end"}]),
    ("universe", "symbols"): ("AAPL", [7], ["A B"]),
    ("mlflow", "tags"): ([], {"a": 7}),
}


def _preset(name: str, *, whole: bool) -> dict:
    """A preset as it is written, or with every field."""
    return copy.deepcopy(_presets()[name][whole])


@functools.cache
def _presets() -> dict[str, tuple[dict, dict]]:
    return {name: (load_preset("experiments", name), load_spec(name).as_data()) for name in _PRESETS}


def _spec(rng: random.Random, folder: Path) -> Case:
    path, wrong = folder / "spec.yaml", None
    act = rng.randrange(10)
    document = yaml.safe_load(_TINY) if act in (3, 4, 5) else _preset(rng.choice(_PRESETS), whole=rng.random() < 0.1)
    if act == 0:
        wrong, text = rng.choice(list(_BOMBS.items()))
        path.write_text(text)
    elif act in (1, 2):
        content = damage_bytes(rng, as_yaml(document).encode())
        path.write_bytes(content)
        wrong = _no_text(content)
    else:
        if act == 3:
            section = rng.choice(("", "training", "evaluation", "obs", "env", "agent", "mlflow", "universe"))
            place = document.setdefault(section, {}) if section else document
            place[rng.choice(("gama", "x", "nevns", "\u00e9"))] = junk(rng)
            wrong = f"a key of {section or 'the spec'} is unknown"
        elif act in (4, 5):
            wrong = _beyond_limits(rng, document)
        else:
            damage(rng, document)
        path.write_text(as_yaml(document))
    verb = rng.choice(("validate", "validate", "hash", "show", "diff", "train" if wrong else "show"))
    words = ("train",) if verb == "train" else ("spec", verb)
    return Case("", 0, (*words, str(path), *(("cartpole_ppo",) if verb == "diff" else ()), *_face(rng)), wrong)


def _beyond_limits(rng: random.Random, document: dict) -> str:
    names = rng.choice(list(_LIMITS))
    value, holder = rng.choice(_LIMITS[names]), document
    for name in names[:-1]:
        holder = holder.setdefault(name, {})
    holder[names[-1]] = value
    return f"{'.'.join(names)} is {value!r:.40}"


def _no_text(content: bytes) -> str | None:
    try:
        return "it holds a NUL" if "\0" in content.decode() else None
    except UnicodeDecodeError:
        return "it is not UTF-8"


def _face(rng: random.Random) -> tuple[str, ...]:
    return rng.choice(((), ("--json",)))


# Settings

_OUT_OF_LIMITS = {
    ("store", "keep_last"): (0, -1, 1.5, "x", True, [1]),
    ("store", "backend"): ("floppy", 7, None),
    ("store", "checkpoint_freq"): (0, "often", None),
    ("store", "delivery_seconds"): (-1, math.nan, math.inf, "x"),
    ("registry", "min_episodes"): (0, -5, 0.5, "x"),
    ("registry", "keep_top_n"): (0, 1.5, []),
    ("gates", "max_dispersion"): (0, -1, math.nan),
    ("metrics", "export_interval"): (0, "x", None),
    ("metrics", "enable"): ("maybe", 7, []),
    ("traces", "sample_rate"): (-0.1, 1.1, math.nan, "x"),
    ("logs", "level"): ("loud", 3),
    ("infer", "device"): ("abacus", 7),
    ("infer", "threads"): (0, -1, 1.5),
    ("record", "train"): ("sample:0", "some", 7),
    ("record", "memory_mb"): (15, -1, "x"),
    ("trajectory", "table"): ("a b", "a;b", "", 7),
    ("lake", "commit_seconds"): (0, -1, math.inf),
    ("ledger", "heartbeat_seconds"): (0, 11, math.nan),
    ("ledger", "halt_poll_seconds"): (0, 6, "x"),
    ("data", "root"): ("a\0b", "x" * 300, 7, None, []),
    ("log_dir",): ("a\0b", "x" * 300, 7, {}),
}


def _settings(rng: random.Random, folder: Path) -> Case:
    path, wrong = folder / "settings.yaml", None
    document = Settings().model_dump(mode="json")
    del document["home"]
    act = rng.randrange(8)
    if act == 0:
        wrong, text = rng.choice([item for item in _BOMBS.items() if item[0] != "it is empty"])
        path.write_text(text)
    elif act == 1:
        content = damage_bytes(rng, as_yaml(document).encode())
        path.write_bytes(content)
        wrong = _no_text(content)
    else:
        if act == 2:
            section = rng.choice(("", "store", "registry", "metrics", "lake", "ledger", "infer"))
            (document[section] if section else document)[rng.choice(("x", "kep_last", "Home"))] = junk(rng)
            wrong = f"a key of {section or 'the settings'} is unknown"
        elif act in (3, 4, 5):
            names = rng.choice(list(_OUT_OF_LIMITS))
            value, holder = rng.choice(_OUT_OF_LIMITS[names]), document
            for name in names[:-1]:
                holder = holder[name]
            holder[names[-1]] = value
            wrong = f"{'.'.join(names)} is {value!r:.40}"
        else:
            damage(rng, {name: section for name, section in document.items() if isinstance(section, dict)})
        path.write_text(as_yaml(document))
    words = rng.choice(
        (("runs", "list"), ("db", "status"), ("models", "list"), ("store", "status"), ("lake", "status"))
    )
    return Case("", 0, (*words, "--settings", str(path), "--home", str(folder.parent / "home"), *_face(rng)), wrong)


# Command lines

#: Commands that would go on for long if nothing were wrong with what they are given.
_LONG = ("train", "tune", "bench", "audit", "resume")
_WORDS = (
    "", "-", "--", "x", "latest", "0", "-1", "1e400", "nan", "9" * 5000, "\0", "a\0b", "\x1b[2J", "\udcff", "\u202e",
    "x" * 300, "x" * 5000, "../x", "/dev/null", "/nonexistent/x", "cartpole_random", "deadbeef", "*", "[1,2", "{}",
    "null", "[" * 3000, "'", "select 1", "2020-01-01", "~nobody_at_all", "%x", "\u0665", "1_000", " 5 ",
)  # fmt: skip
_WRONG_NUMBERS = ("", "x", "1.5", "1e400", "nan", "0x10", "--", "[1]", "\0", "9" * 5000, "-" * 40)


@functools.cache
def _commands() -> dict[tuple[str, ...], click.Command]:
    """Every command by its words."""
    found: dict[tuple[str, ...], click.Command] = {}
    for name, entry in root.entries.items():
        command = entry.load()
        if isinstance(command, click.Group):
            found |= {(name, inner): each for inner, each in command.commands.items()}
        else:
            found[name,] = command
    return found


def _command_line(rng: random.Random, folder: Path) -> Case:
    commands = _commands()
    words = rng.choice(sorted(commands))
    command = commands[words]
    options = [param for param in command.params if isinstance(param, click.Option) and param.name not in _HARMFUL]
    given = [_word(rng) for param in command.params if isinstance(param, click.Argument) if rng.random() < 0.9]
    for option in rng.sample(options, min(len(options), rng.randrange(4))):
        name = rng.choice([*option.opts, *option.secondary_opts])
        given += [name] if option.is_flag or option.secondary_opts else [f"{name}={_value(rng, option)}"]
    wrong = None
    if words[0] in _LONG or rng.random() < 0.4:
        numbers = [option for option in options if isinstance(option.type, click.types.IntParamType | click.IntRange)]
        if numbers and rng.random() < 0.5:
            option, value = rng.choice(numbers), rng.choice(_WRONG_NUMBERS)
            given += [f"{option.opts[0]}={value}"]
            wrong = f"{option.opts[0]} is no number"
        elif rng.random() < 0.2:
            given += [f"--plugin={rng.choice(('../x', '', '.', 'a b', 'no_such_module_at_all', '/x', 'a/b'))}"]
            wrong = "there is no such plug-in"
        else:
            given += [rng.choice(("--no-such-option", "--gama=1", "-Z"))]
            wrong = "an option is unknown"
        # What follows "--" is no option.
        given = [word for word in given if word != "--"]
    arguments = (*words, *given, f"--home={folder.parent / 'home'}")
    environ = ()
    if rng.random() < 0.3:
        option = rng.choice([option for option in OPTIONS if option.key not in ("home.folder", "home.dbUrl")])
        text = rng.choice([word for word in (_sample(option.key), *_WORDS) if "\0" not in word])
        environ = ((rng.choice(option.env_names), text),)
    return Case("", 0, arguments, wrong, rng.choice(("", "[0,0,0,0]\n", "\0\n[[[\n")), environ)


def _word(rng: random.Random) -> str:
    return rng.choice(_WORDS if rng.random() < 0.6 else _PLAUSIBLE)


def _value(rng: random.Random, option: click.Option) -> str:
    key = key_of(str(option.name))
    if key is not None and rng.random() < 0.6:
        return _sample(key)
    return _word(rng)


def _sample(key: str) -> str:
    # Nothing is to be made outside of the folder of the test.
    return SAMPLES[key][0].lstrip("/")


_PLAUSIBLE = (
    "latest",
    "cartpole_random",
    "cartpole_ppo",
    "agent",
    "ppo",
    "1",
    "3",
    "2024-01-01",
    "bash",
    "select 1",
    "all",
    "json",
)


#: Options that would reach beyond the folder of the test, or wait for what never comes.
_HARMFUL = {"home__folder", "home__dbUrl", "out", "write", "follow", "watch", "help", "settings_file", "debug"}


# Checkpoints

_METRICS = {"mean_reward": 1.0, "std_reward": 1.0, "episodes": 5, "mean_episode_length": 9.0, "total_timesteps": 64}
_NEEDED = {
    "schema_version": ("2", None, [], 1.5, True),
    "timesteps": ("64", None, -1, 1.5, {}),
    "seed": ("0", None, -1, [], 1e99),
    "spec": ([], "cartpole_ppo", None, 7),
    "files": ([], None, {}, {"state.safetensors": 7}, {"state.safetensors": "0"}),
    "data": ([], None, "x", {"learner": []}, {"learner": 7}),
    "policy": ([], "x", 7, True),
}


def _checkpoint(rng: random.Random, folder: Path) -> Case:
    checkpoint = folder / "checkpoint"
    shutil.copytree(GOLDEN / rng.choice(("ppo-2", "dqn-2", "random-2", "ppo-1", "random-1")), checkpoint)
    manifest, tensors = checkpoint / "checkpoint.json", checkpoint / "state.safetensors"
    document, wrong = json.loads(manifest.read_text()), None
    act = rng.randrange(8)
    if act == 0:
        before = tensors.read_bytes()
        tensors.write_bytes(damage_bytes(rng, before))
        wrong = None if tensors.read_bytes() == before else "its tensors are not those that its manifest lists"
    elif act == 1:
        name = rng.choice(list(_NEEDED))
        value = rng.choice(_NEEDED[name])
        document[name] = value
        wrong = None if value is None and name == "policy" else f"{name} is {value!r}"
        if rng.random() < 0.3 and name != "policy":
            del document[name]
            wrong = f"{name} is missing"
        manifest.write_text(as_json(document))
    elif act == 2:
        path = rng.choice((manifest, tensors))
        wrong = f"{path.name} is no regular file of the folder"
        path.rename(folder / path.name)
        rng.choice(
            (
                os.mkfifo,
                Path.mkdir,
                lambda path: path.symlink_to(folder / path.name),
                lambda path: path.symlink_to("/dev/zero"),
            )
        )(path)
    elif act == 3:
        tensors.write_bytes(damage_bytes(rng, tensors.read_bytes()))
        _sign(document, manifest, tensors)
    elif act == 4:
        content = damage_bytes(rng, manifest.read_bytes())
        manifest.write_bytes(content)
        wrong = "it is not UTF-8" if _no_text(content) == "it is not UTF-8" else None
    else:
        damage(rng, document["data"] if act == 5 else document["spec"] if act == 6 else document)
        manifest.write_text(as_json(document))
    home = f"--home={folder.parent / 'home'}"
    if rng.random() < 0.5:
        arguments = ("infer", f"--model-path={checkpoint}", home)
        return Case("", 0, (*arguments, *_face(rng)), wrong, stdin="[0.1, 0.2, 0.3, 0.4]\n")
    metrics = {**_METRICS, "total_timesteps": document.get("timesteps", 64)}
    return Case("", 0, ("models", "add", str(checkpoint), as_json(metrics), home, *_face(rng)), wrong)


def _sign(document: dict, manifest: Path, tensors: Path) -> None:
    document["files"] = {tensors.name: hashlib.sha256(tensors.read_bytes()).hexdigest()}
    manifest.write_text(as_json(document))


# Data files

_TRADING = """\
name: trading
data_pipeline: {{class: {form}, kwargs: {{path: {path}}}}}
env: {{class: stock_trading}}
observation: {{class: portfolio_state}}
agent: {{class: random}}
training: {{total_timesteps: 8, n_envs: 1}}
evaluation: {{episodes: 0}}
trajectory_store: {{enabled: false}}
"""


def _data(rng: random.Random, folder: Path) -> Case:
    form = rng.choice(("csv", "csv", "parquet"))
    frame, path, wrong = bars(12, ("AAA", "BBB")), folder / f"bars.{form}", None
    act = rng.randrange(6)
    if act == 0:
        column = rng.choice(("open", "high", "low", "close"))
        value = rng.choice((-1.0, 0.0, math.inf, "abc", "1,2", "\0"))
        frame = frame.astype({column: str} if form == "parquet" else {column: object})
        frame.loc[rng.randrange(len(frame)), column] = value if form == "csv" else str(value)
        wrong = f"a price is {value!r}"
    elif act == 1:
        column = rng.choice(("timestamp", "asset", "close"))
        frame, wrong = frame.drop(columns=column), f"the column {column} is missing"
    elif act == 2:
        row = rng.randrange(1, len(frame))
        frame.loc[row, ["timestamp", "asset"]] = frame.loc[row - 1, ["timestamp", "asset"]].to_numpy()
        wrong = "a bar is there twice"
    frame.to_csv(path, index=False) if form == "csv" else frame.to_parquet(path)
    if act in (3, 4):
        before = path.read_bytes()
        path.write_bytes(damage_bytes(rng, before))
        wrong = "it is not UTF-8" if form == "csv" and _no_text(path.read_bytes()) == "it is not UTF-8" else None
    elif act == 5:
        path.rename(folder / "elsewhere")
        data = folder / "data"
        data.mkdir()
        path = data / path.name
        rng.choice(
            (
                os.mkfifo,
                Path.mkdir,
                lambda path: path.symlink_to(folder / "elsewhere"),
                lambda path: path.symlink_to("/dev/zero"),
            )
        )(path)
        wrong = "it is no regular file of the data folder"
    spec = folder / "spec.yaml"
    spec.write_text(_TRADING.format(form=form, path=path.name))
    home = folder.parent / "home"
    return Case("", 0, ("train", str(spec), f"--data-root={path.parent}", f"--home={home}", *_face(rng)), wrong)


# What came of many cases


def outcomes(kind: str, seeds: Iterable[int], folder: Path) -> Iterator[Outcome]:
    """Runs the cases of these seeds in this process, one after the other."""
    for seed in seeds:
        place = folder / f"{kind}-{seed}"
        yield run(make(kind, seed, place), place)
        shutil.rmtree(place)


def outcomes_of_processes(kinds: Sequence[str], count: int, folder: Path) -> Iterator[Outcome]:
    """Runs so many cases as real commands, the first ones of each kind in turn."""
    seeds = dict.fromkeys(kinds, 0)
    for kind in itertools.islice(itertools.cycle(kinds), count):
        while True:
            place = folder / f"process-{kind}-{seeds[kind]}"
            case = make(kind, seeds[kind], place)
            seeds[kind] += 1
            if can_be_a_process(case):
                break
            shutil.rmtree(place)
        yield run_as_process(case, place)
        shutil.rmtree(place)


def describe(outcome: Outcome) -> str:
    """A defect with what is needed to see it again."""
    case, answer = outcome.case, outcome.answer
    return f"{case.kind} {case.seed}: {outcome.defect}: {case.arguments!r:.500}: {(answer.err or answer.out)[-500:]}"


_KINDS: dict[str, Callable[[random.Random, Path], Case]] = {
    "spec": _spec,
    "settings": _settings,
    "command line": _command_line,
    "checkpoint": _checkpoint,
    "data": _data,
}
KINDS = tuple(_KINDS)
