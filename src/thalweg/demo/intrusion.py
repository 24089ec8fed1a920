"""A drifting intrusion-detection stream, and six predicates that look for trouble in it.

The predicates are ordinary Python over addresses and payloads, two to thirty microseconds each. Which of them drops the
most rows changes with the traffic: a quiet network, a port scan, a worm whose packets look alike to several predicates,
a slow exfiltration. The stream is synthetic; its kinds of packets follow the attack families of public
intrusion-detection data sets.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from zlib import crc32

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

PHASES = ("quiet", "port scan", "worm", "exfiltration")
KINDS = ("web", "mail", "probe", "worm", "tunnel", "intruder")
MIX = {
    "quiet":        (0.60, 0.34, 0.03, 0.01, 0.01, 0.01),
    "port scan":    (0.20, 0.10, 0.66, 0.01, 0.02, 0.01),
    "worm":         (0.15, 0.06, 0.02, 0.74, 0.02, 0.01),
    "exfiltration": (0.16, 0.08, 0.02, 0.01, 0.72, 0.01),
}  # fmt: skip
"""Share of each kind of packet in each phase."""

SCHEMA = "id long, src string, payload string"
PER_BATCH = 2
"""Files per micro-batch; each is one task."""
POOL = 250
_WORDS = [
    "login",
    "status",
    "report",
    "image",
    "search",
    "query",
    "invoice",
    "update",
    "sync",
    "token",
    "account",
    "order",
]


def unknown_source(src: str) -> bool:
    """Not on the list of known networks, looked up by longest prefix."""
    a, b, c, d = (int(part) for part in src.split("."))
    address = a << 24 | b << 16 | c << 8 | d
    return not any(address >> 32 - bits in networks for bits, networks in _KNOWN.items())


def bad_checksum(payload: str) -> bool:
    """The last eight characters are not the checksum of the rest."""
    return f"{crc32(payload[:-8].encode()):08x}" != payload[-8:]


def shellcode(payload: str) -> bool:
    """A run of no-operations before code that opens a shell, or a call to one."""
    return _SHELL.search(payload) is not None


def high_entropy(payload: str) -> bool:
    """More bits per character than text has: compressed, encrypted or packed."""
    counts = Counter(payload)
    total = len(payload)
    return -sum(n / total * math.log2(n / total) for n in counts.values()) > 4.6 if total else False


def beacon(payload: str) -> bool:
    """Speaks to a control server: a command word with a hexadecimal identity."""
    return _BEACON.search(payload) is not None


def known_signature(payload: str) -> bool:
    """Holds one of the eight-character signatures anywhere."""
    return any(payload[i : i + 8] in _SIGNATURES for i in range(len(payload) - 7))


PREDICATES = (unknown_source, beacon, bad_checksum, known_signature, shellcode, high_entropy)
"""As an analyst might write them: look-ups first, the most expensive last."""

_SHELL = re.compile(r"(?:\\x90){4,}.*(?:/bin/sh|cmd\.exe)|exec\([^)]*sh[^)]*\)")
_BEACON = re.compile(r"(?:PING|TASK|EXFIL)[ :]+id=[0-9a-f]{8}\b")
_KNOWN = {bits: frozenset(10 << bits - 8 | n for n in range(64)) for bits in (24, 22, 20, 18, 16, 12)}
_MARKS = ("XdR0pper", "bKd00r77", "z3r0day!", "w0rmh0le")
_SIGNATURES = frozenset(_MARKS)


@dataclass(frozen=True)
class Stream:
    """Files of packets, in order, and the phase each belongs to."""

    folder: Path
    files: int
    rows: int
    phases: tuple[str, ...]


def write(folder: Path, files: int, rows: int, seed: int = 7) -> Stream:
    """Write the stream: `files` files of `rows` packets; the phases take turns."""
    random = np.random.default_rng(seed)
    pools = {kind: [_payload(kind, random) for _ in range(POOL)] for kind in KINDS}
    folder.mkdir(parents=True, exist_ok=True)
    span = max(1, files // len(PHASES))
    phases = tuple(PHASES[min(k // span, len(PHASES) - 1)] for k in range(files))
    for k, phase in enumerate(phases):
        kinds = random.choice(len(KINDS), rows, p=MIX[phase])
        pick = random.integers(0, POOL, rows)
        table = pa.table(
            {
                "id": pa.array(np.arange(k * rows, (k + 1) * rows)),
                "src": [_source(KINDS[i], n) for i, n in zip(kinds, random.integers(0, 1 << 16, rows), strict=True)],
                "payload": [pools[KINDS[i]][n] for i, n in zip(kinds, pick, strict=True)],
            }
        )
        pq.write_table(table, folder / f"packets-{k:04}.parquet")
    return Stream(folder, files, rows, phases)


def _source(kind: str, n: int) -> str:
    tenths_inside = {"web": 3, "mail": 4, "probe": 5, "worm": 9, "tunnel": 9, "intruder": 0}[kind]
    return f"10.0.{n >> 8 & 63}.{n & 255}" if n % 10 < tenths_inside else f"{20 + n % 180}.{n >> 8}.{n & 255}.{n % 251}"


def _payload(kind: str, random: np.random.Generator) -> str:
    """Text of one kind, with the patterns that predicates look for inserted at the rates of that kind."""
    marks = {
        "web":      (0.03, 0.50, 0.02, 0.60, 0.10),
        "mail":     (0.02, 0.30, 0.02, 0.50, 0.10),
        "probe":    (0.60, 0.10, 0.50, 0.95, 0.97),
        "worm":     (0.95, 0.96, 0.97, 0.90, 0.90),
        "tunnel":   (0.70, 0.97, 0.05, 0.90, 0.95),
        "intruder": (0.95, 0.95, 0.95, 0.95, 0.95),
    }[kind]  # fmt: skip
    signature, dense, shell, beacons, broken = random.random(5) < marks
    words = [_WORDS[i] for i in random.integers(0, len(_WORDS), 14)]
    if dense:
        words.append(bytes(random.integers(33, 127, 120, np.uint8)).decode("ascii"))
    if shell:
        words.append("\\x90" * 8 + " /bin/sh")
    if beacons:
        words.append(f"TASK id={random.integers(0, 1 << 32):08x} ")
    if signature:
        words.append(_MARKS[int(random.integers(len(_MARKS)))])
    random.shuffle(words)
    text = f"{'GET' if kind == 'web' else 'DATA'} /{words[0]} " + " ".join(words) + " "
    return text + ("deadbeef" if broken else f"{crc32(text.encode()):08x}")
