"""Avro: every type there and back, schemas that change, bytes that are no Avro."""

from __future__ import annotations

import io
import pickle
from datetime import UTC, date, datetime
from decimal import Decimal

import fastavro
import pyarrow as pa
import pytest

import thalweg as tw
from thalweg.spark.compat import arrow_schema
from thalweg.spark.kafka.avro import AvroReader, AvroWriter

EVERYTHING = {
    "type": "record", "name": "all", "namespace": "x.y", "fields": [
        {"name": "b", "type": "boolean"}, {"name": "i", "type": "int"}, {"name": "l", "type": ["null", "long"]},
        {"name": "f", "type": "float"}, {"name": "d", "type": "double"}, {"name": "s", "type": ["string", "null"]},
        {"name": "y", "type": "bytes"}, {"name": "e", "type": {"type": "enum", "name": "colour", "symbols": ["RED", "BLUE"]}},
        {"name": "x", "type": {"type": "fixed", "name": "four", "size": 4}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "ms", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "wall", "type": {"type": "long", "logicalType": "local-timestamp-micros"}},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "id", "type": {"type": "string", "logicalType": "uuid"}},
        {"name": "many", "type": {"type": "array", "items": ["null", "long"]}},
        {"name": "named", "type": {"type": "map", "values": "double"}},
        {"name": "inner", "type": ["null", {"type": "record", "name": "point", "fields": [{"name": "u", "type": "int"}]}]},
        {"name": "again", "type": ["null", "point"]}, {"name": "wide", "type": ["null", "int", "long"]},
    ],
}  # fmt: skip
TYPE = (
    "struct<b:boolean,i:int,l:bigint,f:float,d:double,s:string,y:binary,e:string,x:binary,day:date,at:timestamp,"
    "ms:timestamp,wall:timestamp_ntz,price:decimal(9,2),id:string,many:array<bigint>,named:map<string,double>,"
    "inner:struct<u:int>,again:struct<u:int>,wide:bigint>"
)
ROW = {
    "b": True, "i": -1, "l": None, "f": 0.5, "d": 1e300, "s": "ä", "y": b"\x00\xff", "e": "BLUE", "x": b"abcd",
    "day": date(2026, 2, 28), "at": datetime(2026, 1, 1, 12, 0, 0, 7, tzinfo=UTC),
    "ms": datetime(2026, 1, 1, 12, 0, 0, 7000, tzinfo=UTC), "wall": datetime(2026, 1, 1, 12), "price": Decimal("-12.34"),
    "id": "8f14e45f-ceea-467f-a0e6-a40ed2fd4e17", "many": [1, None], "named": {"k": 2.5}, "inner": {"u": 3}, "again": None,
    "wide": 2**40,
}  # fmt: skip


def test_every_type_becomes_sparks_and_comes_back_through_arrow():
    reader, writer = (pickle.loads(pickle.dumps(made)) for made in (AvroReader(EVERYTHING), AvroWriter(EVERYTHING)))
    assert reader.type.simpleString() == TYPE
    decoded, malformed = reader.read([writer.write(ROW), None])
    assert malformed == [None, None]
    column = pa.array(decoded, pa.struct(list(arrow_schema(reader.type))))
    got = column.to_pylist()
    assert got[1] is None
    assert {k: dict(v) if k == "named" else v for k, v in got[0].items()} == ROW


def test_a_framed_value_is_read_with_its_writers_schema():
    old = {"type": "record", "name": "r", "fields": [{"name": "a", "type": "int"}]}
    new = {"type": "record", "name": "r", "fields": [
        {"name": "b", "type": ["null", "string"], "default": None}, {"name": "a", "type": "long"}]}  # fmt: skip
    reader = AvroReader(new, {1: old, 2: new})
    values = [AvroWriter(old, 1).write({"a": 5}), AvroWriter(new, 2).write({"a": 6, "b": "x"})]
    stranger = AvroWriter(new, 3).write({"a": 7, "b": "y"})
    decoded, malformed = reader.read([*values, stranger])
    assert decoded == [{"a": 5, "b": None}, {"a": 6, "b": "x"}, None]
    assert malformed == [None, None, stranger]


@pytest.mark.parametrize("value", [b"", b"\x02", b"\xff" * 9, b"\x04\x02"])
def test_bytes_that_are_no_avro_are_malformed(value):
    reader = AvroReader({"type": "record", "name": "r", "fields": [{"name": "s", "type": "string"}]})
    out = io.BytesIO()
    fastavro.schemaless_writer(out, {"type": "string"}, "left over")
    for bad in (value, out.getvalue() + b"x"):
        assert reader.read([bad]) == [[None], [bad]]


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ('{"type": "string"}', "not a record"),
        ("{", "can't be read"),
        ({"type": "record", "name": "r", "fields": [{"name": "a", "type": ["int", "string"]}]}, "union"),
        ({"type": "record", "name": "r", "fields": [{"name": "a", "type": ["null", "r"]}]}, "holds itself"),
    ],
)
def test_a_schema_that_spark_has_no_type_for_is_refused(schema, words):
    with pytest.raises(tw.DefinitionError, match=words):
        AvroReader(schema)
