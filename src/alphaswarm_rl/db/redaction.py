"""Takes passwords out of database URLs, and of texts and documents with such, before anybody sees them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import unquote

MASK = "***"

_SECRET_WORDS = ("password", "passwd", "pwd", "passphrase", "secret", "token", "apikey", "api_key", "access_key")
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^\s\"'<>]+")
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


def redact_text(text: str) -> str:
    """A text without the secrets of URLs and parameters that stand in it."""
    return _PARAMETER.sub(_masked, _URL.sub(lambda url: redact(url[0]), text))


def redact_document(value: object) -> object:
    """A JSON document without secrets: in its texts, and under keys that say so."""
    if isinstance(value, Mapping):
        return {
            key: MASK if isinstance(item, str) and _is_secret(str(key)) else redact_document(item)
            for key, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [redact_document(item) for item in value]
    return redact_text(value) if isinstance(value, str) else value


def _without_password(rest: str) -> str:
    # A password may hold '@', '/' and '?' that nobody escaped, so it reaches to the LAST '@'.
    end = rest.rfind("@")
    start = rest.find(":", 0, max(end, 0))
    if start < 0 or "/" in rest[:start]:
        return rest
    return f"{rest[:start]}:{MASK}{rest[end:]}"


def _masked(match: re.Match[str]) -> str:
    return f"{match['key']}={MASK}" if _is_secret(match["key"]) else match[0]


def _is_secret(key: str) -> bool:
    name = unquote(key).lower()
    return any(word in name for word in _SECRET_WORDS)
