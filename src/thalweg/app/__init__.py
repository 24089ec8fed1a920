"""An application in one file: streams, tables, functions, queries and sinks, for `thalweg run`."""
