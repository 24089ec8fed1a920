"""Writes examples/grafana.json, a dashboard for the metrics of `tw.metrics()`.

    python tools/dashboard.py

Import the file in Grafana (Dashboards, New, Import) and choose your Prometheus. A test compares the file with this one.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

TARGET = Path(__file__).parent.parent / "examples" / "grafana.json"
SOURCE = {"type": "prometheus", "uid": "${source}"}
ONE = '{query=~"$query"}'


def _per_second(metric: str, *by: str) -> str:
    return f"sum by ({', '.join(('query', *by))}) (rate(thalweg_{metric}_total{ONE}[$__rate_interval]))"


CAME = _per_second("rows_in")
INPUT = "{{query}} {{input}}"
PANELS = (
    ("Rows in per second", "timeseries", "short", CAME, "{{query}}"),
    ("Rows out per second", "timeseries", "short", _per_second("rows_out"), "{{query}}"),
    ("Predicate calls per row", "timeseries", "short", f"{_per_second('predicate_calls')} / {CAME}", "{{query}}"),
    (
        "Seconds in predicates, per second", "timeseries", "s",
        _per_second("predicate_seconds", "predicate"), "{{query}} {{predicate}}",
    ),
    ("Rows in state", "timeseries", "short", f"sum by (query, input) (thalweg_state_rows{ONE})", INPUT),
    ("Bytes in state", "timeseries", "bytes", f"sum by (query, input) (thalweg_state_bytes{ONE})", INPUT),
    (
        "Probe work per row", "timeseries", "short",
        f"{_per_second('probe_work', 'input')} / ignoring (input) group_left {CAME}", INPUT,
    ),
    ("Late rows per second", "timeseries", "short", _per_second("late_rows", "input"), INPUT),
    ("Decisions per minute", "timeseries", "short", f"60 * {_per_second('decisions', 'kind')}", "{{query}} {{kind}}"),
    ("Share of rows on each order", "bargauge", "percentunit", f"thalweg_route_share{ONE}", "{{query}} {{input}}: {{route}}"),
)  # fmt: skip
ABOUT = {
    "Predicate calls per row": "On Spark it is the number of predicates. It falls as the order improves.",
    "Decisions per minute": "A sudden rise means drift; a lasting one, an order that flaps: freeze() pins it.",
    "Late rows per second": "Rows that came later than lateness= and were left out.",
}


def dashboard() -> dict[str, Any]:
    panels = [_panel(k, *panel) for k, panel in enumerate(PANELS)]
    variables = [
        {"name": "source", "label": "Prometheus", "type": "datasource", "query": "prometheus"},
        {
            "name": "query", "label": "Query", "type": "query", "datasource": SOURCE, "includeAll": True, "multi": True,
            "query": {"query": "label_values(thalweg_rows_in_total, query)", "refId": "names"}, "refresh": 2,
            "current": {"text": ["All"], "value": ["$__all"]},
        },
    ]  # fmt: skip
    return {
        "title": "Thalweg", "uid": "thalweg", "schemaVersion": 39, "version": 1, "editable": True, "tags": ["thalweg"],
        "time": {"from": "now-1h", "to": "now"}, "refresh": "10s", "timezone": "browser", "annotations": {"list": []},
        "templating": {"list": variables}, "panels": panels,
    }  # fmt: skip


def _panel(k: int, title: str, kind: str, unit: str, expr: str, legend: str) -> dict[str, Any]:
    line = {"fillOpacity": 8, "lineWidth": 2, "showPoints": "never", "spanNulls": True}
    last = k == len(PANELS) - 1 and k % 2 == 0
    return {
        "id": k + 1, "title": title, "description": ABOUT.get(title, ""), "type": kind, "datasource": SOURCE,
        "gridPos": {"h": 8, "w": 24 if last else 12, "x": 12 * (k % 2), "y": 8 * (k // 2)},
        "fieldConfig": {
            "defaults": {"unit": unit, "min": 0, **({"custom": line} if kind == "timeseries" else {"max": 1})},
            "overrides": [],
        },
        "options": (
            {"legend": {"displayMode": "list", "placement": "bottom", "showLegend": True}, "tooltip": {"mode": "multi"}}
            if kind == "timeseries"
            else {"orientation": "horizontal", "displayMode": "basic", "reduceOptions": {"calcs": ["lastNotNull"]}}
        ),
        "targets": [
            {"refId": "A", "expr": expr, "legendFormat": legend, "datasource": SOURCE, "instant": kind != "timeseries"}
        ],
    }  # fmt: skip


def text() -> str:
    return json.dumps(dashboard(), indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    TARGET.write_text(text(), encoding="utf-8")
