"""What a micro-batch costs in an everyday query: two streams of files, a parquet sink, batches of some thousand rows.

The floor is the same pipeline without a join: rows packed, shuffled, unpacked and written.
"""
