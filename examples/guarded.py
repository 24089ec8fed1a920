"""A batch filter: row, Arrow and pandas predicates, SQL, and a guard that must come first."""

import json

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

import thalweg as tw

spark = tw.session()
rows = [(i, json.dumps({"price": i % 97}) if i % 3 else "not json") for i in range(30_000)]
orders = spark.createDataFrame(rows, "id long, body string")


def is_json(body):
    return body.startswith("{")


def cheap(body):  # would raise on what is no JSON: the guard keeps it from those rows
    return json.loads(body)["price"] < 10


def even(id: pa.Array) -> pa.Array:  # annotations say that it takes Arrow arrays
    return pc.equal(pc.bit_wise_and(id, 1), 0)


def round_number(id: pd.Series) -> pd.Series:
    return id % 10 == 0


guard = tw.pred(is_json, "body")
found = tw.where(orders, guard, tw.pred(cheap, "body", after=[guard]), even, round_number, "id > 500", name="guarded")
print(found.count(), "rows")
print(tw.query("guarded").explain())
