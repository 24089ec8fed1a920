"""A PostgreSQL server of the machine's own packages, in a folder of its own, run by a user who is not root."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from tests.services.kafka_server import free_ports

PASSWORD = "hunter2-planted"


class PostgresServer:
    """Started when made; `stop()` ends it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._as = ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []
        (self.port,) = free_ports(1)
        data, secret = folder / "data", folder / "secret"
        data.mkdir()
        secret.write_text(PASSWORD)
        if self._as:
            for place in (folder, data, secret):
                shutil.chown(place, "postgres")
        self._run("initdb", "-D", str(data), "-U", "thalweg", "--auth=scram-sha-256", f"--pwfile={secret}")
        options = f"-p {self.port} -c listen_addresses=127.0.0.1 -c unix_socket_directories={folder} -c fsync=off"
        self._run("pg_ctl", "-D", str(data), "-l", str(folder / "log"), "-w", "-o", options, "start")

    @property
    def url(self) -> str:
        return f"jdbc:postgresql://127.0.0.1:{self.port}/postgres"

    def connect(self):
        import psycopg

        return psycopg.connect(host="127.0.0.1", port=self.port, dbname="postgres", user="thalweg", password=PASSWORD)

    def stop(self) -> None:
        self._run("pg_ctl", "-D", str(self._folder / "data"), "-m", "immediate", "-w", "stop")

    def _run(self, name: str, *arguments: str) -> None:
        found = shutil.which(name) or next(
            map(str, sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))[-1:]), None
        )
        assert found, f"{name} is not here: apt-get install postgresql"
        done = subprocess.run(
            [*self._as, found, *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=120
        )
        assert done.returncode == 0, done.stderr.decode()
