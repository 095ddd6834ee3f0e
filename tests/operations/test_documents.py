"""Results are the documents that faces show: each conforms to its operation's schema, and every request is JSON."""

import dataclasses
import json
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import jsonschema
import pytest
from pydantic import TypeAdapter

from alphaswarm_rl.operations.data import Data, plain
from alphaswarm_rl.operations.operation import RequestError, operations
from alphaswarm_rl.settings import Settings
from tests.cli.calling import PPO

OPERATIONS = operations()
#: They measure or train for minutes.
TOO_LONG = {"bench.env", "bench.truth", "demo", "audit.lookahead"}
#: They need a run that was stopped, or a model that passed its gates or has dates; others give results of the same
#: classes.
NOT_HERE = {"resume", "models.best", "models.judge", "models.rollback"}
#: Operations whose settings are a function that gives them.
LAZY = {"components.show", "doctor", "options", "spec.diff", "spec.hash", "spec.show", "spec.validate", "tune"} | {
    *("data.check", "data.show")
}

RULE = """\
name: A rule
data_pipeline: {class: synthetic, kwargs: {n_assets: 2, n_bars: 60, features: [macd]}}
env: {class: stock_portfolio, kwargs: {lookback: 5}}
agent: {class: equal_weight}
"""
TUNING = """\
base: ppo.yaml
space: {agent.kwargs.learning_rate: {type: float, low: 1e-4, high: 1e-2, log: true}}
study: {trials: 1, startup_trials: 1, metric: evaluation.mean_reward, pruning: false}
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """Settings whose home holds one trained, recorded and registered run."""
    folder = tmp_path_factory.mktemp("documents")
    (folder / "ppo.yaml").write_text(PPO)
    (folder / "broken.yaml").write_text("name: x\nagnet: {class: random}\n")
    (folder / "tuning.yaml").write_text(TUNING)
    (folder / "rule.yaml").write_text(RULE)
    settings = Settings(home=folder / "home")
    conforming("train", settings, spec=str(folder / "ppo.yaml"))
    return settings


def conforming(name, settings, **fields):
    """The document of an operation's result, which has to conform to the schema; all of them where it streams."""
    made = OPERATIONS[name]
    request_schema, schema = made.schemas()
    request = made.request(**fields)
    jsonschema.validate(json.loads(json.dumps(plain(request), allow_nan=False)), request_schema)
    result = made((lambda: settings) if name in LAZY else settings, request)
    results = list(result) if isinstance(result, Iterator) else [result]
    documents = [json.loads(json.dumps(plain(one), allow_nan=False)) for one in results]
    for document in documents:
        jsonschema.validate(document, schema)
        known = keys_of(schema, schema.get("$defs", {}))
        if isinstance(document, dict) and known is not None:
            assert set(document) <= known
    return documents if made.streams else documents[0]


def keys_of(schema, definitions):
    """Every key that documents of a schema may have; None where any may be in them."""
    if "$ref" in schema:
        return keys_of(definitions[schema["$ref"].rpartition("/")[2]], definitions)
    if "anyOf" in schema or "allOf" in schema:
        found = [keys_of(part, definitions) for part in schema.get("anyOf") or schema["allOf"]]
        return None if None in found else set().union(*found)
    if schema.get("type") == "array":
        return set()
    return set(schema["properties"]) if "properties" in schema else None


