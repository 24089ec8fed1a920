"""What opens doors is shown nowhere: found among options by their names, struck out of texts, kept from py4j's log.

An option is secret by its name (a password, a token, a key), or holds a secret in its text: `...;password=x` in the
address of a database, `//user:x@host`, `password="x"` in a JAAS line. At level DEBUG py4j logs all that Python sends to
the JVM; while options travel, it does not.
"""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

SECRET = re.compile(
    r"password|passwd|pwd|secret|token|passphrase|private|jaas|credential|\.pem$|\.key$|access\.?key|userinfo",
    re.IGNORECASE,
)
INSIDE = (
    re.compile(r"""(?:password|passwd|pwd|secret|token|passphrase|key)\s*=\s*["']?([^"'&;,\s]+)""", re.IGNORECASE),
    re.compile(r"//[^/:@\s]*:([^/@\s]+)@"),
)
SHOWN = "***"
PY4J = ("py4j.clientserver", "py4j.java_gateway")


def secrets(options: Mapping[str, str]) -> set[str]:
    """The texts among the values of options that must not be shown.

    >>> sorted(secrets({"url": "jdbc:x://me:ab@host/db?password=cd", "user": "me", "ssl.key.password": "ef"}))
    ['ab', 'cd', 'ef']
    """
    found = {value for name, value in options.items() if SECRET.search(name)}
    for value in options.values():
        for pattern in INSIDE:
            found.update(pattern.findall(value))
    return found - {""}


def struck(text: object, *options: Mapping[str, str]) -> str:
    """A text without the secrets of these options.

    >>> struck("login me/ab failed", {"password": "ab"})
    'login me/*** failed'
    """
    shown = str(text)
    for secret in sorted({s for o in options for s in secrets(o)}, key=len, reverse=True):
        shown = shown.replace(secret, SHOWN)
    return shown


class _Kept(logging.Filter):
    """Holds back what py4j logs in threads that are sending options."""

    def __init__(self) -> None:
        super().__init__()
        self.here = threading.local()

    def filter(self, record: logging.LogRecord) -> bool:
        return record.levelno > logging.DEBUG or not getattr(self.here, "sending", False)


_kept = _Kept()


@contextmanager
def unlogged() -> Iterator[None]:
    """Inside, py4j logs nothing at DEBUG in this thread."""
    for name in PY4J:
        logging.getLogger(name).addFilter(_kept)  # adding it again changes nothing
    before = getattr(_kept.here, "sending", False)
    _kept.here.sending = True
    try:
        yield
    finally:
        _kept.here.sending = before
