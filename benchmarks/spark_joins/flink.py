"""PyFlink, where it is installed. It is not among the dependencies; the report says whether it was there."""

from __future__ import annotations

from importlib.util import find_spec


def installed() -> bool:
    return find_spec("pyflink") is not None
