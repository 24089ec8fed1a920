"""Metrics for Prometheus, off unless asked for: `tw.metrics(port)` serves what the board knows at /metrics.

Numbers are added up when somebody scrapes, from the same reports that `explain` reads; nothing is counted twice and a
query costs nothing for being watched. Needs the extra `thalweg[metrics]`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from thalweg.errors import ThalwegError
from thalweg.spark.board import Entry, board

if TYPE_CHECKING:
    from thalweg.watch.summary import Summary


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
    """What prometheus-client asks for: metric families, made anew at each scrape."""

    def collect(self) -> Iterator[Any]:
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        def counter(name: str, about: str, *labels: str) -> Any:
            return CounterMetricFamily(f"thalweg_{name}", about, labels=["query", *labels])

        rows_in, rows_out = counter("rows_in", "Rows that came."), counter("rows_out", "Rows or results that left.")
        calls = counter("predicate_calls", "Calls of a predicate.", "predicate")
        seconds = counter("predicate_seconds", "Seconds spent in a predicate.", "predicate")
        events = counter("decisions", "Decisions, by kind.", "kind")
        late = counter("late_rows", "Rows that came too late.", "input")
        work = counter("probe_work", "Buckets and candidates examined.", "input")
        state = GaugeMetricFamily("thalweg_state_rows", "Rows in windows.", labels=["query", "input"])
        size = GaugeMetricFamily("thalweg_state_bytes", "Bytes of rows in windows.", labels=["query", "input"])
        route = GaugeMetricFamily(
            "thalweg_route_share", "Share of the rows, or of the cells, on a route.", labels=["query", "input", "route"]
        )
        families = [rows_in, rows_out, calls, seconds, events, late, work, state, size, route]
        from thalweg.watch.handle import QueryHandle
        from thalweg.watch.joins import JoinHandle

        for name, entry in list(board.entries.items()):
            if entry.asked.is_join:
                join = JoinHandle(entry).summary()
                for i in join.inputs:
                    if i.filters is not None:
                        self._predicates(i.filters, i.alias, calls, seconds, route)
                if entry.history.cells():
                    rows_in.add_metric([name], sum(i.read for i in join.streams))
                    rows_out.add_metric([name], join.results)
                    self._inputs(entry, late, work, state, size, route)
            else:
                summary = QueryHandle(entry).summary()
                rows_in.add_metric([name], summary.rows_in)
                rows_out.add_metric([name], summary.rows_out)
                self._predicates(summary, "", calls, seconds, route)
            for kind, count in dict(entry.history.kinds).items():
                events.add_metric([name, kind], count)
        yield from families

    @staticmethod
    def _predicates(summary: Summary, alias: str, calls: Any, seconds: Any, route: Any) -> None:
        for predicate in summary.predicates:
            calls.add_metric([summary.name, predicate.name], predicate.calls)
            seconds.add_metric([summary.name, predicate.name], (predicate.cost or 0.0) * predicate.calls)
        for order, share in summary.routes:
            route.add_metric([summary.name, alias, order], share)

    @staticmethod
    def _inputs(entry: Entry, late: Any, work: Any, state: Any, size: Any, route: Any) -> None:
        cells = entry.history.cells()
        for alias in (i.alias for i in entry.asked.inputs):
            own, labels = [c.input(alias) for c in cells], [entry.name, alias]
            late.add_metric(labels, sum(i.late for i in own))
            work.add_metric(labels, sum(i.probe_work for i in own))
            state.add_metric(labels, sum(i.stored for i in own))
            size.add_metric(labels, sum(i.row_bytes for i in own))
            orders = Counter(" → ".join(i.routing.route) for i in own if i.routing is not None and i.routing.route)
            for order, count in orders.items():
                route.add_metric([*labels, order], count / len(own))
