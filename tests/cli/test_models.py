"""`rl models`: looking, gates, promotion, retention."""

import getpass
import inspect
import sqlite3
from pathlib import Path

import pytest

from alphaswarm_rl.cli.models import ENTRIES
from alphaswarm_rl.core.contracts import State
from alphaswarm_rl.inference.checkpoints import ADDED, CheckpointStore
from alphaswarm_rl.ledger import Ledger
from alphaswarm_rl.models import ModelRegistry, NewModel
from alphaswarm_rl.settings import Settings
from tests.models.samples import CARTPOLE, PENDULUM, add, evaluation

WHY = ("--reason", "a test")


@pytest.fixture
def registry(home):
    with ModelRegistry.open(Settings(home=home)) as registry:
        yield registry


@pytest.fixture
def three(registry, tmp_path):
    """Models whose means are 100, 110 and 120, all validated."""
    return [add(registry, tmp_path / f"files{mean}", mean, tags=["nightly"]) for mean in (100.0, 110.0, 120.0)]


@pytest.mark.parametrize("name", ENTRIES)
def test_the_table_says_what_the_command_says(name):
    command = ENTRIES[name].load()
    assert inspect.cleandoc(command.help).partition("\n")[0] == ENTRIES[name].line
    assert command.name == name


def test_nothing_is_there_at_first(rl, registry):
    assert rl("models", "list", "--json").json == []
    assert rl("models", "list").out == "there are no such models\n"
    answer = rl("models", "best", "--json")
    assert (answer.code, answer.error["type"]) == (2, "ModelError")
    assert "rl models validate" in answer.error["remedy"]


def test_a_registry_that_is_not_there_is_not_made_by_looking(rl, home):
    assert "there is no model registry at" in rl("models", "list").out
    assert rl("models", "list", "--json").json == []
    for verb in (("best",), ("show", 1), ("validate", 1), ("load", 1), ("promote", 1, *WHY), ("history", 1)):
        answer = rl("models", *verb, "--registry-db", "typo.db", "--json")
        assert (answer.code, answer.error["type"]) == (2, "ModelError")
        assert "typo.db" in str(answer.error)
        assert "--registry-db" in answer.error["remedy"]
    assert not list(home.glob("*.db"))


def test_list(rl, registry, three, tmp_path):
    add(registry, tmp_path / "pendulum", -5.0, std=1.0, scope=PENDULUM)
    add(registry, tmp_path / "unproven", 500.0, algorithm="dqn", validate=False)

    def means(*flags):
        return [row["mean_reward"] for row in rl("models", "list", *flags, "--json").json]

    assert means() == [500.0, 120.0, 110.0, 100.0, -5.0]
    assert means("--validated") == [120.0, 110.0, 100.0, -5.0]
    assert means("--validated", "--top-n", 2) == [120.0, 110.0]
    assert means("--env", "Pendulum-v1") == means("--scope", PENDULUM.short[:6]) == [-5.0]
    assert means("--algorithm", "dqn") == [500.0]
    assert means("--tag", "nightly", "--min-mean-reward", 110) == [120.0, 110.0]
    listed = rl("models", "list").out.splitlines()
    assert listed[0].split()[:2] == ["ID", "RUN"]
    ids = [None if row["run_id"] is None else row["run_id"][:8] for row in rl("models", "list", "--json").json]
    assert [line.split()[1] for line in listed[1:]] == [run or "-" for run in ids]
    registry.archive(three[0].id, because="a test")
    assert means("--tag", "nightly") == [120.0, 110.0]
    assert means("--tag", "nightly", "--all") == [120.0, 110.0, 100.0]
    lines = rl("models", "list", "--env", "Pendulum-v1").out.splitlines()
    assert lines[0].split()[:4] == ["ID", "RUN", "ENV", "ALGORITHM"]
    assert lines[1].split()[2:4] == ["Pendulum-v1", "ppo"]
    assert PENDULUM.short in lines[1]
    assert rl("models", "list", "--scope", "beef").code == 2


