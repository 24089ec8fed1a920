"""Run the tests that speak to real services: Kafka, Delta, Iceberg, PostgreSQL.

    python tools/services.py [kafka] [delta] [iceberg] [postgresql] [-- pytest arguments]

Fetches the services' jars with Maven (tests/services/pom.xml) into out/jars, makes an environment for the Spark that
each service's release supports (as tools/spark_versions.py does), and runs the tests of that service there. PostgreSQL
is the machine's own (`apt-get install postgresql`). `--record` writes the outcome to docs/services.json, `--table` puts
that record into docs/install.md.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from spark_versions import ROOT, counted, environment

POM = ROOT / "tests" / "services" / "pom.xml"
JARS = ROOT / "out" / "jars"
RECORD = ROOT / "docs" / "services.json"
PAGE = ROOT / "docs" / "install.md"
MARKS = ("<!-- services: made by tools/services.py --table -->", "<!-- /services -->")


@dataclass(frozen=True)
class Service:
    """What the tests of a service need: a Spark, jars, Python packages."""

    spark: str
    jars: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()


CLIENTS = ("confluent-kafka", "fastavro")
SERVICES = {
    "kafka": Service("4.2", ("kafka-server", "kafka-connector"), CLIENTS),
    "delta": Service("4.2", ("delta",), CLIENTS),
    "iceberg": Service("4.1", ("iceberg",), CLIENTS),
    "postgresql": Service("4.2", ("postgresql",), (*CLIENTS, "psycopg[binary]")),
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--record", action="store_true", help=f"write the outcome to {RECORD.relative_to(ROOT)}")
    parser.add_argument("--table", action="store_true", help=f"write the record's table into {PAGE.relative_to(ROOT)}")
    parser.add_argument("names", nargs="*", help=f"of {', '.join(SERVICES)}, then arguments for pytest")
    asked = parser.parse_args()
    names = [n for n in asked.names if n in SERVICES] or list(SERVICES)
    rest = [n for n in asked.names if n not in SERVICES]
    code = 0 if asked.table and not asked.names else max(run(name, rest, asked.record) for name in names)
    if asked.table:
        PAGE.write_text(page(PAGE.read_text()))
    return code


def jars(profile: str) -> Path:
    """The folder of a service's jars, fetched if they are not there."""
    folder = JARS / profile
    if not (folder / "ready").exists():
        if shutil.which("mvn") is None:
            sys.exit("Maven fetches the services' jars and is not here: apt-get install maven")
        copy = ["mvn", "-q", "-B", "-f", str(POM), "-P", profile, "dependency:copy-dependencies"]
        subprocess.run([*copy, f"-DoutputDirectory={folder}", "-DincludeScope=runtime"], check=True)
        (folder / "ready").touch()
    return folder


def prepared(name: str) -> tuple[Path, dict[str, str]]:
    """The Python for a service's tests, and the environment variables that tell them where its jars are."""
    service = SERVICES[name]
    python = environment(service.spark, sys.executable, [])
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    constraints = python.parent.parent / "constraints"
    subprocess.run([*pip, "-c", str(constraints), *service.packages], check=True)
    told = {f"THALWEG_JARS_{p.upper().replace('-', '_')}": str(jars(p)) for p in service.jars}
    pythons = dict.fromkeys(("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"), str(python))
    env = os.environ | told | pythons | {"PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}
    env.pop("SPARK_HOME", None)
    return python, env


def run(name: str, rest: list[str], record: bool) -> int:
    """Run the tests of a service; pytest's exit code."""
    python, env = prepared(name)
    told = python.parent.parent / f"{name}.xml"
    tests = [f"tests/services/test_{name}.py"]
    command = [str(python), "-m", "pytest", "-p", "no:cacheprovider", "-m", "services", f"--junitxml={told}", *tests]
    code = subprocess.run([*command, *rest], cwd=ROOT, env=env).returncode
    if record and code in (0, 1):
        remember(name, python, env, told)
    return code


def remember(name: str, python: Path, env: dict[str, str], told: Path) -> None:
    """Replace the record of a service by what pytest told."""
    known = json.loads(RECORD.read_text()) if RECORD.exists() else {}
    shown = [str(python), "-c", "import pyspark; print(pyspark.__version__)"]
    spark = subprocess.run(shown, capture_output=True, text=True, check=True, env=env).stdout.strip()
    jar = sorted(j.name for p in SERVICES[name].jars for j in (JARS / p).glob("*.jar") if p != "kafka-server")
    server = sorted(j.name for j in (JARS / "kafka-server").glob("kafka_2*.jar")) if name == "kafka" else []
    known[name] = {"spark": spark, "jars": server + jar} | counted(told)
    RECORD.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n")


def table(record: dict[str, dict[str, object]]) -> str:
    lines = ["| service | Spark | jars | tests | on |", "|---" * 5 + "|"]
    for name, told in sorted(record.items()):
        result = f"{told['passed']} passed" + (f", {told['failed']} failed" if told["failed"] else "")
        jars = ", ".join(str(j).removesuffix(".jar") for j in told["jars"])  # type: ignore[attr-defined]
        lines.append(f"| {name} | {told['spark']} | {jars} | {result} | {told['date']} |")
    return "\n".join(lines)


def page(text: str) -> str:
    """The page with the table of the record between its marks."""
    before, rest = text.split(MARKS[0])
    after = rest.split(MARKS[1])[1]
    return f"{before}{MARKS[0]}\n{table(json.loads(RECORD.read_text()))}\n{MARKS[1]}{after}"


if __name__ == "__main__":
    sys.exit(main())
