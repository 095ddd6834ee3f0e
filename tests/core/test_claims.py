"""Claims: their folders, and what a process hears that lost its run."""

from pathlib import Path

import pytest

from alphaswarm_rl.core.claims import Claim, claim_folders, newest_folder, number_of, run_folder


def test_the_first_claim_has_the_run_s_own_folder_and_later_ones_theirs(tmp_path):
    assert Claim("r").folder(tmp_path) == tmp_path
    assert Claim("r", 2).folder(tmp_path) == tmp_path / "claim-000002"
    assert Claim("r", 1_000_000).folder(tmp_path) == tmp_path / "claim-1000000"


@pytest.mark.parametrize(("name", "number"), [("claim-000002", 2), ("claim-1000000", 1_000_000), ("run", 1)])
def test_a_folder_says_whose_it_is(name, number):
    assert number_of(Path("x") / name) == number


def test_the_newest_claim_is_the_one_with_the_highest_number(tmp_path):
    root = tmp_path / "run"
    assert list(claim_folders(root)) == []
    assert newest_folder(root) == root
    for name in ("claim-000002", "claim-000010", "claim-000009", "train", "claim-x"):
        (root / name).mkdir(parents=True)
    assert [path.name for path in claim_folders(root)] == ["claim-000010", "claim-000009", "claim-000002", "run"]
    assert newest_folder(root).name == "claim-000010"


def test_the_folder_of_a_run_is_found_from_any_checkpoint():
    assert run_folder(Path("/m/run/000000000512")) == Path("/m/run")
    assert run_folder(Path("/m/run/claim-000003/000000000512")) == Path("/m/run")


def test_a_process_that_lost_its_run_hears_why():
    resumed, removed = Claim("r", 2).stale(3), Claim("r", 2).stale(None)
    assert str(resumed) == (
        "the run r: another process resumed it while this one stood still (claim 3, and this one has 2). "
        "This process writes nothing more. See: rl runs show r."
    )
    assert "it was removed while this process stood still" in str(removed)
    assert resumed.exit_code == removed.exit_code == 4
