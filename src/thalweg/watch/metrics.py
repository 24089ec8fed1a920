"""Metrics for Prometheus, off unless asked for: `tw.metrics(port)` serves what the board knows at /metrics.

Numbers are added up when somebody scrapes, from the same reports that `explain` reads; nothing is counted twice and a
query costs nothing for being watched. Needs the extra `thalweg[metrics]`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from thalweg.errors import ThalwegError
from thalweg.spark.board import Entry, board

if TYPE_CHECKING:
    from thalweg.watch.joins import JoinHandle
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
            handle = QueryHandle(entry) if isinstance(entry, Entry) else JoinHandle(entry)
            for kind, count in handle.events()["kind"].value_counts().items():
                events.add_metric([name, str(kind)], int(count))
            if isinstance(handle, QueryHandle):
                summary = handle.summary()
                rows_in.add_metric([name], summary.rows_in)
                rows_out.add_metric([name], summary.rows_out)
                self._predicates(summary, "", calls, seconds, route)
                continue
            for i in handle.summary().inputs:
                if i.filters is not None:
                    self._predicates(i.filters, i.alias, calls, seconds, route)
            self._join(handle, rows_in, rows_out, late, work, state, size, route)
        yield from families

    @staticmethod
    def _predicates(summary: Summary, alias: str, calls: Any, seconds: Any, route: Any) -> None:
        for predicate in summary.predicates:
            calls.add_metric([summary.name, predicate.name], predicate.calls)
            seconds.add_metric([summary.name, predicate.name], (predicate.cost or 0.0) * predicate.calls)
        for order, share in summary.routes:
            route.add_metric([summary.name, alias, order], share)

    @staticmethod
    def _join(
        handle: JoinHandle, rows_in: Any, rows_out: Any, late: Any, work: Any, state: Any, size: Any, route: Any
    ) -> None:
        stats = handle.stats()
        if not len(stats):
            return
        # Counts in reports are totals of their cell: the last of each tells all.
        last = stats.sort_values("batch", na_position="first").groupby(["cell", "input"]).tail(1)
        rows_in.add_metric([handle.name], sum(i.read for i in handle.summary().streams))
        rows_out.add_metric([handle.name], handle.results())
        for name, rows in last.groupby("input"):
            labels = [handle.name, str(name)]
            late.add_metric(labels, int(rows["late"].sum()))
            work.add_metric(labels, float((rows["work"] + rows["profiling work"]).sum()))
            state.add_metric(labels, int(rows["stored"].sum()))
            size.add_metric(labels, int(rows["bytes"].sum()))
            for order, count in rows[rows["route"] != ""]["route"].value_counts().items():
                route.add_metric([*labels, str(order)], count / len(rows))
