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


def escaped(text: str, *, keep: str = "") -> str:
    r"""The text with control characters as they are written in JSON, such as \u001b.

    Args:
        text: Any text.
        keep: Control characters that stay, such as the newlines of a document.
    """
    return _CONTROL.sub(lambda found: found[0] if found[0] in keep else f"\\u{ord(found[0]):04x}", text)


def control_character(text: str) -> str | None:
    """Why the text is no name: the first control character in it; None where there is none."""
    found = _CONTROL.search(text)
    return None if found is None else f"it contains the control character U+{ord(found[0]):04X}"


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
