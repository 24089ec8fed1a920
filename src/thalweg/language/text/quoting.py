"""Words of SQL: which ones a function can't be called by, and which names need backticks."""

from __future__ import annotations

from thalweg.language.query import Column

RESERVED = frozenset(
    ["SELECT", "FROM", "WHERE", "JOIN", "ON", "USING", "AND", "OR", "NOT", "IN", "IS", "LIKE", "BETWEEN", "CASE",
     "WHEN", "THEN", "ELSE", "END", "EXISTS", "AS", "CROSS", "INNER", "LEFT", "RIGHT", "FULL", "UNION", "EXCEPT",
     "INTERSECT", "DISTINCT", "ALL", "ANY", "VALUES", "CAST", "INTERVAL", "WINDOW", "OVER", "ISTREAM", "DSTREAM",
     "RSTREAM"]
)  # fmt: skip
_KEYWORDS = RESERVED | frozenset(
    ["AUTHORIZATION", "BOTH", "CHECK", "COLLATE", "COLUMN", "CONSTRAINT", "CREATE", "CURRENT_DATE", "CURRENT_TIME",
     "CURRENT_TIMESTAMP", "CURRENT_USER", "ESCAPE", "FALSE", "FETCH", "FILTER", "FOR", "FOREIGN", "GRANT", "GROUP",
     "HAVING", "INTO", "LATERAL", "LEADING", "NATURAL", "NULL", "OFFSET", "ONLY", "ORDER", "OUTER", "OVERLAPS",
     "PRIMARY", "REFERENCES", "SEMI", "ANTI", "MINUS", "SESSION_USER", "SOME", "TABLE", "TIME", "TO", "TRAILING",
     "TRUE", "UNIQUE", "UNKNOWN", "USER", "WITH", "WITHIN"]
)  # fmt: skip
"""Words that Spark reserves in its strictest mode."""


def quoted(name: str) -> str:
    """A name as Spark takes it: plain if possible, else in backticks.

    >>> quoted("origin"), quoted("tail num"), quoted("order")
    ('origin', '`tail num`', '`order`')
    """
    plain = name.isascii() and name.replace("_", "a").isalnum() and not name[:1].isdigit()
    if plain and name.upper() not in _KEYWORDS:
        return name
    return "`" + name.replace("`", "``") + "`"


def quoted_column(column: Column) -> str:
    return f"{quoted(column.input)}.{quoted(column.name)}"
