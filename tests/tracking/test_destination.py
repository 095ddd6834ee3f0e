from datetime import UTC, datetime

import pytest

from alphaswarm_rl.core.errors import MissingExtra, TrackingError
from alphaswarm_rl.options.settings import load_settings
from alphaswarm_rl.settings import Settings
from alphaswarm_rl.tracking import destination as module
from alphaswarm_rl.tracking.destination import Destination, refuse_model_name, resolve_destination, run_name, shown
from alphaswarm_rl.tracking.local_tracker import folder_name

VENDOR = {
    "MLFLOW_TRACKING_URI": "http://theirs:1",
    "MLFLOW_EXPERIMENT_NAME": "their experiment",
    "MLFLOW_RUN_NAME": "their run",
    "WANDB_BASE_URL": "http://wandb:2",
    "WANDB_PROJECT": "their-project",
    "WANDB_RUN_NAME": "their-run",
}
BEGAN = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)


def asked(environ=VENDOR, experiment=None, **store):
    return resolve_destination(Settings(store=store), experiment=experiment, environ=environ)


def test_plain_files_are_the_default_and_vendors_variables_do_not_matter_then():
    assert asked() == Destination("local", "rl-experiment")


def test_a_vendors_variable_counts_for_its_own_tracker_where_nobody_said_anything():
    assert asked(backend="mlflow") == Destination("mlflow", "their experiment", "http://theirs:1")
    assert asked(backend="wandb") == Destination("wandb", "their-project", "http://wandb:2")
    assert asked({}, backend="mlflow") == Destination("mlflow", "rl-experiment", "http://localhost:5000")
    assert asked({}, backend="wandb") == Destination("wandb", "rl-experiment")


def test_what_somebody_set_comes_before_a_vendors_variable():
    mine = asked(backend="mlflow", tracking_uri="http://localhost:5000", experiment_name="rl-experiment")
    assert mine == Destination("mlflow", "rl-experiment", "http://localhost:5000")
    assert asked(backend="mlflow", experiment="of the spec", experiment_name="y").experiment == "of the spec"


def test_flag_variable_and_file_count_as_set(tmp_path):
    path = tmp_path / "settings.yaml"
    path.write_text("store: {tracking_uri: 'http://file:1'}\n")
    environ = {"RL_STORE_BACKEND": "mlflow", **VENDOR}
    settings = load_settings({"store.experimentName": "flag"}, environ, path)
    assert resolve_destination(settings, experiment=None, environ=environ) == Destination(
        "mlflow", "flag", "http://file:1"
    )


def test_the_name_of_a_run():
    assert run_name(Settings(), "ppo", BEGAN, VENDOR) == "ppo-20260304-050607"
    assert run_name(Settings(store={"backend": "mlflow"}), "ppo", BEGAN, VENDOR) == "their run"
    assert run_name(Settings(store={"backend": "wandb"}), "ppo", BEGAN, VENDOR) == "their-run"
    assert run_name(Settings(store={"backend": "wandb", "run_name": "mine"}), "ppo", BEGAN, VENDOR) == "mine"


@pytest.mark.parametrize(
    ("store", "what"),
    [
        ({"backend": "s3"}, "needs an address"),
        ({"backend": "s3", "tracking_uri": "http://x"}, "no other scheme"),
        ({"backend": "s3", "tracking_uri": "s3:///prefix"}, "names no bucket"),
        ({"backend": "mlflow", "tracking_uri": "ftp://x"}, "no other scheme"),
        ({"backend": "mlflow", "tracking_uri": "localhost:5000"}, "no other scheme"),
        ({"backend": "mlflow", "tracking_uri": "http://"}, "names no host"),
        ({"backend": "mlflow", "tracking_uri": "http://host:port"}, "no address"),
        ({"backend": "wandb", "tracking_uri": "s3://x"}, "no other scheme"),
        ({"backend": "wandb", "experiment_name": "a/b"}, "for a project"),
        ({"backend": "local", "tracking_uri": "http://x"}, "has no address"),
        ({"experiment_name": " "}, "is no name"),
        ({"experiment_name": "a\x1b[2Jb"}, r"the name of the experiment: it contains the control character U\+001B"),
        ({"run_name": "a\u2028b"}, r"the name of the run: it contains the control character U\+2028"),
    ],
)
def test_settings_that_no_tracker_can_be_had_with_are_refused(store, what):
    with pytest.raises(TrackingError, match=what):
        asked({}, **store)


def test_a_run_name_of_a_vendors_variable_is_checked_too():
    with pytest.raises(TrackingError, match="the name of the run"):
        asked({"MLFLOW_RUN_NAME": "a\x07"}, backend="mlflow")


@pytest.mark.parametrize("name", ["", "a/b", "a:b", "it's", "a\x1bb"])
def test_a_model_needs_a_name_that_trackers_take(name):
    with pytest.raises(TrackingError, match="register_model_as"):
        refuse_model_name(name)


def test_a_missing_extra_is_named(monkeypatch):
    monkeypatch.setattr(module, "find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match=r"alphaswarm-rl\[mlflow\]"):
        asked({}, backend="mlflow")


def test_no_secret_is_shown_or_kept():
    for uri in ("https://me:pass@host:1/x", "https://to-ken@host/x", "https://host/x?token=to-ken"):
        destination = Destination("mlflow", "x", uri)
        for text in (shown(uri), destination.place, str(destination.as_data())):
            assert "***" in text
            assert "host" in text
            assert "pass" not in text
            assert "to-ken" not in text
    with pytest.raises(TrackingError) as error:
        asked({}, backend="mlflow", tracking_uri="ftp://me:pass@host")
    assert "pass" not in str(error.value)


def test_an_sqlite_file_is_the_same_from_everywhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert asked({}, backend="mlflow", tracking_uri="sqlite:///a.db").uri == f"sqlite:///{tmp_path}/a.db"


@pytest.mark.parametrize(
    ("name", "folder"), [("my lab", "my lab"), ("a/b", "a%2Fb"), ("..", "%2E%2E"), ("v1.0", "v1.0")]
)
def test_an_experiment_is_one_folder(name, folder):
    assert folder_name(name) == folder
