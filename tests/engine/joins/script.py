"""A case as a script that needs nothing but Thalweg: what is printed of a failure."""

from __future__ import annotations

from typing import Any

from tests.engine.joins.oracle import DuckOracle
from tests.engine.joins.verdict import expected

from thalweg.language.bind import bind
from thalweg.testing.joincase import Advance, JoinCase, Push
from thalweg.testing.joinrun import layouts, watermarks


def script(case: JoinCase, oracle: DuckOracle) -> str:
    """The case's query, rows and history, run and printed beside the rows that were expected."""
    lines = [
        f"# seed {case.seed}, shape {case.shape}",
        "import datetime",
        "from decimal import Decimal",
        "import pyarrow as pa",
        "from thalweg.engine.engine import Engine",
        "from thalweg.language.bind import bind",
        "from thalweg.language.query import Source",
        "from thalweg.testing.joinpredicates import FUNCTIONS",
        "from thalweg.plan.layout import Layout",
        "nan, inf = float('nan'), float('inf')",
        "",
    ]
    for s in case.sources:
        fields = ", ".join(f"({f.name!r}, {_type(f.type)})" for f in s.schema)
        lines.append(f"{s.name} = Source(pa.schema([{fields}]), {s.time!r}, {s.unit!r}, '{s.lateness} microseconds')")
        pushed = {r for p in case.steps if isinstance(p, Push) and p.source == s.name for r in p.rows}
        used = range(len(s.rows)) if s.time is None else sorted(pushed)
        lines.append(f"{s.name}_rows = {{")
        lines += [f"    {r}: {s.rows[r]!r}," for r in used]
        lines.append("}")
    lines += [
        "",
        "def rows(source, data, numbers):",
        "    return pa.table([pa.array([data[n][k] for n in numbers], f.type) for k, f in enumerate(source.schema)], "
        "schema=source.schema)",
        "",
        f"text = '''{case.text}'''",
        f"query = bind(text, {{{', '.join(f'{s.name!r}: {s.name}' for s in case.sources)}}}, FUNCTIONS)",
    ]
    query = bind(case.text, case.specs, case.functions).query
    static = [s.name for s in case.sources if s.time is None]
    tables = ", ".join(f"{n!r}: rows({n}, {n}_rows, {n}_rows)" for n in static)
    lines += [
        "def engine(layout):",
        f"    return Engine(query, policy={case.policy!r}, seed={case.seed % 1000}, index=layout,",
        f"        tables={{{tables}}}, slice_rows={case.slice_rows}, buffer={case.buffer})",
        "",
    ]
    lines += [f"e, out = engine({layouts(case, query, 1)!r}), []"]
    starts = 1
    for step in case.steps:
        if isinstance(step, Push):
            name = step.source
            lines.append(f"out += e.push({name!r}, rows({name}, {name}_rows, {list(step.rows)})).to_pylist()")
        elif isinstance(step, Advance):
            lines.append(f"out += e.advance({watermarks(case, step)!r}).to_pylist()")
        else:
            starts += 1
            lines.append(f"state = e.snapshot(); e = engine({layouts(case, query, starts)!r}); e.restore(state)")
    wanted = [r for r, _ in expected(case, oracle.answer(case))]
    lines += [
        "out += e.close().to_pylist()",
        "got = sorted((tuple(r.values()) for r in out), key=repr)",
        f"expected = sorted({wanted!r}, key=repr)",
        "print('got', got)",
        "print('expected', expected)",
        f"print('late: expected', {case.late()}, e.stats()['sources'])",
    ]
    return "\n".join(lines)


def _type(dtype: Any) -> str:
    text = str(dtype)
    if text.startswith("decimal128"):
        return f"pa.{text}"
    if text.startswith("timestamp"):
        inside = text[len("timestamp[") : -1].split(", tz=")
        return f"pa.timestamp({', '.join(map(repr, inside))})"
    return {"double": "pa.float64()", "date32[day]": "pa.date32()"}.get(text, f"pa.{text}()")
