"""`rl halt`."""

from tests.ledger.troubles import locked


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


def test_a_halt_of_a_locked_ledger_holds_by_its_file_and_says_so(rl, home, trained):
    ledger = home / "ledger.db"
    run = trained["run_id"]
    with locked(ledger):
        halted = rl("halt", "--reason", "now", "--json")
        one = rl("halt", run, "--reason", "this too", "--json")
        assert (halted.code, halted.json["engaged"], halted.json["reason"]) == (0, True, "now")
        assert f"the halt holds by the file {ledger}.halt; the row in the ledger follows" in halted.err
        assert f"{ledger}.{run}.halt" in one.err
        assert [row["reason"] for row in rl("halt", "--status", "--json").json] == ["now", "this too"]
        assert "engaged: now" in rl("infer", stdin="").err
        assert rl("halt", "--log", "--json").json == []
    assert rl("halt", "--release", "--reason", "over").code == 0
    assert rl("halt", run, "--release", "--reason", "over").code == 0
    assert rl("halt", "--status").out == "nothing is halted\n"
    assert not list(home.glob("*.halt"))


def test_a_halt_of_a_ledger_that_cannot_be_opened_holds_by_its_file(rl, home, trained):

    (home / "ledger.db").write_bytes(b"no database at all")
    halted = rl("halt", "--reason", "now", "--json")
    assert halted.code == 0
    assert "the halt holds by the file" in halted.err
    assert (home / "ledger.db.halt").exists()
    refused = rl("halt", "latest", "--reason", "one run")
    assert refused.code == 2
    assert "not an SQLite database" in refused.err
