from __future__ import annotations

import json
from dataclasses import replace

import pytest

from alphaswarm_rl.core.judgement import Judgement, judgement_differences

BARS = Judgement(
    "a" * 64,
    "2020-01-02",
    "2020-12-31",
    1,
    True,
    {"commission_rate": 0.0005, "fill": "next_open", "margin": {"initial": 1.0}},
)
UNDATED = Judgement(None, None, None, 10, True)


def test_equal_judgements_are_alike_and_have_one_key() -> None:
    again = Judgement.of(json.loads(json.dumps(BARS.as_dict())))  # as a table has it
    assert again == BARS
    assert again.key == BARS.key
    assert len(BARS.key) == 12
    assert judgement_differences(BARS, again) == []


def test_numbers_that_are_equal_have_one_key_however_they_are_written() -> None:
    assert replace(BARS, costs={**BARS.costs, "margin": {"initial": 1}}).key == BARS.key


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"data": "b" * 64}, "data: aaaaaaaaaaaa... and bbbbbbbbbbbb..."),
        ({"data": None}, "data: aaaaaaaaaaaa... and none"),
        ({"start": "2020-01-03"}, "first bar: 2020-01-02 and 2020-01-03"),
        ({"end": "2020-12-30"}, "last bar: 2020-12-31 and 2020-12-30"),
        ({"episodes": 2}, "episodes: 1 and 2"),
        ({"deterministic": False}, "deterministic: True and False"),
        ({"costs": {**BARS.costs, "fill": "same_close"}}, "fill: next_open and same_close"),
        ({"costs": {**BARS.costs, "margin": {"initial": 0.5}}}, "margin.initial: 1.0 and 0.5"),
        ({"costs": {**BARS.costs, "impact": 0.1}}, "impact: none and 0.1"),
    ],
)
def test_every_respect_in_which_two_judgements_differ_is_named(changed: dict[str, object], words: str) -> None:
    other = replace(BARS, **changed)  # type: ignore[arg-type]
    assert judgement_differences(BARS, other) == [words]
    assert other.key != BARS.key


def test_all_differences_are_named_at_once() -> None:
    other = replace(BARS, episodes=3, costs={})
    assert [line.partition(":")[0] for line in judgement_differences(BARS, other)] == [
        "episodes",
        "commission_rate",
        "fill",
        "margin.initial",
    ]


@pytest.mark.parametrize("pair", [(None, BARS), (BARS, None), (None, None)])
def test_what_was_not_kept_is_like_nothing(pair: tuple[Judgement | None, Judgement | None]) -> None:
    (why,) = judgement_differences(*pair)
    assert "not known" in why


def test_a_judgement_is_dated_by_bars_or_by_either_date() -> None:
    assert not UNDATED.dated
    assert UNDATED.window == "no dates"
    assert all(replace(UNDATED, **{name: "2020-01-01"}).dated for name in ("data", "start", "end"))
    assert BARS.window == "2020-01-02 to 2020-12-31"
    assert replace(BARS, start=None, end=None).window == "the first bar to the last bar"
