"""What a reference names: whatever is there under that name goes before a run."""

import pytest

from alphaswarm_rl.operations import references
from alphaswarm_rl.operations.references import names_a_run

RUN = "0198a4c2"


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("reference", ["latest", "LATEST", RUN, RUN.upper(), "0198a4c2-0000-7000-8000-000000000001"])
def test_latest_and_the_beginning_of_an_id_name_a_run(reference):
    assert names_a_run(reference)


@pytest.mark.parametrize("reference", ["abc", "cartpole_ppo", "specs/latest.yaml", f"{RUN}.yaml", "a" * 37])
def test_any_other_text_names_a_spec(reference):
    assert not names_a_run(reference)


def test_a_file_or_a_folder_of_that_name_comes_first(tmp_path):
    (tmp_path / "latest").write_text("name: x\n")
    (tmp_path / RUN).mkdir()
    assert not names_a_run("latest")
    assert not names_a_run(RUN)


def test_a_preset_of_that_name_comes_first(monkeypatch):
    monkeypatch.setattr(references, "preset_names", lambda folder: [RUN] if folder == "experiments" else [])
    assert not names_a_run(RUN)
    assert names_a_run("latest")
