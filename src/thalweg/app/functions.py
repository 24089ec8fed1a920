"""Finds the Python functions that an application file names, in modules beside the file or installed ones."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from thalweg.app.section import Fault, kind_of
from thalweg.errors import did_you_mean


def load(name: str, target: str, file: Path, fault: Fault) -> Callable[..., Any]:
    module, _, attribute = target.partition(":")
    _prefer_own(module.split(".")[0], file.resolve().parent)
    try:
        found: Any = importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name != module.split(".")[0]:
            fault(("functions", name), f"function '{name}': importing '{module}' failed: {error}",
                       "install what it needs")  # fmt: skip
        fault(("functions", name), f"function '{name}': no module '{module}'",
                   f"expected {module}.py beside {file.name}, or an installed module")  # fmt: skip
    except (Exception, SystemExit) as error:
        fault(("functions", name), f"function '{name}': importing '{module}' failed: {type(error).__name__}: {error}",
                   f"run 'python -c \"import {module}\"' in this folder to see where")  # fmt: skip
    for part in attribute.split("."):
        if not hasattr(found, part):
            public = [n for n in dir(found) if not n.startswith("_")]
            fault(("functions", name), f"function '{name}': '{module}' has no '{part}'", did_you_mean(part, public))
        found = getattr(found, part)
    if not callable(found):
        fault(("functions", name), f"function '{name}': '{target}' is {kind_of(found)}, not a function",
                   f"name something in {module} that can be called with columns")  # fmt: skip
    made: Callable[..., Any] = found
    return made


def _prefer_own(top: str, folder: Path) -> None:
    """Prefer a module beside the file over one of the same name from elsewhere, even if that is already loaded."""
    place = str(folder)
    if sys.path[:1] != [place]:
        sys.path[:] = [place, *(p for p in sys.path if p != place)]
    known = getattr(sys.modules.get(top), "__file__", None)
    own = (folder / f"{top}.py", folder / top / "__init__.py")
    if known is not None and any(o.exists() for o in own) and Path(known) not in own:
        for name in [n for n in sys.modules if n == top or n.startswith(f"{top}.")]:
            del sys.modules[name]
        importlib.invalidate_caches()
