"""TPC-H: the tables of the public specification, and its 22 queries with the default substitution parameters."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa

from thalweg.language import Source

_KEY, _INT, _TEXT, _DATE, _MONEY = pa.int64(), pa.int32(), pa.string(), pa.date32(), pa.decimal128(15, 2)
TABLES = {
    "lineitem": pa.schema({
        "l_orderkey": _KEY, "l_partkey": _KEY, "l_suppkey": _KEY, "l_linenumber": _KEY, "l_quantity": _MONEY,
        "l_extendedprice": _MONEY, "l_discount": _MONEY, "l_tax": _MONEY, "l_returnflag": _TEXT, "l_linestatus": _TEXT,
        "l_shipdate": _DATE, "l_commitdate": _DATE, "l_receiptdate": _DATE, "l_shipinstruct": _TEXT,
        "l_shipmode": _TEXT, "l_comment": _TEXT,
    }),
    "orders": pa.schema({
        "o_orderkey": _KEY, "o_custkey": _KEY, "o_orderstatus": _TEXT, "o_totalprice": _MONEY, "o_orderdate": _DATE,
        "o_orderpriority": _TEXT, "o_clerk": _TEXT, "o_shippriority": _INT, "o_comment": _TEXT,
    }),
    "customer": pa.schema({
        "c_custkey": _KEY, "c_name": _TEXT, "c_address": _TEXT, "c_nationkey": _INT, "c_phone": _TEXT,
        "c_acctbal": _MONEY, "c_mktsegment": _TEXT, "c_comment": _TEXT,
    }),
    "part": pa.schema({
        "p_partkey": _KEY, "p_name": _TEXT, "p_mfgr": _TEXT, "p_brand": _TEXT, "p_type": _TEXT, "p_size": _INT,
        "p_container": _TEXT, "p_retailprice": _MONEY, "p_comment": _TEXT,
    }),
    "partsupp": pa.schema({
        "ps_partkey": _KEY, "ps_suppkey": _KEY, "ps_availqty": _KEY, "ps_supplycost": _MONEY, "ps_comment": _TEXT,
    }),
    "supplier": pa.schema({
        "s_suppkey": _KEY, "s_name": _TEXT, "s_address": _TEXT, "s_nationkey": _INT, "s_phone": _TEXT,
        "s_acctbal": _MONEY, "s_comment": _TEXT,
    }),
    "nation": pa.schema({"n_nationkey": _INT, "n_name": _TEXT, "n_regionkey": _INT, "n_comment": _TEXT}),
    "region": pa.schema({"r_regionkey": _INT, "r_name": _TEXT, "r_comment": _TEXT}),
}  # fmt: skip
STREAMS = ("orders", "lineitem")
ARRIVAL = "arrived"
"""The time column of the tables that are streams."""
QUERIES = {p.stem: p.read_text() for p in sorted(Path(__file__).parent.glob("q*.sql"))}


def sources(streaming: bool) -> dict[str, Source]:
    """The tables, all static, or with orders and lineitem as streams."""
    found = {}
    for name, schema in TABLES.items():
        if streaming and name in STREAMS:
            found[name] = Source(schema.append(pa.field(ARRIVAL, pa.timestamp("us"))), time=ARRIVAL)
        else:
            found[name] = Source(schema)
    return found


def endless(text: str) -> str:
    """A query without its last ORDER BY and LIMIT, which a stream can't have."""
    return re.sub(r"\s+order by(?!.*\border by\b).*\Z", "\n", text, flags=re.S)
