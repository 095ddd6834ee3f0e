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


def test_scopes(rl, home, trained):
    run = trained["run_id"]
    assert rl("halt", "--scope", "platform", "--reason", "all", "--json").json["scope"] == "*"
    assert "platform" in rl("halt", "--status").out
    assert rl("halt", "--scope", "platform", "--release", "--reason", "over").code == 0
    assert rl("halt", "--scope", f"run:{run}", "--reason", "one", "--json").json["scope"] == run
    assert rl("halt", "--scope", f"run:{run}", "--release", "--reason", "over").code == 0
    assert rl("halt", "--scope", "bot:grid", "--reason", "hot", "--json").json["scope"] == "bot:grid"
    assert "bot:grid" in rl("halt", "--status").out
    assert (home / "ledger.db.bot-grid.halt").exists()
    refused = rl("infer", "--bot", "grid", stdin="")
    assert refused.code == 2
    assert "it is engaged: hot" in refused.err
    assert "rl halt --scope bot:grid --release" in refused.err
    assert rl("infer", "--bot", "other", stdin="").code == 0
    assert rl("infer", stdin="").code == 0
    assert rl("halt", "--scope", "bot:grid", "--release", "--reason", "over").code == 0
    assert rl("halt", "--status").out == "nothing is halted\n"


def test_wrong_scopes(rl, trained):
    for words, why in (
        (("--scope", "bot:Grid"), "a bot's name is of a-z"),
        (("--scope", ""), "--scope is empty"),
        (("--scope", "platform", trained["run_id"]), "RUN and --scope both name what is meant"),
        (("--scope", "run:platform"), "platform"),
        (("platform",), "platform"),
    ):
        refused = rl("halt", *words, "--reason", "x")
        assert refused.code == 2
        assert why in refused.err
    assert rl("halt", "--scope", "platform", "--status").code == 2
    assert rl("halt", "--log", "--json").json == []


def test_a_bot_is_halted_while_the_ledger_is_locked(rl, home, trained):
    with locked(home / "ledger.db"):
        halted = rl("halt", "--scope", "bot:grid", "--reason", "now", "--json")
        assert (halted.code, halted.json["scope"]) == (0, "bot:grid")
        assert f"holds by the file {home / 'ledger.db.bot-grid.halt'}" in halted.err
