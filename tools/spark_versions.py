"""Run the Spark tests with another version of Spark, Python or pandas, and record the outcome.

    python tools/spark_versions.py 4.1 [--python python3.12] [--with pandas==3.1.1] [--record] [-- pytest arguments]

Makes out/spark-4.1-py3.11/ with the newest patch release of that Spark and the locked versions of everything else, and
runs the tests there. `--record` writes the outcome to docs/spark-versions.json; `--table` puts the table made from
that file into docs/install.md, and `--check` only compares.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as xml
from pathlib import Path

ROOT = Path(__file__).parent.parent
RECORD = ROOT / "docs" / "spark-versions.json"
PAGE = ROOT / "docs" / "install.md"
MARKS = ("<!-- versions: made by tools/spark_versions.py --table -->", "<!-- /versions -->")
FILTERS = ("test_where", "test_control", "test_session")
JOINS = ("test_sql", "test_cell", "test_first_minutes")
PACKAGES = ("pandas", "pyarrow", "numpy", "numba", "protobuf", "sqlglot", "rich", "typer", "grpcio", "grpcio-status",
            "googleapis-common-protos", "zstandard", "prometheus-client", "pytest", "pytest-timeout", "hypothesis",
            "duckdb", "psutil", "pytz")  # fmt: skip
SHOWN = ("pandas", "pyarrow", "protobuf", "numpy", "numba")
WHAT_RAN = """
import importlib.metadata as m, json, platform, subprocess, sys
java = subprocess.run(["java", "-version"], capture_output=True, text=True).stderr.split('"')[1]
print(json.dumps({"spark": m.version("pyspark"), "python": platform.python_version(), "java": java,
                  "packages": {p: m.version(p) for p in sys.argv[1:]}}))
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("version", nargs="?", help="a Spark version, such as 4.1 or 4.1.2")
    parser.add_argument("--python", default=sys.executable, help="the interpreter of the environment")
    parser.add_argument("--with", dest="extra", action="append", default=[], help="another package version")
    parser.add_argument("--record", action="store_true", help=f"write the outcome to {RECORD.relative_to(ROOT)}")
    parser.add_argument("--table", action="store_true", help=f"write the table into {PAGE.relative_to(ROOT)}")
    parser.add_argument("--check", action="store_true", help="is the table that of the record?")
    parser.add_argument("tests", nargs="*", help="arguments for pytest; by default the tests that the version can run")
    asked = parser.parse_args()
    if asked.version:
        python = environment(asked.version, asked.python, asked.extra)
        code = run(python, asked.version, asked.tests, asked.record)
        if code:
            return code
    if asked.check:
        return 0 if page(PAGE.read_text()) == PAGE.read_text() else 1
    if asked.table:
        PAGE.write_text(page(PAGE.read_text()))
    return 0


def environment(version: str, interpreter: str, extra: list[str]) -> Path:
    """The Python of an environment with this Spark; made, or completed, if it is not there."""
    shown = subprocess.run(
        [interpreter, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    tail = "".join(f"-{re.sub(r'[^a-z0-9]+', '', e)}" for e in extra)
    folder = ROOT / "out" / f"spark-{version}-py{shown}{tail}"
    python = folder / "bin" / "python"
    if (folder / "ready").exists():
        return python
    subprocess.run([interpreter, "-m", "venv", str(folder)], check=True)
    replaced = {re.split("[=<>]", e)[0] for e in ("pyspark", "py4j", *extra)}
    lines = [
        s for s in (ROOT / "requirements.lock").read_text().splitlines() if re.split("[=<> ]", s)[0] not in replaced
    ]
    (folder / "constraints").write_text("\n".join(lines))
    newest = version if version.count(".") > 1 else f"{version}.*"
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    own = [p for p in PACKAGES if p not in replaced]
    subprocess.run([*pip, "-c", str(folder / "constraints"), f"pyspark=={newest}", *own, *extra], check=True)
    subprocess.run([*pip, "--no-deps", "-e", str(ROOT)], check=True)
    (folder / "ready").touch()
    return python


def run(python: Path, version: str, tests: list[str], record: bool) -> int:
    """Run the tests; pytest's exit code."""
    joins = tuple(map(int, version.split(".")[:2])) >= (4, 1)
    names = FILTERS + (JOINS if joins else ())
    chosen = tests or [f"tests/spark/{name}.py" for name in names]
    told = python.parent.parent / "tests.xml"
    pythons = dict.fromkeys(("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"), str(python))
    env = os.environ | pythons | {"PYTHONPATH": str(ROOT / "src")}
    env.pop("SPARK_HOME", None)
    command = [str(python), "-m", "pytest", "-p", "no:cacheprovider", f"--junitxml={told}", *chosen]
    code = subprocess.run(command, cwd=ROOT, env=env).returncode
    if record and not tests and code in (0, 1):
        done = subprocess.run(
            [str(python), "-c", WHAT_RAN, *SHOWN], capture_output=True, text=True, check=True, env=env
        )
        remember(json.loads(done.stdout) | counted(told) | {"what": "filters and joins" if joins else "filters"})
    return code


def counted(path: Path) -> dict[str, object]:
    suite = xml.parse(path).getroot()[0]
    total, skipped = int(suite.get("tests", 0)), int(suite.get("skipped", 0))
    failed = int(suite.get("failures", 0)) + int(suite.get("errors", 0))
    return {"passed": total - skipped - failed, "failed": failed, "date": str(suite.get("timestamp"))[:10]}


def remember(outcome: dict[str, object]) -> None:
    """Replace the record of the same versions."""
    known = json.loads(RECORD.read_text()) if RECORD.exists() else []
    same = ("spark", "python", "packages")
    kept = [o for o in known if any(o[k] != outcome[k] for k in same)]
    kept.append(outcome)
    kept.sort(key=lambda o: ([int(n) for n in o["spark"].split(".")], o["python"], o["packages"]["pandas"]))
    RECORD.write_text(json.dumps(kept, indent=1) + "\n")


def table(outcomes: list[dict[str, object]]) -> str:
    lines = ["| Spark | Python | Java | pandas | pyarrow | protobuf | what ran | tests |", "|---" * 8 + "|"]
    for o in outcomes:
        p = o["packages"]
        result = f"{o['passed']} passed" + (f", {o['failed']} failed" if o["failed"] else "")
        shown = (o["spark"], o["python"], o["java"], p["pandas"], p["pyarrow"], p["protobuf"], o["what"], result)
        lines.append("| " + " | ".join(map(str, shown)) + " |")
    return "\n".join(lines)


def page(text: str) -> str:
    """The page with the table of the record between its marks."""
    before, rest = text.split(MARKS[0])
    after = rest.split(MARKS[1])[1]
    return f"{before}{MARKS[0]}\n{table(json.loads(RECORD.read_text()))}\n{MARKS[1]}{after}"


if __name__ == "__main__":
    sys.exit(main())
