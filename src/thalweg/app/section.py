"""One table of an application file. A setting of the wrong kind, or an unknown one, is an error with its line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn, Protocol

from thalweg.errors import DefinitionError, did_you_mean
from thalweg.language.durations import micros


class Fault(Protocol):
    """Raises an error at the line that sets a path of keys."""

    def __call__(self, path: Sequence[str], message: str, hint: str | None) -> NoReturn: ...


_EXAMPLES: dict[type | tuple[type, ...], str] = {
    str: '"text"', int: "2", dict: '{ name = "value" }', list: '["one", "two"]', (int, str): '9108 or "0.0.0.0:9108"',
    (dict, list): "a section of its own",
}  # fmt: skip
_NAMES = {str: "text", int: "a whole number", dict: "a table", list: "a list", bool: "true or false", float: "a number"}


def kind_of(value: Any) -> str:
    return f"'{value}'" if isinstance(value, str) else _NAMES.get(type(value), f"a {type(value).__name__}")


class Section:
    """One table of the file. Settings that are taken are known; whatever is left over is a fault."""

    def __init__(self, fault: Fault, values: Any, path: tuple[str, ...], what: str) -> None:
        self._fault, self.path, self.what = fault, path, what
        if not isinstance(values, dict):
            fault(path, f"{what} is a table of settings, not {kind_of(values)}", f"write [{'.'.join(path)}]")
        self.values: dict[str, Any] = dict(values)
        self._known: list[str] = []

    def fault(self, key: str, message: str, hint: str | None) -> NoReturn:
        self._fault((*self.path, key), f"{self.what}: {message}", hint)

    def take(self, key: str, kind: type | tuple[type, ...], default: Any = None, *, needed: str | None = None) -> Any:
        self._known.append(key)
        if key not in self.values:
            if needed is not None:
                self.fault(key, f"'{key}' is missing", needed)
            return default
        value = self.values.pop(key)
        wrong = isinstance(value, bool) and kind is not bool and bool not in (kind if isinstance(kind, tuple) else ())
        if wrong or not isinstance(value, kind):
            wanted = " or ".join(_NAMES[k] for k in (kind if isinstance(kind, tuple) else (kind,)))
            found = "text" if kind is dict and isinstance(value, str) else kind_of(value)  # it may hold a password
            self.fault(key, f"'{key}' must be {wanted}, not {found}", f"for example {key} = {_EXAMPLES[kind]}")
        return value

    def options(self, key: str) -> dict[str, str]:
        given = self.take(key, dict, {})
        for name, value in given.items():
            if not isinstance(value, str | int | float | bool):
                self.fault(key, f"option '{name}' must be text, a number or true/false, not {kind_of(value)}",
                           "Spark takes flat options; a name with dots goes in quotes")  # fmt: skip
        return {k: str(v).lower() if isinstance(v, bool) else str(v) for k, v in given.items()}

    def texts(self, key: str) -> tuple[str, ...]:
        given = self.take(key, list, [])
        for value in given:
            if not isinstance(value, str):
                self.fault(key, f"'{key}' is a list of texts, and holds {kind_of(value)}", "put each in quotes")
        return tuple(given)

    def duration(self, key: str, default: str | int | None) -> str | int | None:
        value: str | int | None = self.take(key, str, default)
        if isinstance(value, str):
            try:
                micros(value, key)
            except DefinitionError as error:
                self.fault(key, error.message, error.hint)
        return value

    def done(self) -> None:
        for key in self.values:
            self.fault(key, f"unknown setting '{key}'", did_you_mean(key, self._known))
