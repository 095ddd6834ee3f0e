"""Every command that writes, on a stage where it can be disturbed again and again from the same beginning.

A scene says which command it is, what comes before it and how an operator goes on after it was disturbed. What is there
in the end (runs with their rows and weights, models, trackers' files, halts, exported files) must be what is there
without any trouble.
"""

import json
import shutil
import signal
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from alphaswarm_rl.db.engine import open_engine, write
from alphaswarm_rl.db.schema import LEDGER
from alphaswarm_rl.ledger import Ledger
from tests.chaos.scenes import SMALL, assert_same, settings_of, state_of, written
from tests.chaos.trouble import Trouble
from tests.db.first_revision import insert
from tests.lake.killing import Moment, rl

EVALUATE = Moment("alphaswarm_rl.runtime.session:TrainingSession.evaluate")
STUDY = """\
base:
  name: Chaos study
  env: {class: cartpole}
  agent: {class: ppo_inhouse, kwargs: {n_steps: 32, batch_size: 64, n_epochs: 1, net_arch: [8]}}
  training: {total_timesteps: 512, n_envs: 4, seed: 3, eval_during_training: true}
  evaluation: {episodes: 2}
space:
  agent.kwargs.learning_rate: {type: float, low: 1e-4, high: 1e-2, log: true}
study: {trials: 2, startup_trials: 2}
"""
METRICS = {"mean_reward": 50.0, "std_reward": 1.0, "episodes": 12, "mean_episode_length": 50, "total_timesteps": 2200}
WHY = ("--reason", "chaos")

_TRAIN = ("train", "{spec}", *SMALL)
_VALIDATE = ("--min-episodes", 2, "--max-dispersion", 1000)
_PROMOTED = (("models", "validate", "{older}", *_VALIDATE), ("models", "promote", "{older}", *WHY))


def repeat(stage: "Stage") -> None:
    """The same command again."""
    stage.rl(stage.scene.command)


def repeat_if_needed(stage: "Stage") -> None:
    """The same again; it is refused where it had come through."""
    stage.rl(stage.scene.command, codes=(0, 2))


def resume(stage: "Stage") -> None:
    """Goes on with every training that stopped and has a checkpoint."""
    for run in stage.runs():
        if run.target == "train" and run.status in ("interrupted", "failed") and run.checkpoint is not None:
            stage.rl(("resume", run.id, *SMALL))


def resume_or_repeat(stage: "Stage") -> None:
    """Goes on with the training; it begins anew where it had no checkpoint."""
    resume(stage)
    if not any(run.status == "completed" for run in stage.runs()):
        repeat(stage)


def remove_or_resume(stage: "Stage") -> None:
    """Removes a training that cannot go on, whose steps no table takes, and goes on with any other."""
    for run in stage.runs():
        if run.status in ("interrupted", "failed") and run.checkpoint is None:
            stage.rl(("runs", "rm", run.id, "--yes"))
    resume_or_repeat(stage)


def repeat_and_resume(stage: "Stage") -> None:
    """The same again, and then on with the training."""
    repeat(stage)
    resume(stage)


def remove(stage: "Stage") -> None:
    """Removes the run where the next look did not finish that."""
    if stage.runs()[-1].removed_at is None:
        repeat(stage)
    stage.rl(("runs", "gc", "--yes"))


def lose_ledger(home: Path) -> None:
    """Somebody deletes the ledger."""
    for path in home.glob("ledger.db*"):
        path.unlink()


def old_ledger(home: Path) -> None:
    """A ledger as the first revision made it, with rows."""
    engine = open_engine(settings_of(home).database_url)
    LEDGER.upgrade(engine, "0001")
    with write(engine) as connection:
        insert(connection)
    engine.dispose()


@dataclass(frozen=True)
class Scene:
    """A command that is disturbed, and how to go on after it.

    Attributes:
        command: What is disturbed. `{run}`, `{model}` (the newest), `{older}` (the one before), `{spec}`, `{study}`,
            `{checkpoint}` (a copy outside of the home) and `{out}` (a new folder) are filled in.
        before: Commands that come first and are not disturbed.
        cut_short: Whether the last of those is killed at its final evaluation.
        prepare: What else is done to the home before.
        recover: What an operator does after it.
        spec: The spec.
    """

    command: tuple
    before: tuple = (_TRAIN,)
    cut_short: bool = False
    prepare: Callable[[Path], None] = lambda home: None
    recover: Callable[["Stage"], None] = repeat
    spec: str = "cartpole"

    @property
    def verb(self) -> str:
        """The operation's name."""
        words = 2 if self.command[0] in ("lake", "models", "runs", "store", "db", "components") else 1
        return ".".join(self.command[:words])


