"""`rl options`."""

from alphaswarm_rl.options.render import as_markdown, as_nix
from alphaswarm_rl.options.table import FEATURES, OPTIONS


def test_the_table(rl):
    text = rl("options").out
    for option in OPTIONS:
        assert option.key in text
        assert option.flag in text


def test_json(rl):
    document = rl("options", "--json").json
    assert [feature["feature"] for feature in document] == [feature.name for feature in FEATURES]
    assert sum(len(feature["options"]) for feature in document) == len(OPTIONS)


def test_nix_and_markdown(rl):
    assert rl("options", "--nix").out == as_nix()
    assert rl("options", "--markdown").out == as_markdown()


def test_one_feature(rl):
    (feature,) = rl("options", "Modules/RL/Universe/Train", "--json").json
    assert feature["feature"] == "Train"


def test_wrong_input(rl):
    assert rl("options", "--nix", "--markdown").code == 2
    assert rl("options", "RL/Trian").code == 2


def test_it_works_with_a_wrong_variable(rl, monkeypatch):
    monkeypatch.setenv("ALPHASWARM_RL_HOEM", "x")
    assert rl("options").code == 0
