"""Random queries over the tables t, u and v (k, x, y, s) that mean the same to Spark and DuckDB."""

from __future__ import annotations

import random

NUMBERS = ("k", "x", "y")


class Grammar:
    """Draws queries. Aliases are never used twice, so that names are never ambiguous."""

    def __init__(self, draw: random.Random) -> None:
        self.draw = draw
        self.count = 0

    def alias(self) -> str:
        self.count += 1
        return f"r{self.count}"

    def query(self, depth: int) -> str:
        d = self.draw
        if depth and d.random() < 0.15:
            kind = d.choice(["UNION", "UNION ALL", "EXCEPT", "EXCEPT ALL", "INTERSECT", "INTERSECT ALL"])
            return f"{self.simple(depth - 1)} {kind} {self.simple(depth - 1)}"
        if depth and d.random() < 0.12:
            inner = self.select(depth - 1, ["k", "x"], grouped=d.random() < 0.5)
            a, b = self.alias(), self.alias()
            return (f"WITH w AS ({inner}) SELECT {a}.k AS k, {b}.x AS x FROM w AS {a} {d.choice(['JOIN', 'LEFT JOIN'])} "
                    f"w AS {b} ON {a}.k = {b}.k")  # fmt: skip
        return self.select(depth, d.choice([["k", "x"], ["k", "x", "y"]]), grouped=d.random() < 0.4)

    def simple(self, depth: int) -> str:
        return self.select(depth, ["k", "x"], grouped=self.draw.random() < 0.3)

    def select(self, depth: int, names: list[str], grouped: bool) -> str:
        """A SELECT that gives numbers under these names."""
        d = self.draw
        source, aliases = self.source(depth)
        where = [self.predicate(aliases, depth) for _ in range(d.choice([0, 1, 1, 2]))]
        condition = f" WHERE {' AND '.join(where)}" if where else ""
        if not grouped:
            items = ", ".join(f"{self.value(aliases, depth)} AS {n}" for n in names)
            return f"SELECT {d.choice(['', '', 'DISTINCT '])}{items} FROM {source}{condition}"
        keys = [f"{d.choice(aliases)}.{d.choice(NUMBERS)}" for _ in range(d.choice([0, 1, 1, 2]))]
        if d.random() < 0.2:
            keys.append(f"{d.choice(aliases)}.x + 1")
        items = []
        for n in names:
            pick = d.choice(keys) if keys and d.random() < 0.4 else self.aggregate(aliases)
            items.append(f"{pick} AS {n}")
        by = f" GROUP BY {', '.join(keys)}" if keys else ""
        having = ""
        if d.random() < 0.3:
            having = f" HAVING {self.aggregate(aliases)} {d.choice(['>', '<=', '='])} {self.limit(depth)}"
        return f"SELECT {', '.join(items)} FROM {source}{condition}{by}{having}"

    def limit(self, depth: int) -> str:
        if depth and self.draw.random() < 0.4:
            return f"({self.scalar()})"
        return str(self.draw.randint(0, 3))

    def aggregate(self, aliases: list[str]) -> str:
        d = self.draw
        column = f"{d.choice(aliases)}.{d.choice(NUMBERS)}"
        return d.choice([
            "count(*)", f"count({column})", f"sum({column})", f"min({column})", f"max({column})", f"avg({column})",
            f"count(DISTINCT {column})", f"sum(DISTINCT {column})", f"sum({column}) FILTER (WHERE {column} > 1)",
            f"count(*) FILTER (WHERE {column} > 1)", f"sum({column} + 1)", f"max({column}) - min({column})",
            f"sum(CASE WHEN {column} > 1 THEN 1 ELSE 0 END)",
        ])  # fmt: skip

    # FROM

    def source(self, depth: int) -> tuple[str, list[str]]:
        d = self.draw
        first, name = self.table(depth)
        text, aliases = first, [name]
        for _ in range(d.choice([0, 1, 1, 2])):
            item, other = self.table(depth)
            known = d.choice(aliases)
            on = f"{known}.{d.choice(NUMBERS)} = {other}.{d.choice(NUMBERS)}"
            if d.random() < 0.3:
                on += f" AND {self.comparison([known, other])}"
            if d.random() < 0.15:
                on += f" AND {self.comparison([d.choice([known, other])])}"
            kind = d.choice(["JOIN", "JOIN", "LEFT JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "LEFT SEMI JOIN",
                             "LEFT ANTI JOIN", "CROSS JOIN"])  # fmt: skip
            if kind == "CROSS JOIN":
                text += f" CROSS JOIN {item}"
            elif kind == "FULL JOIN" and d.random() < 0.3:
                text += f" FULL JOIN {item} ON {known}.k = {other}.k"
            else:
                text += f" {kind} {item} ON {on}"
            if kind not in ("LEFT SEMI JOIN", "LEFT ANTI JOIN"):
                aliases.append(other)
        return text, aliases

    def table(self, depth: int) -> tuple[str, str]:
        alias = self.alias()
        if depth and self.draw.random() < 0.25:
            return f"({self.select(depth - 1, ['k', 'x', 'y'], grouped=self.draw.random() < 0.4)}) AS {alias}", alias
        return f"{self.draw.choice('tuv')} AS {alias}", alias

    # Conditions

    def comparison(self, aliases: list[str]) -> str:
        d = self.draw
        a, b = (f"{d.choice(aliases)}.{d.choice(NUMBERS)}" for _ in range(2))
        return d.choice([
            f"{a} {d.choice(['=', '<', '>=', '<>'])} {b}", f"{a} {d.choice(['=', '<', '>'])} {d.randint(0, 3)}",
            f"{a} IS NULL", f"{a} IS NOT NULL", f"coalesce({a}, 0) < {b}", f"({a} = {b} OR {a} > 2)", f"{a} IN (1, 2)",
            f"NOT ({a} < {b})", f"({a} = {b} AND {b} > 0 OR {a} = {b} AND {a} < 3)", f"{a} BETWEEN 1 AND {b}",
        ])  # fmt: skip

    def predicate(self, aliases: list[str], depth: int) -> str:
        d = self.draw
        if depth == 0 or d.random() < 0.4:
            return self.comparison(aliases)
        known = f"{d.choice(aliases)}.{d.choice(NUMBERS)}"
        test = d.choice([
            f"EXISTS ({self.inner(aliases)})", f"NOT EXISTS ({self.inner(aliases)})",
            f"{known} IN ({self.inner(aliases, value=True)})", f"{known} NOT IN ({self.inner(aliases, value=True)})",
            f"{known} > ({self.scalar()})", f"{known} <= ({self.correlated(known)})",
            f"{known} IN ({self.grouped()})", f"{known} NOT IN ({self.grouped()})",
        ])  # fmt: skip
        return f"({test} OR {self.comparison(aliases)})" if d.random() < 0.25 else test

    def inner(self, aliases: list[str], value: bool = False) -> str:
        d = self.draw
        source, inside = self.source(0)
        outer = f"{d.choice(aliases)}.{d.choice(NUMBERS)}"
        mine = f"{d.choice(inside)}.{d.choice(NUMBERS)}"
        where = [self.comparison(inside)] if d.random() < 0.5 else []
        if d.random() < 0.7:
            where.append(
                d.choice([f"{mine} = {outer}", f"{mine} = {outer}", f"{mine} <> {outer}", f"{mine} + 1 = {outer}"])
            )
        item = f"{d.choice(inside)}.{d.choice(NUMBERS)}" if value else "1"
        return f"SELECT {item} FROM {source}" + (f" WHERE {' AND '.join(where)}" if where else "")

    def scalar(self) -> str:
        source, inside = self.source(0)
        return f"SELECT {self.aggregate(inside)} FROM {source}"

    def correlated(self, outer: str) -> str:
        d = self.draw
        alias = self.alias()
        mine = f"{alias}.{d.choice(NUMBERS)}"
        also = f" AND {self.comparison([alias])}" if d.random() < 0.3 else ""
        return f"SELECT {self.aggregate([alias])} FROM {d.choice('tuv')} AS {alias} WHERE {mine} = {outer}{also}"

    def grouped(self) -> str:
        source, inside = self.source(0)
        key = f"{self.draw.choice(inside)}.x"
        return f"SELECT {key} FROM {source} GROUP BY {key} HAVING {self.aggregate(inside)} > 1"

    def value(self, aliases: list[str], depth: int) -> str:
        d = self.draw
        column = f"{d.choice(aliases)}.{d.choice(NUMBERS)}"
        if depth and d.random() < 0.12:
            return f"({self.correlated(column)})" if d.random() < 0.5 else f"({self.scalar()})"
        return d.choice([column, column, column, f"{column} + 1", f"coalesce({column}, -1)"])
