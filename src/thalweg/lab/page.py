"""One self-contained HTML page about a run: claims beside measurements, figures, numbers. No script, no network.

The page follows the reader's light or dark setting. On a phone, tables become cards and figures take the full width.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from thalweg.lab import chart
from thalweg.lab.experiment import Outcome

CSS = """
:root { color-scheme: light dark; --ink:%(ink)s; --faint:%(faint)s; --paper:%(paper)s; --soft:#f3f5f7; --muted:#59636e;
  --good:#1a7f37; --bad:#b3261e; --open:#8a5a00; %(light)s }
@media (prefers-color-scheme: dark) { :root { --ink:#e8ebee; --faint:#343b43; --paper:#14181d; --soft:#1d232a;
  --muted:#9aa4af; --good:#56d364; --bad:#ff8a80; --open:#e3b341; %(dark)s } }
* { box-sizing: border-box }
body { margin:0 auto; max-width:76rem; padding:1.2rem; background:var(--paper); color:var(--ink);
  font:16px/1.5 system-ui,-apple-system,"Segoe UI",sans-serif }
h1 { font-size:1.7rem; line-height:1.2; margin:.4rem 0 }
h2 { font-size:1.25rem; margin:2.6rem 0 .3rem; padding-top:1rem; border-top:1px solid var(--faint) }
h2 small { color:var(--muted); font-weight:400; margin-left:.4rem }
p { margin:.4rem 0; max-width:60rem } .muted, dt { color:var(--muted) }
code { background:var(--soft); padding:.1em .35em; border-radius:4px; overflow-wrap:anywhere }
nav { display:flex; flex-wrap:wrap; gap:.4rem; margin:1rem 0 } a { color:var(--series-1) }
nav a { background:var(--soft); border-radius:6px; padding:.2rem .6rem; text-decoration:none }
dl { display:grid; grid-template-columns:max-content 1fr; gap:.1rem 1rem; margin:.6rem 0 } dd { margin:0 }
.tally { display:flex; gap:1rem; flex-wrap:wrap; margin:1rem 0 }
.tally div { background:var(--soft); border-radius:8px; padding:.5rem 1rem }
.tally b { font-size:1.5rem; display:block }
table { border-collapse:collapse; width:100%%; margin:.8rem 0; font-size:.92rem }
th { text-align:left; color:var(--muted); font-weight:600 }
th, td { padding:.45rem .7rem .45rem 0; border-bottom:1px solid var(--faint); vertical-align:top }
td.num { font-variant-numeric:tabular-nums; white-space:nowrap }
.claims td:nth-child(1) { width:42%% } .claims td:nth-child(2) { white-space:nowrap; font-weight:600 }
.claims td:nth-child(3) { color:var(--muted); overflow-wrap:anywhere }
.agrees { color:var(--good) } .doesnot { color:var(--bad) } .cantsay { color:var(--open) }
.ours { font-size:.75rem; background:var(--soft); border-radius:4px; padding:.1rem .35rem; color:var(--muted) }
.figures { display:grid; gap:1.2rem; margin:1rem 0;
  grid-template-columns:repeat(auto-fill,minmax(min(30rem,100%%),1fr)) }
figure { margin:0; border:1px solid var(--faint); border-radius:8px; padding:.6rem; min-width:0 }
figure svg { width:100%%; height:auto; display:block } figure text { fill:var(--ink) }
details { margin:.4rem 0 } summary { cursor:pointer; color:var(--muted) } .scroll { overflow-x:auto }
@media (max-width: 640px) { body { padding:.8rem } .claims thead { display:none }
  .claims tr { display:block; border-bottom:1px solid var(--faint); padding:.5rem 0 }
  .claims td { display:block; width:auto !important; border:0; padding:.1rem 0 } figure { padding:.3rem }
  dl { grid-template-columns:1fr } dd { margin-bottom:.3rem } }
"""


def page(title: str, record: Mapping[str, Any], outcomes: Sequence[Outcome], drawings: Mapping[str, str]) -> str:
    """The page. `record` is the run's summary and the only source of numbers; `drawings` are SVGs by panel."""
    style = CSS % {
        "ink": chart.INK, "faint": chart.FAINT, "paper": chart.PAPER,
        "light": " ".join(f"--series-{i}:{c};" for i, c in enumerate(chart.LIGHT)),
        "dark": " ".join(f"--series-{i}:{c};" for i, c in enumerate(chart.DARK)),
    }  # fmt: skip
    tally = "".join(
        f'<div><b class="{_css(verdict)}">{count}</b>{_label(verdict)}</div>'
        for verdict, count in record["claims"].items()
    )
    links = "".join(f'<a href="#e-{e["name"]}">{escape(e["name"])}</a>' for e in record["experiments"])
    sections = "".join(
        _section(e, o, drawings) for e, o in zip(record["experiments"], outcomes, strict=True)
    )  # fmt: skip
    papers = "; ".join(dict.fromkeys(o.experiment.paper for o in outcomes))
    quick = " This was a quick run with short streams and few seeds; most claims stay open." if record["quick"] else ""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{style}</style></head><body>"
        f"<h1>{escape(title)}</h1><p class=muted>{escape(papers)}</p>"
        f"<p>The paper's claims beside our measurements. Made by <code>{escape(record['command'])}</code>.{quick} "
        "A claim <b>agrees</b> if all 95&nbsp;% intervals over seeds lie entirely on its side. It <b>does not</b> if one "
        "lies entirely on the other side. Otherwise we can't say.</p>"
        f'<div class="tally">{tally}</div><nav>{links}</nav>{sections}</body></html>\n'
    )


def _section(record: Mapping[str, Any], outcome: Outcome, drawings: Mapping[str, str]) -> str:
    e = outcome.experiment
    claims = "".join(
        f"<tr><td>{escape(c['says'])}{' <span class=ours>ours</span>' if c['source'] == 'ours' else ''}</td>"
        f'<td class="{_css(c["verdict"])}">{_label(c["verdict"])}</td><td>{escape(c["numbers"])}</td></tr>'
        for c in record["claims"]
    )
    figures = "".join(f"<figure>{drawings[e.name + '-' + p['name']]}{_numbers(p)}</figure>" for p in record["panels"])
    notes = "".join(f"<p class=muted>{escape(n)}</p>" for n in e.notes)
    return (
        f'<section id="e-{escape(e.name)}"><h2>{escape(e.title)}'
        f"<small>{escape(e.name)}, section {escape(e.section)}</small></h2>"
        f"<dl><dt>varies</dt><dd>{escape(e.varies)}</dd><dt>fixed</dt><dd>{escape(e.fixed)}</dd></dl>"
        "<table class=claims><thead><tr><th>claim</th><th>verdict</th><th>measured</th></tr></thead>"
        f'<tbody>{claims}</tbody></table><div class="figures">{figures}</div>{notes}</section>'
    )


def _numbers(panel: Mapping[str, Any]) -> str:
    """The points of a panel as a collapsed table."""
    head = "".join(f"<th>{escape(c['series'])}</th>" for c in panel["curves"])
    xs = list(dict.fromkeys(x for c in panel["curves"] for x in c["x"]))
    rows = []
    for x in xs:
        cells = []
        for c in panel["curves"]:
            if x not in c["x"]:
                cells.append("<td></td>")
                continue
            i = c["x"].index(x)
            low, high = (c[k][i] if k in c else None for k in ("low", "high"))
            interval = "" if low is None or low == high else f" <small>[{low:g}, {high:g}]</small>"
            cells.append(f"<td class=num>{c['mean'][i]:g}{interval}</td>")
        rows.append(
            f"<tr><td class=num>{escape(format(x, ',') if not isinstance(x, str) else x)}</td>{''.join(cells)}</tr>"
        )
    return (
        f'<details data-panel="{escape(panel["name"])}"><summary>numbers</summary><div class="scroll"><table>'
        f"<thead><tr><th>{escape(panel['x'])}</th>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table></div></details>"
    )


def _css(verdict: str) -> str:
    return verdict.replace(" ", "").replace("'", "")


def _label(verdict: str) -> str:
    mark = {"agrees": "✓", "does not": "✗", "can't say": "?"}[verdict]
    return f"{mark} {escape(verdict, quote=False)}"
