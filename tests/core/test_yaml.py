import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alphaswarm_rl.core.errors import SpecError
from alphaswarm_rl.core.yaml import dump_yaml, load_yaml, load_yaml_file

PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs", "Cc"])),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=8), inner, max_size=3)
    ),
    max_leaves=12,
)


def test_tickers_that_look_like_booleans_stay_text():
    assert load_yaml("[ON, NO, YES, off, y, n]") == ["ON", "NO", "YES", "off", "y", "n"]


def test_scientific_notation_is_a_number():
    assert load_yaml("[3e-4, 1E5, .5, -2.5e+3]") == [3e-4, 1e5, 0.5, -2500.0]


def test_there_are_no_dates_no_octal_and_no_sexagesimals():
    assert load_yaml("[2024-01-31, 0o17, 1:30, 0x1F, 1_000]") == ["2024-01-31", "0o17", "1:30", "0x1F", "1_000"]


def test_only_true_and_false_are_booleans():
    assert load_yaml("[true, False, TRUE, null, ~]") == [True, False, True, None, None]


@pytest.mark.parametrize(
    "text",
    [
        "!!python/object/apply:os.system ['true']",
        "a: !!python/name:os.system",
        "!!python/object/new:os.system [x]",
        "a: !custom 1",
    ],
)
def test_tags_are_refused_by_name(text):
    with pytest.raises(SpecError, match=r"tag .* is not plain data.*never runs code"):
        load_yaml(text)


def test_a_key_that_appears_twice_is_an_error_with_its_line():
    with pytest.raises(SpecError, match=r"line 3.*'a' appears twice"):
        load_yaml("a: 1\nb: 2\na: 3\n")


def test_a_key_that_is_not_text_is_an_error():
    with pytest.raises(SpecError, match="not text; quote it"):
        load_yaml("1: a")


def test_anchors_work_but_a_bomb_of_them_is_refused():
    assert load_yaml("a: &x {b: 1}\nc: {<<: *x, d: 2}") == {"a": {"b": 1}, "c": {"b": 1, "d": 2}}
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 10)]
    with pytest.raises(SpecError, match="expand to too much"):
        load_yaml("\n".join(lines))


def test_an_anchor_that_contains_itself_is_refused():
    with pytest.raises(SpecError, match="contains itself"):
        load_yaml("a: &a [*a]")


@pytest.mark.parametrize("depth", [65, 3000])
def test_nesting_without_end_is_an_error(depth):
    with pytest.raises(SpecError, match="too deeply"):
        load_yaml("{a: " * depth + "1" + "}" * depth)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("a: !!timestamp 2020-01-31", "not plain data"),
        ("a: !!binary aGk=", "not plain data"),
        ("a: !!set {b}", "not plain data"),
        ("a: !!bool x", "!!bool does not fit"),
        ("a: !!int x", "!!int does not fit"),
        ("a: !!map [1]", "!!map does not fit"),
        ("a: !!seq {b: 1}", "!!seq does not fit"),
    ],
)
def test_tags_of_other_data_and_tags_that_do_not_fit_are_refused(text, why):
    with pytest.raises(SpecError, match=f"line 1: .*{why}"):
        load_yaml(text)


def test_tags_that_say_what_is_so_change_nothing():
    assert load_yaml("{a: !!int 5, b: !!str 5, c: !!float 1.5, d: !!map {e: !!seq [1]}}") == {
        "a": 5, "b": "5", "c": 1.5, "d": {"e": [1]},
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("a: " + "9" * 5000, "line 1: an integer of 5000 digits"),
        ("a: " + "9" * 4000, "an integer of 13288 bits"),
        ("a: \0", "special characters"),
        ('a: "\\ud800"', "half of a character"),
        ("a: \udc80", "special characters"),
    ],
)
def test_what_no_honest_file_has_is_refused_with_the_reason(text, why):
    with pytest.raises(SpecError, match=why) as caught:
        load_yaml(text)
    assert "\n" not in str(caught.value)


@pytest.mark.timeout(20)
def test_a_fifo_and_a_file_of_too_many_bytes_are_refused(tmp_path):
    os.mkfifo(tmp_path / "fifo.yaml")
    with pytest.raises(SpecError, match=r"fifo.yaml is a FIFO"):
        load_yaml_file(tmp_path / "fifo.yaml")
    large = tmp_path / "large.yaml"
    large.write_text("# " + "x" * (2**20 - 8) + "\na: 1\n")
    assert load_yaml_file(large) == {"a": 1}
    large.write_text("# " + "x" * (2**20 - 7) + "\na: 1\n")
    with pytest.raises(SpecError, match="may have 1048576"):
        load_yaml_file(large)


def test_broken_yaml_names_the_line():
    with pytest.raises(SpecError, match="line 2"):
        load_yaml("a: 1\n b: [")


def test_a_missing_file_and_a_binary_one_are_errors(tmp_path):
    with pytest.raises(SpecError, match="does not exist"):
        load_yaml_file(tmp_path / "none.yaml")
    binary = tmp_path / "binary.yaml"
    binary.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(SpecError, match="cannot be read"):
        load_yaml_file(binary)


@given(PLAIN)
def test_what_is_written_reads_back_as_the_same_data(data):
    again = load_yaml(dump_yaml(data))
    assert again == data
    assert type(again) is type(data)
