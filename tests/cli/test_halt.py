"""`rl halt`."""


def test_everything_is_halted_and_released(rl, random_spec):
    engaged = rl("halt", "--reason", "a test", "--json").json
    assert engaged["scope"] == "*"
    assert engaged["engaged"] is True
    assert [row["reason"] for row in rl("halt", "--status", "--json").json] == ["a test"]
    refused = rl("train", random_spec)
    assert refused.code == 2
    assert "a test" in refused.err
    assert rl("halt", "--release", "--reason", "over", "--json").json["engaged"] is False
    assert rl("halt", "--status").out == "nothing is halted\n"
    assert rl("train", random_spec).code == 0


def test_one_run(rl, trained):
    assert rl("halt", trained["run_id"][:8], "--reason", "x", "--json").json["scope"] == trained["run_id"]
    assert trained["run_id"] in rl("halt", "--status").out


def test_wrong_input(rl):
    assert "--reason" in rl("halt").err
    assert rl("halt").code == 2
    assert rl("halt", "--status", "--release").code == 2
    assert rl("halt", "--release", "--reason", "x").code == 2
    assert rl("halt", "--reason", " ").code == 2
    assert rl("halt", "deadbeef", "--reason", "x").code == 2


def test_an_empty_run_is_not_everything(rl):
    """As an unset variable of a script would have it."""
    for words in ((), ("--release",)):
        refused = rl("halt", "", *words, "--reason", "a test")
        assert refused.code == 2
        assert "RUN is empty" in refused.err
    assert rl("halt", "--status", "--json").json == []


def test_the_log_tells_who_halted_and_released_what(rl):
    rl("halt", "--reason", "drill")
    rl("halt", "--release", "--reason", "over")
    entries = rl("halt", "--log", "--json").json
    assert [(entry["action"], entry["reason"]) for entry in entries] == [("engage", "drill"), ("release", "over")]
    assert rl("halt", "--log", "--status").code == 2
