"""Changes of a relation into a table: `tw.upsert`. `last.py` finds the last state of each key in a batch; `lake.py`
merges it into Delta and Iceberg tables, `database.py` into a database."""
