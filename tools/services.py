"""Run the tests that speak to real services: Kafka, Delta, Iceberg, PostgreSQL.

    python tools/services.py [kafka] [delta] [iceberg] [postgresql] [-- pytest arguments]

Fetches the services' jars with Maven (tests/services/pom.xml) into out/jars, makes an environment for the Spark that
each service's release supports (as tools/spark_versions.py does), and runs the tests of that service there. PostgreSQL
is the machine's own (`apt-get install postgresql`). `--record` writes the outcome to docs/services.json.
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
    parser.add_argument("names", nargs="*", help=f"of {', '.join(SERVICES)}, then arguments for pytest")
    asked = parser.parse_args()
    names = [n for n in asked.names if n in SERVICES] or list(SERVICES)
    rest = [n for n in asked.names if n not in SERVICES]
    return max(run(name, rest, asked.record) for name in names)


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
        known = json.loads(RECORD.read_text()) if RECORD.exists() else {}
        shown = [str(python), "-c", "import pyspark; print(pyspark.__version__)"]
        spark = subprocess.run(shown, capture_output=True, text=True, check=True, env=env).stdout.strip()
        jar = sorted(j.name for p in SERVICES[name].jars for j in (JARS / p).glob("*.jar") if p != "kafka-server")
        known[name] = {"spark": spark, "jars": jar} | counted(told)
        RECORD.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n")
    return code


if __name__ == "__main__":
    sys.exit(main())
