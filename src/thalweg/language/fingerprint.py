"""Whether a Python function is still the one it was: a digest of its code, its defaults and what it closes over.

Names of files and line numbers do not count. Byte code differs between versions of Python, so a digest names its
version, and digests of two versions say nothing about each other.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from types import CodeType
from typing import Any

VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"
PLAIN = (str, int, float, bool, bytes, type(None), tuple, frozenset)


def fingerprint(function: Callable[..., Any]) -> str:
    """A short digest.

    >>> a, b, c = (eval(text) for text in ("lambda x: x > 1", "lambda x: (x\\n > 1)", "lambda x: x > 2"))
    >>> fingerprint(a) == fingerprint(b), fingerprint(a) == fingerprint(c)
    (True, False)
    """
    digest = hashlib.blake2b(digest_size=8)
    for part in _parts(function):
        digest.update(part.encode() + b"\\0")
    return f"{VERSION} {digest.hexdigest()}"


def changed(was: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """Names of functions whose code differs, as far as digests can tell."""
    both = [n for n in now if n in was and was[n].split()[0] == now[n].split()[0]]
    return [n for n in both if was[n] != now[n]]


def _parts(function: Any) -> Iterator[str]:
    if isinstance(function, partial):
        yield repr((function.args, sorted(function.keywords.items())))
        yield from _parts(function.func)
        return
    code = getattr(function, "__code__", None) or getattr(vars(type(function)).get("__call__"), "__code__", None)
    if code is None:
        yield getattr(function, "__qualname__", type(function).__qualname__)
        return
    yield from _code(code)
    yield repr([d if isinstance(d, PLAIN) else type(d).__name__ for d in getattr(function, "__defaults__", None) or ()])
    for cell in getattr(function, "__closure__", None) or ():
        value = cell.cell_contents
        yield repr(value) if isinstance(value, PLAIN) else type(value).__name__


def _code(code: CodeType) -> Iterator[str]:
    yield code.co_code.hex()
    yield repr((code.co_names, code.co_varnames, code.co_freevars))
    for value in code.co_consts:
        if isinstance(value, CodeType):
            yield from _code(value)
        else:
            yield repr(sorted(value, key=repr) if isinstance(value, frozenset) else value)
