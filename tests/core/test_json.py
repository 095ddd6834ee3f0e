"""JSON of others: what is beyond the limits is refused with the reason."""

import json

import pytest

from alphaswarm_rl.core.json import MOST_NESTED, load_json, refuse_excess


def nested(depth, kind):
    value = 1
    for _ in range(depth):
        value = [value] if kind is list else {"a": value}
    return value


def test_honest_json_is_read_as_python_reads_it():
    document = {"a": [1, -2.5, True, None, "\u00e4", 2**128], "b": {}}
    assert load_json(json.dumps(document)) == load_json(json.dumps(document).encode()) == document


@pytest.mark.parametrize("kind", [list, dict])
def test_nesting_is_bounded(kind):
    assert load_json(json.dumps(nested(MOST_NESTED, kind))) == nested(MOST_NESTED, kind)
    with pytest.raises(ValueError, match=f"nested too deeply: {MOST_NESTED}"):
        load_json(json.dumps(nested(MOST_NESTED + 1, kind)))


def test_nesting_that_python_itself_cannot_read_is_the_same_error():
    with pytest.raises(ValueError, match="nested too deeply"):
        load_json("[" * 100_000 + "]" * 100_000)


def test_integers_are_bounded_before_and_after_python_does():
    assert load_json(str(2**256 - 1)) == 2**256 - 1
    for digits in (str(2**256), "-" + str(2**256), "9" * 4000, "9" * 5000):
        with pytest.raises(ValueError, match=r"257 bits|13288 bits|4300 digits"):
            load_json(f'{{"a": [{digits}]}}')


@pytest.mark.parametrize("text", ['"\\ud800"', '{"\\udfff": 1}', '[["\\ud800x"]]'])
def test_half_of_a_character_is_refused_in_texts_and_keys(text):
    with pytest.raises(ValueError, match="half of a character"):
        load_json(text)


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe\x00", b"\x00", b"{} {}", b'{"a": "\x80"}'])
def test_what_is_no_json_is_a_value_error(content):
    with pytest.raises(ValueError):
        load_json(content)


def test_data_of_another_reader_is_held_to_the_same_limits():
    refuse_excess({"a": [1.5, None, True]})
    with pytest.raises(ValueError, match="nested"):
        refuse_excess(nested(MOST_NESTED + 1, list))
