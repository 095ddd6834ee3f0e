import json
import unicodedata

import pytest

from alphaswarm_rl.core.control_characters import (
    LONGEST_REASON,
    control_character,
    escaped,
    refuse_control_characters,
    refuse_long_reason,
)
from alphaswarm_rl.core.errors import LedgerError

#: Both ends of every range: C0, DEL and C1, marks of direction, separators, overrides, isolates, surrogates.
HOSTILE = "\x00\x1b\x1f\x7f\x9b\x9f\u061c\u200e\u200f\u2028\u2029\u202a\u202e\u2066\u2069\ud800\udfff"
#: Their neighbours, and what people write.
HARMLESS = " ~\xa0é漢字🙂\u200d\u2027\u202f\u2065\u206a\u061b\u061d\u200b\u200c\u2010\ue000"


@pytest.mark.parametrize("character", HOSTILE, ids=lambda each: f"U+{ord(each):04X}")
def test_a_hostile_character_is_escaped_and_refused(character):
    assert escaped(f"a{character}b") == f"a\\u{ord(character):04x}b"
    assert json.loads(f'"{escaped(character)}"') == character
    with pytest.raises(LedgerError) as raised:
        refuse_control_characters("the reason", f"a{character}b", LedgerError)
    half = unicodedata.category(character) == "Cs"
    assert raised.value.why.startswith("it contains " + ("half of a pair" if half else "the control character"))
    assert f"U+{ord(character):04X}" in raised.value.why
    assert raised.value.what == "the reason"


def test_a_byte_that_is_no_utf_8_is_called_that():
    assert control_character(b"caf\xe9".decode(errors="surrogateescape")) == (
        "it is no UTF-8: it contains the byte 0xE9"
    )


def test_a_reason_is_no_longer_than_anybody_reads():
    refuse_long_reason("the reason", "x" * LONGEST_REASON, LedgerError)
    with pytest.raises(LedgerError, match="it has 1001 characters, and may have 1000"):
        refuse_long_reason("the reason", "x" * (LONGEST_REASON + 1), LedgerError)


def test_every_control_character_of_unicode_is_hostile():
    categories = ("Cc", "Zl", "Zp", "Cs")
    hostile = (chr(code) for code in range(0x110000) if unicodedata.category(chr(code)) in categories)
    assert all(control_character(character) is not None for character in hostile)


def test_what_people_write_stays():
    assert escaped(HARMLESS) == HARMLESS
    assert control_character(HARMLESS) is None
    refuse_control_characters("the reason", HARMLESS, LedgerError)


def test_what_is_kept_is_not_escaped():
    assert escaped("a\n\tb\r", keep="\n\t") == "a\n\tb\\u000d"


def test_the_first_one_is_named():
    assert control_character("a\x1b\x07") == "it contains the control character U+001B"
