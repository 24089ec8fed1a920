"""Avro values: the schema as Spark's types, and values read and written with fastavro.

Types are those of Spark's own Avro connector. A value is bare Avro, or framed as schema registries do: a zero byte, the
number of the writer's schema in four bytes, then Avro. Framed values are read with the writer's schema and turned into
the reader's, which is how a schema changes without stopping anything.
"""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Mapping
from typing import Any

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from thalweg.errors import DefinitionError

PLAIN: dict[str, DataType] = {
    "null": StringType(), "boolean": BooleanType(), "int": IntegerType(), "long": LongType(), "float": FloatType(),
    "double": DoubleType(), "bytes": BinaryType(), "string": StringType(), "enum": StringType(), "fixed": BinaryType(),
}  # fmt: skip
LOGICAL: dict[str, DataType] = {
    "date": DateType(), "timestamp-millis": TimestampType(), "timestamp-micros": TimestampType(),
    "local-timestamp-millis": TimestampNTZType(), "local-timestamp-micros": TimestampNTZType(),
}  # fmt: skip
"""Other logical types (uuid, time of day, duration) are read as the type below them, as Spark does."""
FRAME = struct.Struct(">bI")

Schema = str | Mapping[str, Any]


def parse(schema: Schema) -> Any:
    """A schema that fastavro has checked. It must be a record: its fields become columns."""
    try:
        import fastavro
    except ImportError:
        raise DefinitionError("Avro values need fastavro", hint="pip install 'thalweg[kafka]'") from None
    try:
        parsed = fastavro.parse_schema(_known(json.loads(schema) if isinstance(schema, str) else dict(schema)))
    except (ValueError, TypeError, KeyError, fastavro.schema.SchemaParseException) as e:
        raise DefinitionError(
            f"the Avro schema can't be read: {e}", hint="give the JSON text of a record, or a dict"
        ) from None
    if not isinstance(parsed, dict) or parsed.get("type") != "record":
        raise DefinitionError("the Avro schema is not a record", hint="wrap it: a record's fields become the columns")
    return parsed


def _known(schema: Any) -> Any:
    """The schema without the logical types that Spark has none for."""
    if isinstance(schema, list):
        return [_known(s) for s in schema]
    if not isinstance(schema, dict):
        return schema
    kept = {k: _known(v) for k, v in schema.items() if not k.startswith("__")}
    if kept.get("logicalType") not in (*LOGICAL, "decimal"):
        kept.pop("logicalType", None)
    return kept


def spark_type(schema: Any, named: dict[str, Any] | None = None) -> DataType:
    """The Spark type of an Avro schema.

    >>> spark_type({"type": "record", "name": "r", "fields": [{"name": "a", "type": ["null", "long"]}]})
    StructType([StructField('a', LongType(), True)])
    """
    named = {} if named is None else named
    if isinstance(schema, list):
        options = [s for s in schema if s != "null"]
        if len(options) == 1:
            return spark_type(options[0], named)
        if {str(o) for o in options} == {"int", "long"}:
            return LongType()
        if {str(o) for o in options} == {"float", "double"}:
            return DoubleType()
        raise DefinitionError(f"an Avro union of {options}", hint="a union of one type and null is a nullable column")
    kind, whole = (schema, {}) if isinstance(schema, str) else (schema["type"], schema)
    if kind in named:
        if named[kind] is None:
            raise DefinitionError(f"the Avro type '{kind}' holds itself", hint="Spark has no recursive types")
        return named[kind]  # type: ignore[no-any-return]
    made = _made(kind, whole, named)
    if "name" in whole:
        named[whole["name"]] = made
    return made


def _made(kind: Any, whole: Any, named: dict[str, Any]) -> DataType:
    if not isinstance(kind, str):
        return spark_type(kind, named)
    if kind == "record":
        named[whole["name"]] = None
        return StructType([StructField(f["name"], spark_type(f["type"], named)) for f in whole["fields"]])
    if kind == "array":
        return ArrayType(spark_type(whole["items"], named))
    if kind == "map":
        return MapType(StringType(), spark_type(whole["values"], named))
    logical = whole.get("logicalType")
    if logical == "decimal":
        return DecimalType(whole["precision"], whole.get("scale", 0))
    if logical in LOGICAL:
        return LOGICAL[logical]
    if kind not in PLAIN:
        raise DefinitionError(f"the Avro type '{kind}' is unknown", hint="known are " + ", ".join(sorted(PLAIN)))
    return PLAIN[kind]


class AvroReader:
    """Reads values of one schema. Pickles as the schemas it was made of."""

    def __init__(self, schema: Schema, writers: Mapping[int, Schema] | None = None) -> None:
        self._schema = parse(schema)
        self._writers = {int(n): parse(s) for n, s in (writers or {}).items()}
        made = spark_type(self._schema)
        assert isinstance(made, StructType)
        self.type: StructType = made

    def __reduce__(self) -> Any:
        return AvroReader, (self._schema, self._writers)

    def read(self, values: list[bytes | None]) -> list[list[Any]]:
        """Two columns: the values, and the bytes of those that can't be read."""
        decoded: list[Any] = []
        malformed: list[bytes | None] = []
        for value in values:
            one = None
            try:
                one = None if value is None else self._one(value)
                malformed.append(None)
            except Exception:  # fastavro raises whatever the bytes lead it to
                malformed.append(value)
            decoded.append(one)
        return [decoded, malformed]

    def _one(self, value: bytes) -> Any:
        import fastavro

        data = io.BytesIO(value)
        if self._writers:
            zero, number = FRAME.unpack(data.read(FRAME.size))
            if zero != 0:
                raise ValueError("no frame")
            one = fastavro.schemaless_reader(data, self._writers[number], self._schema)
        else:
            one = fastavro.schemaless_reader(data, self._schema, None)
        if data.tell() != len(value):
            raise ValueError("bytes are left over")
        return one


class AvroWriter:
    """Writes rows as values of one schema; `number` frames them for a schema registry."""

    def __init__(self, schema: Schema, number: int | None = None) -> None:
        self._schema = parse(schema)
        self._number = number

    def __reduce__(self) -> Any:
        return AvroWriter, (self._schema, self._number)

    def write(self, row: dict[str, Any]) -> bytes:
        import fastavro

        out = io.BytesIO()
        if self._number is not None:
            out.write(FRAME.pack(0, self._number))
        fastavro.schemaless_writer(out, self._schema, row, strict=False)
        return out.getvalue()
