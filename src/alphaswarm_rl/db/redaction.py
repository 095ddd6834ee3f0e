"""Takes passwords out of a database URL before anybody sees it."""

from __future__ import annotations

import re
from urllib.parse import unquote

MASK = "***"

_SECRET_WORDS = ("password", "passwd", "pwd", "passphrase", "secret", "token", "apikey", "api_key", "access_key")
_PARAMETER = re.compile(r"(?P<key>[^=?&;\s]+)=(?P<value>'[^']*'|[^&;\s]*)")


def redact(url: object) -> str:
    """`url` as text without its secrets; where it is unclear what is secret, too much is hidden.

    Never raises: it is called while an error is being reported, often about this very URL.
    """
    text = str(url)
    scheme, separator, rest = text.partition("://")
    if separator:
        text = scheme + separator + _without_password(rest)
    return _PARAMETER.sub(_masked, text)


def _without_password(rest: str) -> str:
    # A password may hold '@', '/' and '?' that nobody escaped, so it reaches to the LAST '@'.
    end = rest.rfind("@")
    start = rest.find(":", 0, max(end, 0))
    if start < 0 or "/" in rest[:start]:
        return rest
    return f"{rest[:start]}:{MASK}{rest[end:]}"


def _masked(match: re.Match[str]) -> str:
    key = unquote(match["key"]).lower()
    if any(word in key for word in _SECRET_WORDS):
        return f"{match['key']}={MASK}"
    return match[0]
