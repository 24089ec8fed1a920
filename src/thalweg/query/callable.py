"""`thalweg.query` is a folder of code and, for users, a function: `tw.query("name")` is the handle of a running query.

Python binds a sub-package to its parent's attribute of the same name, so the module itself is made callable.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any


class CallableModule(ModuleType):
    """A module that can be called like the function it shares its name with."""

    def __call__(self, name: str) -> Any:
        from thalweg.watch.handle import query  # needs pyspark, which the engine does not

        return query(name)


sys.modules["thalweg.query"].__class__ = CallableModule
