"""What must hold among the rows of a run, on rows in memory: each flaw is found, and only that."""

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from alphaswarm_rl.lake.row_checks import flaws
from alphaswarm_rl.lake.tables import KINDS
from tests.lake.rows import rows

STEPS = 3


def flaws_of(changes=None, *, every_episode=True, continues=False, parts=({},)):
    """What is wrong with these rows, in short: two episodes of each part, some kinds of them changed."""
    tables = {kind: pa.concat_tables([rows(kind, **{"episodes": 2, **part}) for part in parts]) for kind in KINDS}
    with duckdb.connect() as connection:
        for kind, table in tables.items():
            connection.register(kind, (changes or {}).get(kind, lambda table: table)(table))
        found = flaws(connection, every_episode=every_episode, continues=continues)
    return [(flaw.kind, flaw.phase, flaw.check) for flaw in found]


def every(change):
    return dict.fromkeys(KINDS, change)


def where(condition):
    """Keeps the rows of which that holds."""
    return lambda table: table.filter(condition(table))


def changed(column, row, by):
    """Adds to one value."""

    def change(table):
        values = table[column].combine_chunks().to_numpy(zero_copy_only=False).copy()
        values[row] += by
        return table.set_column(table.column_names.index(column), column, pa.array(values, table[column].type))

    return change


def not_step(episode, step):
    return where(lambda table: pc.invert(pc.and_(pc.equal(table["episode"], episode), pc.equal(table["step"], step))))


TRAIN, EVALUATE = {"phase": "train"}, {"phase": "evaluate"}


def test_sound_rows_have_no_flaw():
    assert flaws_of(parts=(TRAIN, EVALUATE, {"env_idx": 1})) == []


@pytest.mark.parametrize(
    ("phase", "episode", "continues", "gap"),
    [
        ("train", 0, True, False),  # it begins in the middle of the first episode
        ("train", 1, True, True),  # and of no other
        ("train", 0, False, True),
        ("evaluate", 0, True, True),  # judged episodes begin at their beginning
    ],
)
def test_an_episode_that_begins_late_is_a_gap_unless_the_training_goes_on(phase, episode, continues, gap):
    found = flaws_of(every(not_step(episode, 0)), continues=continues, parts=({"phase": phase},))
    assert found == [("trajectories", phase, "gaps")] * gap


def test_a_step_that_is_missing_in_the_middle_is_a_gap_whether_it_goes_on_or_not():
    for continues in (False, True):
        assert flaws_of(every(not_step(1, 1)), continues=continues) == [("trajectories", "train", "gaps")]


@pytest.mark.parametrize("continues", [False, True])
def test_a_training_that_goes_on_counts_episodes_from_its_first(continues):
    parts = ({"first_episode": 4},)
    missing = [("trajectories", "train", "episodes")]
    assert flaws_of(parts=parts, continues=continues) == ([] if continues else missing)
    assert flaws_of(parts=parts, every_episode=False) == []
    assert flaws_of(parts=({}, {"first_episode": 3}), continues=continues) == missing


def test_a_doubled_step_is_named_as_that_and_as_nothing_else():
    twice = {kind: lambda table: pa.concat_tables([table, table.slice(0, 1)]) for kind in ("trajectories",)}
    assert flaws_of(twice) == [("trajectories", "train", "duplicates")]


def test_doubled_rows_of_every_kind_are_named():
    for kind in ("equity_curves", "action_logs", "positions", "fills"):
        twice = {kind: lambda table: pa.concat_tables([table, table.slice(0, 1)])}
        assert flaws_of(twice) == [(kind, "train", "duplicates")], kind
    twice = {"reward_decomposition": lambda table: pa.concat_tables([table, table.slice(2, 1)])}
    assert flaws_of(twice) == [("reward_decomposition", "train", "duplicates")]


def test_an_environment_may_have_no_account_and_no_reward_terms_and_must_have_actions():
    none = where(lambda table: pc.less(table["step"], 0))
    for kinds in (("equity_curves", "positions", "fills"), ("reward_decomposition",), ("positions", "fills")):
        assert flaws_of(dict.fromkeys(kinds, none)) == [], kinds
    assert flaws_of({"action_logs": none}) == [("action_logs", "train", "incomplete")]


def test_a_step_without_equity_and_one_without_a_reward_are_named():
    last = not_step(1, STEPS - 1)
    assert ("equity_curves", "train", "incomplete") in flaws_of({"equity_curves": last})
    found = flaws_of({kind: last for kind in KINDS if kind != "reward_decomposition"})
    assert found == [("reward_decomposition", "train", "rewards")]


def test_positions_of_some_phases_alone_are_whole_there():
    judged = {kind: where(lambda table: pc.equal(table["phase"], "evaluate")) for kind in ("positions", "fills")}
    assert flaws_of(judged, parts=(TRAIN, EVALUATE)) == []
    first = not_step(0, 0)
    cut = {kind: lambda table, keep=keep: first(keep(table)) for kind, keep in judged.items()}
    assert flaws_of(cut, parts=(TRAIN, EVALUATE)) == [("positions", "evaluate", "incomplete")]


def test_a_fill_needs_the_position_of_its_own_asset():
    assert flaws_of({"fills": changed("asset_idx", 0, 7)}) == [("fills", "train", "incomplete")]


def test_money_is_held_to_a_billionth_of_the_account():
    """The account is some 1000 before and after the step: a billionth of that is 2e-6."""
    assert flaws_of({"equity_curves": changed("portfolio_value", 0, 1e-7)}) == []
    assert flaws_of({"equity_curves": changed("portfolio_value", 0, 1e-5)}) == [("positions", "train", "money")]


def test_carry_and_splits_are_part_of_the_sum():
    def carried(table):
        return changed("carry", 0, 2.0)(changed("quantity_before", 0, 2.0)(table))

    assert flaws_of({"positions": carried, "equity_curves": changed("carry", 0, 2.0)}) == []

    def split(table):
        return changed("split_quantity", 1, 0.5)(changed("quantity_before", 1, -0.5)(table))

    assert flaws_of({"positions": split}) == []


@pytest.mark.parametrize(("by", "flaw"), [(1e-12, False), (1e-6, True)])
def test_contributions_sum_to_the_reward_relative_to_their_size(by, flaw):
    """Two large contributions that nearly cancel may be off by what they are rounded to."""

    def cancelling(table):
        return changed("contribution", 2, 1e4)(changed("contribution", 3, -1e4 + by * 1e4)(table))

    assert flaws_of({"reward_decomposition": cancelling}) == [("reward_decomposition", "train", "rewards")] * flaw


def test_an_infinite_reward_is_the_sum_of_an_infinite_contribution():
    infinite = {"trajectories": changed("reward", 0, float("inf"))}
    infinite["reward_decomposition"] = changed("contribution", 0, float("inf"))
    assert flaws_of(infinite) == []
