import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alphaswarm_rl.core.errors import SpecError
from alphaswarm_rl.core.hashing import canonical_json, canonical_number

# Published vectors of RFC 8785, appendix B: IEEE 754 bits and how ECMAScript prints them.
RFC_8785 = [
    ("0000000000000000", "0"),
    ("8000000000000000", "0"),
    ("0000000000000001", "5e-324"),
    ("8000000000000001", "-5e-324"),
    ("7fefffffffffffff", "1.7976931348623157e+308"),
    ("4340000000000000", "9007199254740992"),
    ("4430000000000000", "295147905179352830000"),
    ("44b52d02c7e14af5", "9.999999999999997e+22"),
    ("44b52d02c7e14af6", "1e+23"),
    ("44b52d02c7e14af7", "1.0000000000000001e+23"),
    ("444b1ae4d6e2ef4e", "999999999999999700000"),
    ("444b1ae4d6e2ef4f", "999999999999999900000"),
    ("444b1ae4d6e2ef50", "1e+21"),
    ("3eb0c6f7a0b5ed8c", "9.999999999999997e-7"),
    ("3eb0c6f7a0b5ed8d", "0.000001"),
    ("41b3de4355555553", "333333333.3333332"),
    ("becbf647612f3696", "-0.0000033333333333333333"),
    ("43143ff3c1cb0959", "1424953923781206.2"),
]


@pytest.mark.parametrize(("bits", "text"), RFC_8785)
def test_numbers_are_written_as_the_standard_writes_them(bits, text):
    import struct

    (number,) = struct.unpack(">d", bytes.fromhex(bits))
    assert canonical_number(number) == text


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_every_number_reads_back_as_itself(number):
    assert float(canonical_number(number)) == number


def test_one_and_one_point_zero_are_one_number():
    assert canonical_json({"a": 1}) == canonical_json({"a": 1.0})


def test_key_order_does_not_matter_and_true_is_not_one():
    assert canonical_json({"b": 1, "a": True}) == '{"a":true,"b":1}'


def test_text_is_kept_as_it_is():
    assert json.loads(canonical_json({"é\u2028": "\n€"})) == {"é\u2028": "\n€"}


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_what_is_not_finite_is_refused(number):
    with pytest.raises(SpecError, match="not finite"):
        canonical_json([number])


def test_an_integer_that_json_cannot_hold_is_refused():
    with pytest.raises(SpecError, match="too large"):
        canonical_json(2**53)