LOOKS = [
    ("compare", {"runs": ("latest",)}),
    ("components.list", {"kind": "env"}),
    ("components.show", {"kind": "env", "alias": "cartpole"}),
    ("data.check", {"file_or_spec": "careful_weights_ppo"}),
    ("data.show", {"file_or_spec": "my_first_rl"}),
    ("db.adopt", {"reason": "for a test"}),
    ("db.rebuild", {}),
    ("db.status", {}),
    ("db.upgrade", {}),
    ("doctor", {}),
    ("evaluate", {"target": "latest"}),
    ("evaluate", {"model_id": 1}),
    ("halt", {"status": True}),
    ("halt", {"reason": "for a test"}),
    ("halt", {"status": True}),
    ("halt", {"release": True, "reason": "for a test"}),
    ("halt", {"log": True}),
    ("infer", {"model_id": 1, "unvalidated": True, "episodes": 1}),
    ("infer", {"run": "latest", "episodes": 1}),
    ("lake.commit", {}),
    ("lake.compact", {}),
    ("lake.expire", {"keep": timedelta(days=1, milliseconds=5)}),
    ("lake.status", {"unknown": True}),
    ("lake.sweep", {"dry_run": True}),
    ("lake.verify", {}),
    ("models.history", {"model": 1}),
    ("models.list", {}),
    ("models.load", {"model": 1, "unvalidated": True}),
    ("models.protect", {"model": 1, "reason": "for a test"}),
    ("models.prune", {"dry_run": True}),
    ("models.prune", {}),
    ("models.show", {"model": 1}),
    ("models.validate", {"model": 1, "dry_run": True}),
    ("options", {}),
    ("options", {"forms": ("nix",)}),
    ("replay", {"run": "latest"}),
    ("runs.actions", {"run": "latest", "limit": 3}),
    ("runs.curve", {"run": "latest", "points": 2}),
    ("runs.equity", {"run": "latest", "limit": 3}),
    ("runs.events", {"run": "latest"}),
    ("runs.fills", {"run": "latest"}),
    ("runs.gc", {"dry_run": True}),
    ("runs.holdings", {"run": "latest"}),
    ("runs.list", {}),
    ("runs.positions", {"run": "latest"}),
    ("runs.rewards", {"run": "latest", "limit": 3}),
    ("runs.show", {"run": "latest"}),
    ("runs.trajectories", {"run": "latest", "phase": "train", "limit": 3}),
    ("spec.diff", {"left": "cartpole_ppo", "right": "latest"}),
    ("spec.hash", {"spec_or_run": "latest"}),
    ("spec.show", {"spec_or_run": "latest"}),
    ("specs.list", {}),
    ("specs.trials", {"slug": "tiny-ppo"}),
    ("specs.versions", {"slug": "tiny-ppo"}),
    ("sql", {"statement": "SELECT count(*) AS n FROM rl_trajectories"}),
    ("store.status", {}),
    ("store.sync", {}),
]
IN_OTHER_TESTS = {
    "backtest",
    "decide",
    "train",
    "tune",
    "spec.validate",
    "runs.export",
    "lake.export",
    "models.add",
    "models.promote",
    "runs.rm",
}


#: The keys of documents that are not simply the fields of their classes.
KEYS = {
    "db.status": {"url", "revision", "head", "state", "registry", "ledger_id", "adopted"},
    "db.upgrade": {"url", "from", "revision", "head", "registry"},
    "lake.compact": {"runs", "files"},
    "lake.sweep": {"dry_run", "files", "bytes", "paths"},
    "lake.verify": {"ok", "findings"},
    "models.prune": {"dry_run", "models", "deleted"},
    "models.show": {"model", "aliases", "evaluation", "validation"},
    "runs.curve": {"run_id", "status", "total_points", "points"},
    "runs.gc": {"dry_run", "bytes", "folders", "runs"},
    "runs.trajectories": {"run_id", "rows", "more", "undelivered"},
    "sql": {"columns", "rows"},
}


@pytest.mark.parametrize(("name", "fields"), LOOKS, ids=[f"{name} {' '.join(fields)}" for name, fields in LOOKS])
def test_a_result_conforms_to_its_schema(home, name, fields):
    document = conforming(name, home, **fields)
    if name in KEYS:
        assert set(document) == KEYS[name]


def test_results_that_write_files_conform(home, tmp_path):
    folder = home.home.parent
    checked = conforming("spec.validate", home, paths=(str(folder / "ppo.yaml"), str(folder / "broken.yaml")))
    assert [sorted(one) for one in checked["specs"]] == [["path", "slug", "spec_hash"], ["error", "path"]]
    assert checked["broken"] == 1
    assert conforming("runs.export", home, run="latest", folder=tmp_path / "run")["files"]
    assert conforming("lake.export", home, run="latest", folder=tmp_path / "steps")["rows"]["trajectories"]
    preview = conforming("tune", home, document=str(folder / "tuning.yaml"), dry_run=True)
    assert set(preview) == {"study", "space", "sample"}