SCENES = {
    "train": Scene(_TRAIN, before=(), recover=resume_or_repeat),
    "train trading": Scene(_TRAIN, before=(), recover=resume_or_repeat, spec="trading"),
    "train parquet": Scene(_TRAIN, before=(), recover=remove_or_resume, spec="parquet"),
    "resume": Scene(("resume", "{run}", *SMALL), cut_short=True, recover=resume),
    "evaluate": Scene(("evaluate", "{run}")),
    "compare": Scene(("compare", "{run}", "--baselines"), spec="trading"),
    "replay": Scene(("replay", "{run}", "--seed", 5), spec="trading"),
    "tune": Scene(("tune", "{study}", *SMALL), before=()),
    "lake commit": Scene(("lake", "commit"), cut_short=True, recover=repeat_and_resume),
    "lake compact": Scene(("lake", "compact")),
    "lake expire": Scene(("lake", "expire")),
    "lake sweep": Scene(("lake", "sweep", "--older-than", "11m")),
    "lake export": Scene(("lake", "export", "{run}", "{out}")),
    "models add": Scene(("models", "add", "{checkpoint}", json.dumps(METRICS))),
    "models validate": Scene(("models", "validate", "{model}", *_VALIDATE)),
    "models judge": Scene(("models", "judge", "{model}", "--against", "{older}"), spec="judged"),
    "models promote": Scene(
        ("models", "promote", "{model}", *WHY),
        before=(_TRAIN, *_PROMOTED, ("models", "validate", "{model}", *_VALIDATE)),
        recover=repeat_if_needed,
    ),
    "models rollback": Scene(
        ("models", "rollback", *WHY),
        before=(
            *(_TRAIN, *_PROMOTED),
            *(("models", "validate", "{model}", *_VALIDATE), ("models", "promote", "{model}", *WHY)),
        ),
        recover=repeat_if_needed,
    ),
    "models protect": Scene(("models", "protect", "{model}", *WHY)),
    "models prune": Scene(("models", "prune", "--keep-top-n", 1)),
    "halt": Scene(("halt", *WHY)),
    "halt of a bot": Scene(("halt", "--scope", "bot:grid", *WHY)),
    "halt release": Scene(("halt", "--release", *WHY), before=(_TRAIN, ("halt", *WHY)), recover=repeat_if_needed),
    "runs rm": Scene(("runs", "rm", "{run}", "--yes", "--force"), recover=remove),
    "runs gc": Scene(("runs", "gc", "--yes")),
    "runs export": Scene(("runs", "export", "{run}", "--out", "{out}")),
    "store sync": Scene(("store", "sync"), cut_short=True, recover=repeat_and_resume),
    "components list": Scene(("components", "list"), before=()),
    "db adopt": Scene(("db", "adopt", *WHY)),
    "db rebuild": Scene(("db", "rebuild"), prepare=lose_ledger),
    "db upgrade": Scene(("db", "upgrade"), before=(), prepare=old_ledger),
}
#: Operations that change something only through those above.
MADE_OF_OTHERS = {"demo", "bench.truth"}


def _deed(run) -> str:
    """What a run did: it trained, or it judged the policy of that spec and checkpoint."""
    return "train" if run.target == "train" else f"{run.target} {run.spec_hash} {run.checkpoint_sha256}"


@dataclass
class Outcome:
    """What is there in the end.

    Attributes:
        runs: By what they did, the rows, the last weights and the models of every completed run.
        others: Everything else by name, as plain data.
    """

    runs: dict[str, list] = field(default_factory=dict)
    others: dict = field(default_factory=dict)


