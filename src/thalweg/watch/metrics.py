"""Metrics for Prometheus, off unless asked for: `tw.metrics(port)` serves the views of all queries at /metrics.

Views are made when somebody scrapes; a query pays nothing for being watched. Needs the extra `thalweg[metrics]`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from thalweg.errors import ThalwegError
from thalweg.spark.board import board
from thalweg.watch.handle import QueryHandle


def serve(port: int = 9108, address: str = "127.0.0.1") -> Any:
    """Start to serve; returns an object whose `close()` ends it."""
    try:
        from prometheus_client import CollectorRegistry, start_http_server
    except ImportError:
        raise ThalwegError("metrics need prometheus-client", hint="pip install 'thalweg[metrics]'") from None
    registry = CollectorRegistry()
    registry.register(BoardCollector())
    try:
        server, thread = start_http_server(port, address, registry)
    except OSError as error:
        raise ThalwegError(
            f"metrics can't be served at {address}:{port}: {error.strerror}", hint="another port; 0 takes a free one"
        ) from None
    return Serving(server, thread)


class Serving:
    """A running endpoint."""

    def __init__(self, server: Any, thread: Any) -> None:
        self._server, self._thread = server, thread
        self.port: int = server.server_port

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def __repr__(self) -> str:
        return f"<thalweg metrics on port {self.port}>"


class BoardCollector:
    """What prometheus-client asks for: metric families, made at each scrape."""

    def collect(self) -> Iterator[Any]:
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        def counter(name: str, about: str, *labels: str) -> Any:
            return CounterMetricFamily(f"thalweg_{name}", about, labels=["query", *labels])

        rows_in, rows_out = counter("rows_in", "Rows that came."), counter("rows_out", "Rows or results that left.")
        calls = counter("predicate_calls", "Calls of a predicate.", "predicate")
        seconds = counter("predicate_seconds", "Seconds spent in a predicate.", "predicate")
        events = counter("decisions", "Decisions, by kind.", "kind")
        late = counter("late_rows", "Rows that came too late.", "input")
        left_out = counter("left_out_rows", "Rows that were left out, by reason.", "input", "reason")
        work = counter("probe_work", "Buckets and candidates examined.", "input")
        state = GaugeMetricFamily("thalweg_state_rows", "Rows in windows.", labels=["query", "input"])
        size = GaugeMetricFamily("thalweg_state_bytes", "Bytes of rows in windows.", labels=["query", "input"])
        route = GaugeMetricFamily(
            "thalweg_route_share", "Share of the rows on a route.", labels=["query", "input", "route"]
        )
        families = [rows_in, rows_out, calls, seconds, events, late, left_out, work, state, size, route]
        for name, entry in list(board.entries.items()):
            view = QueryHandle(entry).now()
            rows_in.add_metric([name], view.rows_in)
            rows_out.add_metric([name], view.rows_out)
            for predicate in view.judged:
                calls.add_metric([name, predicate.name], predicate.calls)
                seconds.add_metric([name, predicate.name], (predicate.cost or 0.0) * predicate.calls)
            for i in view.inputs:
                for path in i.paths:
                    for taken in path.routes:
                        route.add_metric([name, i.alias, str(taken)], taken.share)
                for reason in ("late", "timeless", "ahead", "failed"):
                    if view.kind == "join" or reason == "failed":
                        left_out.add_metric([name, i.alias, reason], getattr(i, reason))
                if view.kind == "join":
                    for family, value in ((late, i.late), (work, i.work), (state, i.stored), (size, i.row_bytes)):
                        family.add_metric([name, i.alias], value)
            for kind, count in dict(entry.history.kinds).items():
                events.add_metric([name, kind], count)
        yield from families