def test_results_of_changes_conform(home, tmp_path):
    (model,) = conforming("models.list", home)
    metrics = {"mean_reward": 1.0, "std_reward": 0.0, "episodes": 2, "mean_episode_length": 3.0, "total_timesteps": 256}
    added = conforming("models.add", home, path=Path(model["model_path"]), metrics=json.dumps(metrics))
    assert set(model) - set(added) == {"aliases"}
    conforming("models.protect", home, model=added["id"], reason="for a test", on=False)
    changed = conforming("models.promote", home, model=added["id"], reason="for a test", to="archived")
    assert (changed["from_status"], changed["to_status"]) == ("staging", "archived")
    trained = conforming("train", home, spec=str(home.home.parent / "ppo.yaml"))
    removed = conforming("runs.rm", home, runs=(trained["run_id"],))
    assert [each["run_id"] for each in removed["removed"]] == [trained["run_id"]]
    assert removed["kept"] == []
    played = conforming("backtest", home, target=str(home.home.parent / "rule.yaml"))
    assert played["status"] == "completed"
    collected = conforming("runs.gc", home)
    assert set(collected) == {"dry_run", "bytes", "folders", "runs"}


def test_every_operation_is_looked_at():
    assert {name for name, _ in LOOKS} | IN_OTHER_TESTS | TOO_LONG | NOT_HERE == set(OPERATIONS)


@pytest.mark.parametrize("made", OPERATIONS.values(), ids=list(OPERATIONS))
def test_a_request_survives_json(made):
    needed = {"str": "latest", "int": 1, "Path": Path("somewhere"), "tuple[str, ...]": ("a", "b")}
    fields = {
        field.name: needed[str(field.type)]
        for field in dataclasses.fields(made.request)
        if field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
    }
    request = made.request(**fields)
    assert TypeAdapter(made.request).validate_python(json.loads(json.dumps(plain(request)))) == request


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("runs.list", {"limit": -1}),
        ("runs.list", {"status": "nonsense"}),
        ("runs.events", {"run": "latest", "after": -1}),
        ("runs.equity", {"run": "latest", "phase": "nonsense"}),
        ("runs.equity", {"run": "latest", "episode": -1}),
        ("sql", {"statement": "SELECT 1", "limit": -1}),
        ("models.list", {"top_n": 0}),
        ("models.promote", {"model": 1, "reason": "x", "to": "nonsense"}),
        ("models.show", {"model": "one"}),
        ("infer", {"episodes": 0}),
        ("tune", {"document": "x.yaml", "trials": 0}),
        ("tune", {"document": "x.yaml", "top": 0}),
        ("bench.env", {"num_envs": (1, 0)}),
        ("bench.env", {"seconds": 0.0}),
        ("bench.truth", {"steps": 5_000_001}),
        ("bench.truth", {"seeds": 0}),
        ("demo", {"timesteps": 0}),
        ("audit.lookahead", {"spec_or_run": "x", "seed": -1}),
        ("options", {"forms": ("nix", "markdown")}),
        ("options", {"forms": ("pdf",)}),
    ],
)
def test_a_request_outside_its_limits_is_refused(name, fields):
    made = OPERATIONS[name]
    request = made.request(**fields)
    with pytest.raises(RequestError):
        made(None, request)
    with pytest.raises(RequestError):
        made(None, request=request)


class Inner(Data):
    """Fields of its own."""

    one: int
    two: float


class Outer(Data, merged="inner", keys={"before": "from"}, unless_null=("note",), apart=("table",)):
    """Everything that a form can say of fields."""

    inner: Inner
    before: str
    note: str | None = None
    table: tuple[str, ...] = ()


class Listing(Data, only="rows"):
    """A document that is no object."""

    rows: tuple[Outer, ...]


def subclasses(cls):
    """Every class of data."""
    return {found for one in cls.__subclasses__() for found in (one, *subclasses(one))}


def test_forms_name_fields_that_exist():
    for cls in subclasses(Data):
        form, names = cls.form, {field.name for field in dataclasses.fields(cls)}
        assert {*form.apart, *form.unless_null, *form.keys} | ({form.only, form.merged} - {None}) <= names, cls


def test_a_form_shapes_document_and_schema_alike():
    from alphaswarm_rl.operations.operation import NoArguments, Operation

    def give(settings: Settings, request: NoArguments) -> Listing:
        """Gives nothing."""
        raise NotImplementedError

    document = plain(Listing((Outer(Inner(1, float("inf")), "x", table=("a",)), Outer(Inner(1, 2.0), "x", "note"))))
    assert document == [{"one": 1, "two": None, "from": "x"}, {"one": 1, "two": 2.0, "from": "x", "note": "note"}]
    schema = Operation("documents.test", give, changes=False).schemas()[1]
    jsonschema.validate(document[1:], schema)
    for wrong in ({"one": 1, "two": 2.0, "before": "x"}, {"two": 2.0, "from": "x"}, {}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate([wrong], schema)
