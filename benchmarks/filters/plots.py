"""Work over time, one small panel per policy, beside the best order of each phase, which nobody can know in advance."""

from __future__ import annotations

from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
from numpy.typing import NDArray

from benchmarks.filters.workload import CHUNK

PANELS = ("written", "independent", "agreedy", "sweep", "localswaps", "lottery", "cbr", "mesh", "auto")
BEST, OURS, BORDER = "#9aa5b1", "#0b6e99", "#d9dee3"


def draw(
    path: Path, title: str, unit: str, phase: int, best: NDArray[np.float64], work: dict[str, NDArray[np.float64]],
    borders: bool = True, smooth: int = 1,
) -> None:  # fmt: skip
    """`best` and `work` are per chunk; `smooth` is the number of chunks to average over."""
    shown = [p for p in PANELS if p in work]
    columns = 2
    lines = -(-len(shown) // columns)
    figure, axes = plt.subplots(
        lines, columns, figsize=(11, 1.9 * lines + 0.8), sharex=True, sharey=True, squeeze=False
    )
    rows = np.arange(len(best)) * CHUNK / 1000
    reference = _smooth(best, smooth) / CHUNK
    top = max(float(_smooth(work[p], smooth).max()) for p in shown) / CHUNK
    for axis, policy in zip(axes.flat, shown, strict=False):
        if borders:
            for at in range(phase, len(best) * CHUNK, phase):
                axis.axvline(at / 1000, color=BORDER, linewidth=0.8, zorder=0)
        axis.plot(
            rows, reference, color=BEST, linewidth=1.2, label="best order of each " + ("phase" if borders else "block")
        )
        axis.plot(
            rows, _smooth(work[policy], smooth) / CHUNK, color=OURS, linewidth=1.0, label="policy, profiling included"
        )
        ratio = work[policy].sum() / best.sum()
        axis.set_title(f"{policy}   {ratio:.2f} × best", loc="left", fontsize=10)
        axis.set_ylim(0, 1.05 * top)
        axis.spines[["top", "right"]].set_visible(False)
        axis.tick_params(labelsize=8)
    handles, labels = axes[0][0].get_legend_handles_labels()
    for axis in list(axes.flat)[len(shown) :]:
        axis.axis("off")
        axis.legend(handles, labels, loc="center left", frameon=False, fontsize=10)
    if len(shown) == len(axes.flat):
        figure.legend(handles, labels, loc="upper right", ncols=2, frameon=False, fontsize=9)
    else:  # the panel above the hole has the ticks that its neighbour below would have had
        axes[-2][-1].tick_params(labelbottom=True)
    for axis in axes[-1]:
        axis.set_xlabel("thousand rows", fontsize=9)
    for line in axes:
        line[0].set_ylabel(f"{unit} per row", fontsize=9)
    figure.suptitle(title, x=0.01, ha="left", fontsize=11)
    figure.tight_layout(rect=(0, 0, 1, 0.985), h_pad=0.6)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def _smooth(values: NDArray[np.float64], over: int) -> NDArray[np.float64]:
    if over <= 1:
        return values
    kernel = np.ones(over) / over
    padded = np.concatenate([np.full(over // 2, values[0]), values, np.full(over - 1 - over // 2, values[-1])])
    return np.convolve(padded, kernel, mode="valid")
