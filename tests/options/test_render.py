"""The listings say what the table says; the Nix module is kept as a golden file and read back."""

import json
import re
from pathlib import Path

import pytest

from alphaswarm_rl.core.errors import OptionError
from alphaswarm_rl.options.render import COLUMNS, as_json, as_markdown, as_nix, introspect, nix_value, rows, scientific
from alphaswarm_rl.options.table import FEATURES, OPTIONS

GOLDEN = Path(__file__).parent / "options.nix"

BLOCK = re.compile(
    r"^  options\.rl\.(?P<key>[a-z]+\.[a-zA-Z0-9]+) = lib\.mkOption \{\n"
    r"    type = (?P<type>[^;]+);\n"
    r"    default = (?P<default>.+);\n"
    r'    description = "(?P<description>(?:[^"\\]|\\.)+)";\n'
    r"  \};\n",
    re.MULTILINE,
)


def nix_to_python(text):
    """Nix literals are JSON but for the commas of lists."""
    return json.loads(re.sub(r"(?<=[^\[ ]) +(?=[^\] ])", ", ", text)) if text.startswith("[") else json.loads(text)


def test_the_nix_module_is_the_golden_one():
    assert as_nix() == GOLDEN.read_text(encoding="utf-8"), "write as_nix() into the file if the change is meant"


def test_the_nix_module_can_be_read_back():
    text = as_nix()
    blocks = {match["key"]: match for match in BLOCK.finditer(text)}
    assert list(blocks) == [option.key for option in OPTIONS]
    rest = [line for line in BLOCK.sub("", text).splitlines() if not line.startswith(("#", "  #"))]
    assert rest == ["{ lib, ... }:", "{", "}"]
    plain = {option["key"]: option for feature in as_json() for option in feature["options"]}
    for key, block in blocks.items():
        default = nix_to_python(block["default"])
        assert default == ("3e-4" if key == "train.learningRate" else plain[key]["default"])
        assert block["type"].count("(") == block["type"].count(")")
        kind = {str: "lib.types.str", bool: "lib.types.bool", float: "lib.types.float", int: "lib.types.int"}
        if type(default) in kind and "enum" not in block["type"]:
            assert kind[type(default)] in block["type"]
        if default is None:
            assert block["type"].startswith("lib.types.nullOr ")


@pytest.mark.parametrize(
    ("key", "type_", "default"),
    [
        ("train.learningRate", "lib.types.str", '"3e-4"'),
        ("agent.netArch", "lib.types.listOf lib.types.int", "[ 64 64 ]"),
        ("registry.minReward", "lib.types.nullOr lib.types.float", "null"),
        ("metrics.protocol", 'lib.types.enum [ "grpc" "http" ]', '"http"'),
        ("train.gamma", "lib.types.float", "0.99"),
        ("eval.deterministic", "lib.types.bool", "true"),
        ("env.seed", 'lib.types.nullOr (lib.types.either lib.types.int (lib.types.enum [ "random" ]))', "null"),
    ],
)
def test_lines_of_the_nix_module(key, type_, default):
    block = f"  options.rl.{key} = lib.mkOption {{\n    type = {type_};\n    default = {default};\n"
    assert block in as_nix()


def test_nix_texts_are_escaped():
    assert nix_value('a "b" \\ ${c}') == '"a \\"b\\" \\\\ \\${c}"'


@pytest.mark.parametrize(("number", "text"), [(3e-4, "3e-4"), (2.5e-4, "2.5e-4"), (1.0, "1e0"), (-120.0, "-1.2e2")])
def test_scientific_notation(number, text):
    assert scientific(number) == text
    assert float(text) == number


def test_json_is_json_and_complete():
    data = json.loads(json.dumps(as_json()))
    assert [feature["feature"] for feature in data] == [feature.name for feature in FEATURES]
    assert sum(len(feature["options"]) for feature in data) == len(OPTIONS)
    (gamma,) = (option for feature in data for option in feature["options"] if option["key"] == "train.gamma")
    assert gamma == {
        "name": "gamma",
        "key": "train.gamma",
        "type": "number",
        "choices": [],
        "default": 0.99,
        "env": ["RL_TRAIN_GAMMA", "ALPHASWARM_RL_TRAIN_GAMMA"],
        "flag": "--gamma",
        "target": "spec",
        "path": "agent.kwargs.gamma",
        "description": "Discount factor.",
        "part": None,
    }


def test_rows_have_every_column():
    listed = [row for feature in FEATURES for row in rows(feature)]
    assert len(listed) == len(OPTIONS)
    assert {len(row) for row in listed} == {len(COLUMNS)}
    assert listed[0][:5] == ("env.envId", "text", "CartPole-v1", "RL_ENV_ID", "--env-id")


def test_markdown_has_one_row_per_option_and_escaped_bars():
    text = as_markdown()
    table = [line for line in text.splitlines() if line.startswith("| `")]
    assert len(table) == len(OPTIONS)
    assert {len(re.findall(r"(?<!\\)\|", line)) for line in table} == {len(COLUMNS) + 1}
    assert "## Env\n\nEnvironment definition (Gym/Gymnasium). `EnvSpec → Env`, Computation.\n" in text


@pytest.mark.parametrize(
    "path", [None, "", "RL", "Modules/Computation/Services/RL", "Modules/Computation/Services/RL/"]
)
def test_the_module_is_all_features(path):
    assert introspect(path) == FEATURES


@pytest.mark.parametrize("path", ["Modules/Computation/Services/RL/Universe/Env", "Env", "env", "RL/Env/"])
def test_a_feature_is_itself(path):
    assert [feature.name for feature in introspect(path)] == ["Env"]


def test_anything_else_names_the_nearest():
    with pytest.raises(OptionError, match="Did you mean 'Metrics'"):
        introspect("RL/Universe/Metric")
    with pytest.raises(OptionError, match="not RL or a feature"):
        introspect("Modules/Computation/Services/Web")
