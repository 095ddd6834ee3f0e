"""Characters that command a terminal instead of standing for something.

They are the control characters (C0 with the escape that ANSI sequences begin with, DEL, C1), the separators of lines
and paragraphs, the marks that turn the direction of text, and halves of surrogate pairs, which Python makes of bytes
that are no UTF-8. Names, symbols, tags and reasons that somebody gives us have none of them; whatever is shown has them
escaped.
"""

from __future__ import annotations

import re

from alphaswarm_rl.core.errors import AlphaSwarmError

_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


#: The halves of surrogate pairs, and those that stand for the bytes 0x80 to 0xFF of a text that is no UTF-8.
_FIRST_HALF, _LAST_HALF = 0xD800, 0xDFFF
_FIRST_BYTE, _LAST_BYTE = 0xDC80, 0xDCFF
#: Characters that a reason may have.
LONGEST_REASON = 1000


def escaped(text: str, *, keep: str = "") -> str:
    r"""The text with control characters as they are written in JSON, such as \u001b.

    Args:
        text: Any text.
        keep: Control characters that stay, such as the newlines of a document.
    """
    return _CONTROL.sub(lambda found: found[0] if found[0] in keep else f"\\u{ord(found[0]):04x}", text)


def control_character(text: str) -> str | None:
    """Why the text is no name: the first control character, or half of a pair, in it; None where there is none."""
    found = _CONTROL.search(text)
    if found is None:
        return None
    code = ord(found[0])
    if _FIRST_BYTE <= code <= _LAST_BYTE:  # how Python reads a byte that stands for no character
        return f"it is no UTF-8: it contains the byte 0x{code - _FIRST_BYTE + 0x80:02X}"
    if _FIRST_HALF <= code <= _LAST_HALF:
        return f"it contains half of a pair, U+{code:04X}, which stands for no character alone"
    return f"it contains the control character U+{code:04X}"


def refuse_long_reason(what: str, text: str, error: type[AlphaSwarmError]) -> None:
    """Raises the error where a reason that is kept for good is longer than anybody reads.

    Args:
        what: What the text is, such as "the reason of the kill switch".
        text: The text that somebody gave.
        error: The error of the caller.
    """
    if len(text) > LONGEST_REASON:
        why = f"it has {len(text)} characters, and may have {LONGEST_REASON}"
        raise error(what, why, "Say it in fewer words, and where the rest is written.")


def refuse_control_characters(what: str, text: str, error: type[AlphaSwarmError]) -> None:
    """Raises the error where the text has a control character.

    Args:
        what: What the text is, such as "the reason of the kill switch".
        text: The text that somebody gave.
        error: The error of the caller.
    """
    why = control_character(text)
    if why is not None:
        raise error(what, why, "Use letters, digits, spaces and punctuation.")