def test_show(rl, registry, three):
    registry.promote(three[2].id, who="ada", why="good")
    shown = rl("models", "show", three[2].id, "--json").json
    assert shown["model"]["sha256"] == three[2].sha256
    assert shown["model"]["scope"] == CARTPOLE.short
    assert shown["aliases"] == ["champion"]
    assert [row["aliases"] for row in rl("models", "list", "--json").json if row["aliases"]] == [["champion"]]
    assert "champion" in rl("models", "list").out
    assert shown["evaluation"]["mean_reward"] == 120.0
    assert shown["validation"]["passed"] is True
    text = rl("models", "show", three[2].id).out
    assert "champion" in text
    assert "reward_lower_bound" in text
    answer = rl("models", "show", 99, "--json")
    assert (answer.code, answer.error["why"]) == (2, "the registry has no such model")
    assert rl("models", "show", "x").code == 2


def test_best(rl, registry, three, tmp_path):
    assert rl("models", "best", "--json").json["id"] == three[2].id
    add(registry, tmp_path / "pendulum", -5.0, std=1.0, scope=PENDULUM)
    answer = rl("models", "best", "--json")
    assert answer.code == 2
    assert CARTPOLE.short in answer.error["why"]
    assert rl("models", "best", "--env", "CartPole-v1", "--json").json["id"] == three[2].id
    assert rl("models", "best", "--scope", CARTPOLE.short, "--tag", "nightly", "--json").json["id"] == three[2].id
    assert f"{three[2].id}" in rl("models", "best", "--scope", CARTPOLE.short).out


def test_validate_can_be_tried(rl, registry, three):
    model = three[0].id
    answer = rl("models", "validate", model, "--min-reward", 1000, "--dry-run", "--json")
    assert (answer.code, answer.json["passed"]) == (1, False)
    assert registry.get(model).validated
    assert len(registry.validations(model)) == 1
    registry.archive(three[1].id, because="a test")
    answer = rl("models", "validate", three[1].id, "--json")
    assert (answer.code, "archived: a test" in str(answer.error)) == (2, True)


def test_validate(rl, registry, three):
    model = three[0].id
    answer = rl("models", "validate", model, "--json")
    assert (answer.code, answer.json["passed"], answer.json["profile"]) == (0, True, "default")
    answer = rl("models", "validate", model, "--min-reward", 100, "--json")
    assert answer.code == 1
    failed = [check["gate"] for check in answer.json["checks"] if not check["passed"]]
    assert failed == ["reward_lower_bound"]
    assert rl("models", "list", "--validated", "--json").json[-1]["id"] == three[1].id
    for flags, gate in (
        (("--min-episodes", 11), "min_episodes"),
        (("--max-dispersion", 0.01), "dispersion"),
        (("--gates-profile", "strict"), "converged"),
    ):
        text = rl("models", "validate", model, *flags).out
        assert any(line.startswith(gate) and "FAIL" in line for line in text.splitlines()), text
    assert rl("models", "validate", model, "--gates-profile", "seed-legacy").code == 0
    answer = rl("models", "validate", model, "--gates-profile", "strickt")
    assert answer.code == 2
    assert "Did you mean 'strict'?" in answer.err
    assert rl("models", "validate", 99).code == 2
    assert len(registry.validations(model)) == 7


def test_a_gate_of_ones_own(rl, three):
    Path("my_gates.py").write_text(
        "from alphaswarm_rl.models.gates import Evidence, Verdict, gate, profile\n"
        "@gate('mean_above_105')\n"
        "def mean_above_105(evidence: Evidence) -> Verdict:\n"
        "    mean = evidence.model.mean_reward\n"
        "    return Verdict('mean_above_105', mean > 105, f'the mean is {mean}', mean, 105.0)\n"
        "profile('house', 'finite', 'mean_above_105')\n"
    )
    flags = ("--plugin", "my_gates", "--gates-profile", "house", "--json")
    assert [rl("models", "validate", row.id, *flags).code for row in three] == [1, 0, 0]
    checks = rl("models", "validate", three[0].id, *flags).json["checks"]
    # Two gates come first whatever the profile.
    assert [check["gate"] for check in checks] == ["trained", "not_constant", "finite", "mean_above_105"]
    assert [check["passed"] for check in checks] == [True, True, True, False]
    assert checks[3]["reason"] == "the mean is 100.0"