class Stage:
    """A home in which a scene is played again and again, each time from the same beginning.

    Tables name their files by absolute paths, so the copy of the beginning is put back to the same place.
    """

    def __init__(self, folder: Path, scene: Scene) -> None:
        self.scene = scene
        self.home, self._folder, self._beginning = folder / "home", folder, folder / "beginning"
        self._files = {"spec": written(folder, scene.spec), "study": folder / "study.yaml"}
        self._files["study"].write_text(STUDY)
        self._outs = 0
        for number, command in enumerate(scene.before, start=1):
            cut = scene.cut_short and number == len(scene.before)
            self.rl(command, moment=EVALUATE if cut else None, codes=(-signal.SIGKILL if cut else 0,))
        self.home.mkdir(exist_ok=True)
        self._copy_checkpoint()
        scene.prepare(self.home)
        shutil.copytree(self.home, self._beginning)
        counted = folder / "count"
        self.play(Trouble("count", count_in=counted))
        self.events = int(counted.read_text())
        self.recover()
        self.expected = self.outcome()

    def play(self, trouble: Trouble):
        """Plays the scene from its beginning, with that trouble."""
        shutil.rmtree(self.home)
        shutil.copytree(self._beginning, self.home)
        return rl(*self._filled(self.scene.command), home=self.home, moment=trouble)

    def recover(self) -> None:
        """What an operator does after trouble; what waits on the disk is delivered."""
        self.scene.recover(self)
        self.rl(("lake", "commit"))

    def outcome(self) -> Outcome:
        """What is there now; tables, files and ledger agree, and nothing of a completed run waits in the spool."""
        self._out("lake", "verify")
        self._out("doctor")
        found = Outcome()
        for run in self.runs():
            if run.status == "completed" and run.removed_at is None and self.scene.verb != "db.upgrade":
                assert not (self.home / "lake" / "spool" / run.id).exists()
                found.runs.setdefault(_deed(run), []).append(state_of(self.home, run=run))
        found.others = {
            "models": self._models(),
            "halts": [(row["scope"], row["reason"]) for row in self._out("halt", "--status")],
            **self._special(),
        }
        return found

    def check(self) -> None:
        """The end is that of a scene without trouble."""
        found = self.outcome()
        assert found.others == self.expected.others
        assert set(found.runs) == set(self.expected.runs)
        for deed, states in self.expected.runs.items():
            if self.scene.verb == "tune":
                # A trial that was whole before the study knew of it is made anew, to the same bytes.
                assert {state[1] for state in found.runs[deed]} == {state[1] for state in states}
            else:
                for state in found.runs[deed]:
                    assert_same(state, states[0])

    def runs(self) -> list:
        """Every run, the newest first; those whose process died are seen as interrupted."""
        with Ledger.open(settings_of(self.home)) as ledger:
            return ledger.runs(limit=None, include_removed=True)

    def rl(self, command: tuple, moment=None, codes: tuple = (0,)) -> None:
        """Runs a command that ends with one of those codes."""
        answer = rl(*self._filled(command), home=self.home, moment=moment)
        assert answer.code in codes, (command, answer.code, answer.err[-1500:])

    def _out(self, *words: str):
        answer = rl(*words, "--json", home=self.home)
        assert answer.code == 0, (words, answer.out, answer.err[-1500:])
        return answer.json

    def _models(self) -> list:
        columns = ("sha256", "deployment_status", "validated", "protected", "aliases")
        models = [json.dumps([row[name] for name in columns]) for row in self._out("models", "list")]
        # A trial that was killed is made anew, and its models stay beside those of the run that took its place.
        return sorted(set(models) if self.scene.verb == "tune" else models)

    def _special(self) -> dict:
        """What else this scene brings about."""
        if self.scene.verb in ("lake.export", "runs.export"):
            return {path.name: path.stat().st_size for path in self._out_folder().iterdir()}
        if self.scene.verb == "runs.rm":
            return {"removed": [run.removed_at is not None for run in self.runs()]}
        if self.scene.verb == "store.sync":
            self.rl(("store", "sync"))
            (path,) = (self.home / "tracking" / "rl-experiment").glob("*/metrics.jsonl")
            points = [json.loads(line) for line in path.read_text().splitlines()]
            values = [(point["step"], name, value) for point in points for name, value in point["metrics"].items()]
            return {"points": [point for point in values if point[1] != "steps_per_second"]}
        if self.scene.verb == "components.list":
            return {"components": self._out("components", "list")}
        if self.scene.verb == "db.rebuild":
            return {"events": [[event.stage for event in self._events(run.id)] for run in self.runs()]}
        if self.scene.verb == "db.upgrade":
            return {"seeds": [(run.id, run.seed, run.result_summary) for run in self.runs()]}
        return {}

    def _events(self, run_id: str) -> list:
        with Ledger.open(settings_of(self.home)) as ledger:
            return ledger.events(run_id)

    def _copy_checkpoint(self) -> None:
        checkpoints = sorted((self.home / "models").glob("*/*"))
        if checkpoints:
            self._files["checkpoint"] = self._folder / "checkpoint"
            shutil.copytree(checkpoints[-1], self._files["checkpoint"])

    def _out_folder(self) -> Path:
        return self._folder / f"out-{self._outs}"

    def _filled(self, command: tuple) -> tuple:
        names = {f"{{{name}}}": path for name, path in self._files.items()}
        if "{run}" in command:
            names["{run}"] = next(run.id for run in reversed(self.runs()) if run.target == "train")
        if "{model}" in command or "{older}" in command:
            # The newest that were judged: their checkpoints are kept.
            judged = [row for row in self._out("models", "list") if row["mean_reward"] is not None]
            names["{older}"], names["{model}"] = sorted(row["id"] for row in judged)[-2:]
        if "{out}" in command:
            self._outs += 1
            names["{out}"] = self._out_folder()
        return tuple(names.get(word, word) for word in command)
