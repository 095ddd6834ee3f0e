"""Whether a tracking server answers at all: checked before a client library is loaded that would retry for minutes."""

from __future__ import annotations

import ssl
from http.client import HTTPException
from urllib.error import HTTPError
from urllib.parse import urlsplit, urlunsplit
from urllib.request import Request, urlopen

from alphaswarm_rl.tracking.destination import shown

_TIMEOUT_S = 3.0
_BROKEN = 500


class Silent(Exception):
    """A server that does not answer."""


def refuse_silence(uri: str, path: str = "") -> None:
    """Raises `Silent` unless something answers at an http address.

    Args:
        uri: The address.
        path: What is asked for there; any answer will do, but for that of a broken server.
    """
    parts = urlsplit(uri)
    if parts.scheme not in ("http", "https"):
        return
    host = parts.netloc.rpartition("@")[2]
    url = urlunsplit((parts.scheme, host, parts.path.rstrip("/") + path, "", ""))
    try:
        with urlopen(Request(url), timeout=_TIMEOUT_S):  # noqa: S310  (http and https alone, see above)
            return
    except HTTPError as error:
        if error.code >= _BROKEN:
            raise Silent(f"{shown(uri)} answers with {error.code}") from error
    except (OSError, HTTPException) as error:
        reason = getattr(error, "reason", None) or error
        if isinstance(reason, ssl.SSLError):
            return  # it answers; whom to trust, and with which certificate, is in the settings of the library
        raise Silent(f"{shown(uri)} does not answer: {reason}") from error