def test_promote_and_rollback(rl, three):
    answer = rl("models", "promote", three[0].id, *WHY, "--json").json
    assert (answer["who"], answer["why"], answer["to_status"]) == (getpass.getuser(), "a test", "production")
    assert rl("models", "promote", three[1].id, "--who", "ada", *WHY).code == 0
    assert rl("models", "rollback", *WHY, "--json").json["model_id"] == three[0].id
    assert rl("models", "promote", three[2].id, *WHY).code == 0
    assert rl("models", "rollback", "champion", *WHY, "--json").json["model_id"] == three[0].id
    assert rl("models", "promote", three[2].id, "--alias", "canary", *WHY).code == 0
    assert rl("models", "rollback", CARTPOLE.short, "--who", "ada", *WHY, "--json").json["who"] == "ada"
    assert rl("models", "rollback", *WHY).code == 2
    assert "production" in rl("models", "show", three[0].id).out
    assert rl("models", "promote", three[0].id).code == 2  # no reason
    assert rl("models", "promote", three[1].id, "--to", "archived", *WHY).code == 0
    assert rl("models", "promote", three[1].id, "--to", "heaven", *WHY).code == 2


def test_rollback_says_what_is_missing(rl, registry, three, tmp_path):
    assert "no model is in production" in rl("models", "rollback", *WHY).err
    other = add(registry, tmp_path / "pendulum", -5.0, std=1.0, scope=PENDULUM)
    rl("models", "promote", three[0].id, *WHY)
    rl("models", "promote", other.id, *WHY)
    answer = rl("models", "rollback", *WHY)
    assert answer.code == 2
    assert PENDULUM.short in answer.err
    assert "none before it" in rl("models", "rollback", PENDULUM.short, *WHY).err
    assert "no model has it" in rl("models", "rollback", "nobody", *WHY).err


def test_a_tampered_file_is_refused(rl, three):
    for row in three[:2]:
        assert rl("models", "promote", row.id, *WHY).code == 0
    for row in (three[0], three[2]):
        (row.path / "state.safetensors").write_text("tampered")
    for command in (("promote", three[2].id), ("rollback",)):
        answer = rl("models", *command, *WHY, "--json")
        assert answer.code == 2
        assert "changed" in answer.error["why"]
    assert rl("models", "show", three[1].id, "--json").json["model"]["deployment_status"] == "production"
    assert rl("models", "validate", three[2].id).code == 1


def test_history(rl, registry, three):
    model = three[0].id
    rl("models", "protect", model, *WHY)
    rl("models", "protect", model, "--off", *WHY)
    registry.add_evaluation(model, evaluation(90.0, window_start="2020-01-01", window_end="2020-02-01"))
    found = rl("models", "history", model, "--json").json
    assert [item["mean_reward"] for item in found["evaluations"]] == [100.0, 90.0]
    assert [item["passed"] for item in found["validations"]] == [True]
    assert [item["action"] for item in found["promotions"]] == ["protect", "unprotect"]
    text = rl("models", "history", model).out
    assert "2020-01-01 to 2020-02-01" in text
    assert "unprotect" in text
    assert rl("models", "history", 99).code == 2


def test_another_registry_file(rl, three, tmp_path):
    other = tmp_path / "other.db"
    with sqlite3.connect(other):
        pass  # an empty file becomes a registry
    assert rl("models", "list", "--registry-db", other, "--json").json == []
    assert len(rl("models", "list", "--json").json) == 3
    with sqlite3.connect(other) as connection:
        assert connection.execute("SELECT count(*) FROM models").fetchone() == (0,)


@pytest.fixture
def run_of_five(rl, ppo_spec):
    """A training run with five checkpoints on disk, none of which its own retention would delete."""
    flags = ("--total-timesteps", 320, "--checkpoint-freq", 64, "--keep-last", 5, "--no-registry")
    return rl("train", ppo_spec, *flags, "--json").json["run_id"]


