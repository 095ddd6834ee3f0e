"""`rl specs` and `rl spec`."""

import json

import pytest

from alphaswarm_rl.spec import RLExperimentSpec


def test_specs_in_the_ledger(rl, trained):
    assert [row["slug"] for row in rl("specs", "list", "--json").json] == ["tiny-ppo"]
    assert "tiny-ppo" in rl("specs", "list").out
    (version,) = rl("specs", "versions", "tiny-ppo", "--json").json
    assert version["id"] == trained["version_id"]
    assert "tiny-ppo" in rl("specs", "versions", "tiny-pp").err
    assert rl("specs", "versions", "tiny-pp").code == 2
    count = rl("specs", "trials", "tiny-ppo", "--json").json
    assert (count["family"], count["runs"], count["specs"], count["trials"]) == ("tiny-ppo", 1, 1, 1)
    assert "trials" in rl("specs", "trials", "tiny-ppo").out
    assert "tiny-ppo" in rl("specs", "trials", "tiny-pp").err
    assert rl("specs", "trials", "tiny-pp").code == 2


def test_hash(rl, random_spec):
    spec = RLExperimentSpec.from_yaml_path(random_spec)
    assert rl("spec", "hash", random_spec, "--json").json == {"spec_hash": spec.spec_hash, "exec_hash": spec.exec_hash}
    assert spec.spec_hash in rl("spec", "hash", random_spec).out


def test_show_gives_the_same_spec(rl, random_spec, trained, tmp_path):
    for reference in (random_spec, trained["run_id"]):
        path = tmp_path / "shown.yaml"
        path.write_text(rl("spec", "show", reference).out)
        shown, asked = rl("spec", "hash", path, "--json").json, rl("spec", "hash", reference, "--json").json
        assert shown == asked
    assert rl("spec", "show", random_spec, "--json").json["slug"] == "tiny-random"


def test_diff(rl, random_spec, trained, ppo_spec, tmp_path):
    other = tmp_path / "other.yaml"
    other.write_text(ppo_spec.read_text().replace("256", "512"))
    assert rl("spec", "diff", trained["run_id"], other, "--json").json == [
        {"path": "training.total_timesteps", "left": 256, "right": 512}
    ]
    assert "training.total_timesteps" in rl("spec", "diff", ppo_spec, other).out
    assert rl("spec", "diff", ppo_spec, ppo_spec).out == "the specs are equal\n"
    assert rl("spec", "diff", ppo_spec, "missing.yaml").code == 2


def test_validate(rl, random_spec, ppo_spec):
    answer = rl("spec", "validate", random_spec, ppo_spec)
    assert answer.code == 0
    assert answer.out.count("ok ") == 2


def test_validate_names_every_broken_file(rl, random_spec, tmp_path):
    folder = tmp_path / "specs"
    folder.mkdir()
    (folder / "good.yaml").write_text(random_spec.read_text())
    (folder / "typo.yaml").write_text("name: x\nagnet: {class: random}\n")
    (folder / "yaml.yml").write_text("name: [\n")
    (folder / "later.yaml").write_text(random_spec.read_text() + "extras: {a: 1}\n")
    answer = rl("spec", "validate", folder, "missing.yaml", "--json")
    assert answer.code == 2
    assert answer.json["broken"] == 4
    broken = {entry["path"].rpartition("/")[2] for entry in answer.json["specs"] if "error" in entry}
    assert broken == {"typo.yaml", "yaml.yml", "later.yaml", "missing.yaml"}
    text = rl("spec", "validate", folder).out
    assert "'agent'" in text
    assert "good.yaml" in text


@pytest.mark.parametrize("verb", ["hash", "show"])
def test_wrong_input(rl, verb):
    assert rl("spec", verb, "no-such-preset").code == 2
    assert json.loads(rl("spec", verb, "abcdef", "--json").out)["error"]["type"] == "RunError"
