"""Runs side by side write to one file."""

import json
import math
import multiprocessing

import numpy as np
import pytest

from alphaswarm_rl.telemetry.exporters import AppendedLines, plain


def _write(path, who):
    lines = AppendedLines(path)
    for number in range(40):
        lines.write(json.dumps({"who": who, "number": number, "text": "x" * 100_000}) + "\n")


def test_lines_of_several_processes_do_not_mix(tmp_path):
    path = tmp_path / "deep" / "lines.jsonl"
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=_write, args=(path, who)) for who in range(3)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
    found = [json.loads(line) for line in path.read_text().splitlines()]
    assert sorted((line["who"], line["number"]) for line in found) == [(a, b) for a in range(3) for b in range(40)]
    for who in range(3):
        assert [line["number"] for line in found if line["who"] == who] == list(range(40))


def test_a_file_that_was_moved_away_is_begun_anew(tmp_path):
    lines = AppendedLines(tmp_path / "lines.jsonl")
    lines.write("one\n")
    (tmp_path / "lines.jsonl").rename(tmp_path / "lines.old")
    lines.write("two\n")
    assert (tmp_path / "lines.jsonl").read_text() == "two\n"


@pytest.mark.parametrize(
    ("value", "as_written"),
    [
        ("text", "text"),
        (True, True),
        (np.float32(0.5), 0.5),
        (np.int64(3), 3),
        (math.nan, "nan"),
        (-math.inf, "-inf"),
        ([1, "a"], '[1, "a"]'),
        ({"a": np.int64(1)}, '{"a": "1"}'),
        (object, "<class 'object'>"),
    ],
)
def test_attributes_are_plain(value, as_written):
    assert plain({"name": value, "nothing": None}) == {"name": as_written}
    json.dumps(plain({"name": value}), allow_nan=False)