def test_prune_deletes_files_that_nobody_needs(rl, registry, home, run_of_five):
    settings = Settings(home=home)
    steps = CheckpointStore(settings.models_path).steps(run_of_five)
    assert len(steps) == 5
    for number, path in enumerate(steps.values()):
        row = registry.register(NewModel(path, "ppo", CARTPOLE, number, None, {}, run_id=run_of_five))
        registry.add_evaluation(row.id, evaluation(100.0 + number))
    flags = ("--keep-top-n", 1, "--keep-last", 2)
    planned = rl("models", "prune", *flags, "--dry-run", "--json").json
    assert len(planned["models"]) == 4
    assert all("1 are kept" in model["archived_because"] for model in planned["models"])
    assert planned["deleted"] == []
    assert "would archive 4 models" in rl("models", "prune", *flags, "--dry-run").out
    assert len(CheckpointStore(settings.models_path).steps(run_of_five)) == 5
    done = rl("models", "prune", *flags, "--json").json
    assert [model["id"] for model in done["models"]] == [model["id"] for model in planned["models"]]
    # The run itself keeps its two newest; the best model is the newest.
    paths = list(steps.values())
    assert sorted(done["deleted"]) == [str(path) for path in paths[:3]]
    assert list(CheckpointStore(settings.models_path).steps(run_of_five).values()) == paths[3:]
    assert rl("models", "prune", *flags).out == "archived 0 models, deleted 0 checkpoints\n"


def test_prune_leaves_files_that_a_run_or_another_model_needs(rl, registry, home, run_of_five):
    paths = list(CheckpointStore(Settings(home=home).models_path).steps(run_of_five).values())
    judged = rl("evaluate", run_of_five, "--checkpoint", paths[0].name.lstrip("0"), "--no-registry", "--json")
    assert judged.code == 0, judged.out
    for number, path in enumerate(paths[:3]):
        registry.register(NewModel(path, "ppo", CARTPOLE, number, None, {}, run_id=run_of_five))
    elsewhere = add(registry, home / "elsewhere", 1.0, std=0.1)
    add(registry, home / "best", 500.0)
    protected = registry.at(paths[1])[0]
    registry.protect(protected.id, True, who="ada", why="a test")
    done = rl("models", "prune", "--keep-top-n", 1, "--keep-last", 1, "--json").json
    assert {model["id"] for model in done["models"]} == {1, 3, elsewhere.id}
    assert done["deleted"] == [str(paths[2])]  # one is what a run was judged by, one is protected
    assert elsewhere.path.exists()  # what lies outside of the store is its owner's
    assert all(path.exists() for path in (*paths[:2], *paths[3:]))


def test_prune_deletes_files_of_models_that_were_archived_before(rl, registry, home, run_of_five):
    paths = list(CheckpointStore(Settings(home=home).models_path).steps(run_of_five).values())
    row = registry.register(NewModel(paths[0], "ppo", CARTPOLE, 1, None, {}, run_id=run_of_five))
    registry.archive(row.id, because="whoever did it was killed before it deleted the file")
    done = rl("models", "prune", "--keep-top-n", 1, "--keep-last", 2, "--json").json
    assert (done["models"], done["deleted"]) == ([], [str(paths[0])])
    assert not paths[0].exists()
    assert all(path.exists() for path in paths[1:])


def test_prune_deletes_copies_of_models_from_elsewhere(rl, registry, home):
    Ledger.open(Settings(home=home)).close()  # whoever adds a model meets the ledger first
    store = CheckpointStore(Settings(home=home).models_path)
    saved = store.save(f"{ADDED}012345678901", 10, {"learner": State({}, {})}, spec={}, seed=0)
    copied = registry.register(NewModel(saved.path, "ppo", CARTPOLE, 10, saved.sha256, {}))
    add(registry, home / "best", 500.0)
    done = rl("models", "prune", "--keep-top-n", 1, "--json").json
    assert ([model["id"] for model in done["models"]], done["deleted"]) == ([copied.id], [str(saved.path)])
    assert not saved.path.parent.exists()


@pytest.mark.parametrize("flags", [("--keep-top-n", 0), ("--max-age", 0)])
def test_a_limit_below_one_is_refused(rl, flags):
    assert rl("models", "prune", *flags).code == 2


@pytest.mark.parametrize("command", ["train", "evaluate", "replay", "resume"])
def test_retention_is_no_option_of_what_does_not_prune(rl, command):
    assert "--keep-top-n" not in rl(command, "--help").out


def test_promotions_and_validations_are_exported_as_logs(rl, three, home, monkeypatch):
    monkeypatch.setenv("RL_LOGS_ENABLE", "1")
    assert rl("models", "validate", three[0].id).code == 0
    assert rl("models", "promote", three[0].id, "--reason", "exported").code == 0
    written = "".join(path.read_text() for path in home.rglob("*.jsonl"))
    assert f"model {three[0].id}: it passed" in written
    assert "exported" in written
