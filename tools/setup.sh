#!/usr/bin/env bash
# Makes .venv with the locked packages, and makes sure there is a Java for Spark 4.3 (17 or newer).
set -euo pipefail
python=${1:-python3}

"$python" - <<'PY' || { echo "Thalweg needs Python 3.11 or newer; set PYTHON=/path/to/it" >&2; exit 1; }
import sys
sys.exit(sys.version_info < (3, 11))
PY

if command -v uv >/dev/null 2>&1; then
    [ -x .venv/bin/python ] || uv venv --quiet --python "$python" .venv
    echo "installing the locked packages with uv"
    # Compile bytecode once, as pip does: where it can't be written later, each Python process would parse pandas again.
    # The lock is complete, so nothing is resolved: a resolver would build PySpark from source, and uv keeps 2 GB each time.
    uv pip install --quiet --no-deps --compile-bytecode --python .venv/bin/python -r requirements.lock
    uv pip install --quiet --python .venv/bin/python --no-deps -e .
else
    [ -x .venv/bin/python ] || "$python" -m venv .venv
    echo "installing the locked packages with pip (a few minutes the first time)"
    # Compile bytecode separately, because pip uses one core. Some packages contain templates that are not Python.
    .venv/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --no-compile -r requirements.lock
    .venv/bin/python -m compileall -q -j 0 .venv/lib >/dev/null || true
    .venv/bin/python -m pip install --quiet --disable-pip-version-check --no-deps -e .
fi

java_version() {
    local java=${JAVA_HOME:+$JAVA_HOME/bin/java}
    "${java:-java}" -version 2>&1 | sed -nE 's/.*version "([0-9]+).*/\1/p' | head -1
}

version=$(java_version || true)
if [ -z "$version" ] || [ "$version" -lt 17 ]; then
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
        echo "no Java 17 or newer: installing a headless JRE"
        apt-get update -qq
        DEBIAN_FRONTEND=noninteractive apt-get install -y -qq default-jre-headless >/dev/null
        version=$(java_version || true)
    fi
fi
if [ -z "$version" ] || [ "$version" -lt 17 ]; then
    cat >&2 <<'MSG'
Spark 4.3 needs Java 17 or newer and none was found. Install one and run this again:
  Debian, Ubuntu   sudo apt-get install openjdk-17-jre-headless
  Fedora           sudo dnf install java-17-openjdk-headless
  macOS            brew install openjdk@17   (then set JAVA_HOME)
or set JAVA_HOME to an existing one.
MSG
    exit 1
fi
