"""A fixed set of queries that are more than a join, with the same question put to DuckDB over the whole history.

`ANSWERS` give rows, so DuckDB can say which. `CHANGES` give what enters and leaves a relation: there the engine is the
reference (tests/engine/queries compares it with DuckDB at random instants), and Spark must give the same changes.
"""

from __future__ import annotations

from tests.spark.joinshapes import Shape, _within

_NEAR = _within({"a": 5, "b": 2})
_HOPS = """
    SELECT to_timestamp(u.until - 10), to_timestamp(u.until), x.w, count(*), sum(x.v) FROM ({rows}) x, LATERAL (
        SELECT unnest(generate_series(floor(epoch(x.ts) / 5)::BIGINT * 5 + 5, floor(epoch(x.ts) / 5)::BIGINT * 5 + 10, 5)) AS until
    ) u GROUP BY u.until, x.w
"""  # fmt: skip

ANSWERS = {
    "left": Shape(
        "SELECT a.id x, b.id y FROM s1 [RANGE 5 SECONDS] a LEFT JOIN s2 [RANGE 2 SECONDS] b ON a.k = b.k AND a.v < b.v",
        f"SELECT a.id, b.id FROM s1 a LEFT JOIN s2 b ON a.k = b.k AND a.v < b.v AND {_NEAR}",
        ("s1", "s2"),
    ),
    "right": Shape(
        "SELECT a.id x, b.id y FROM s1 [RANGE 5 SECONDS] a RIGHT JOIN s2 [RANGE 2 SECONDS] b ON a.k = b.k",
        f"SELECT a.id, b.id FROM s1 a RIGHT JOIN s2 b ON a.k = b.k AND {_NEAR}",
        ("s1", "s2"),
    ),
    "full": Shape(
        "SELECT a.id x, b.id y FROM s1 [RANGE 5 SECONDS] a FULL OUTER JOIN s2 [RANGE 2 SECONDS] b ON a.w = b.w AND a.k = b.k",
        f"SELECT a.id, b.id FROM s1 a FULL OUTER JOIN s2 b ON a.w = b.w AND a.k = b.k AND {_NEAR}",
        ("s1", "s2"),
    ),
    "anti": Shape(
        "SELECT a.id x FROM s1 [RANGE 5 SECONDS] a LEFT ANTI JOIN s2 [RANGE 2 SECONDS] b ON a.k = b.k",
        f"SELECT a.id FROM s1 a WHERE NOT EXISTS (SELECT 1 FROM s2 b WHERE a.k = b.k AND {_NEAR})",
        ("s1", "s2"),
    ),
    "not in": Shape(
        "SELECT a.id x FROM s1 [RANGE 5 SECONDS] a WHERE a.j NOT IN (SELECT t.k FROM names t WHERE t.k IS NOT NULL)",
        "SELECT a.id FROM s1 a WHERE a.j NOT IN (SELECT t.k FROM names t WHERE t.k IS NOT NULL)",
        ("s1",),
        table=True,
    ),
    "exists behind a join": Shape(
        """SELECT a.id x, b.id y FROM s1 [RANGE 5 SECONDS] a, s2 [RANGE 2 SECONDS] b WHERE a.k = b.k
           AND EXISTS (SELECT 1 FROM names t WHERE t.k = a.k AND t.name <> 'two')""",
        f"""SELECT a.id, b.id FROM s1 a, s2 b WHERE a.k = b.k AND {_NEAR}
            AND EXISTS (SELECT 1 FROM names t WHERE t.k = a.k AND t.name <> 'two')""",
        ("s1", "s2"),
        table=True,
    ),
    "what only Spark can compute": Shape(
        "SELECT DISTINCT date_format(a.ts, 'mm:ss') AS m FROM s1 a WHERE odd(a.v)",
        "SELECT DISTINCT strftime(a.ts, '%M:%S') FROM s1 a WHERE a.v::INT % 2 = 1",
        ("s1",),
    ),
    "windows of time": Shape(
        """SELECT window(result_time, '10 seconds', '5 seconds') AS at, a.w AS w, count(*) AS n, sum(a.v) AS s
           FROM s1 [RANGE 5 SECONDS] a, s2 [RANGE 2 SECONDS] b WHERE a.k = b.k
           GROUP BY window(result_time, '10 seconds', '5 seconds'), a.w""",
        _HOPS.format(rows=f"SELECT greatest(a.ts, b.ts) ts, a.w, a.v FROM s1 a, s2 b WHERE a.k = b.k AND {_NEAR}"),
        ("s1", "s2"),
    ),
}  # fmt: skip

CHANGES = {
    "count by a join key": Shape(
        """SELECT a.k, count(*) AS n, avg(b.v) AS m FROM s1 [RANGE 5 SECONDS] a, s2 [RANGE 2 SECONDS] b
           WHERE a.k = b.k GROUP BY a.k""",
        "", ("s1", "s2"),
    ),
    "count by another column": Shape(
        """SELECT a.w, count(*) AS n, min(b.v) AS m FROM s1 [RANGE 5 SECONDS] a, s2 [RANGE 2 SECONDS] b
           WHERE a.k = b.k GROUP BY a.w HAVING count(*) > 2""",
        "", ("s1", "s2"),
    ),
    "count by what is computed": Shape(
        """SELECT upper(a.w) AS w, count(*) AS n, sum(b.v) AS s FROM s1 [RANGE 5 SECONDS] a, s2 [RANGE 2 SECONDS] b
           WHERE a.k = b.k GROUP BY upper(a.w)""",
        "", ("s1", "s2"),
    ),
    "everything behind a join": Shape(
        "SELECT count(*) AS n, max(a.v) AS m FROM s1 [RANGE 5 SECONDS] a, s2 [RANGE 2 SECONDS] b WHERE a.k = b.k",
        "", ("s1", "s2"),
    ),
    "everything": Shape("SELECT count(*) AS n, max(a.v) AS m FROM s1 [RANGE 3 SECONDS] a", "", ("s1",)),
    "except": Shape(
        "SELECT a.k FROM s1 [RANGE 4 SECONDS] a EXCEPT SELECT b.k FROM s2 [RANGE 4 SECONDS] b", "", ("s1", "s2")
    ),
    "istream of distinct": Shape(
        "ISTREAM(SELECT DISTINCT a.k, a.w FROM s1 [RANGE 4 SECONDS] a)", "", ("s1",)
    ),
    "every": Shape("RSTREAM(SELECT a.w, count(*) AS n FROM s1 [RANGE 6 SECONDS] a GROUP BY a.w) EVERY 5 SECONDS", "", ("s1",)),
    "last rows": Shape("SELECT a.w, max(a.v) AS m FROM s1 [ROWS 7] a GROUP BY a.w", "", ("s1",)),
}  # fmt: skip
