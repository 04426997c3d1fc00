"""A PostgreSQL server on loopback, for Dagster's storage."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.harness.waiting import SECONDS

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def postgresql() -> Iterator[tuple[int, int]]:
    """Run a server until the end of the block. As root, it runs as the user `postgres`: it refuses root.

    Yields:
        Its port, and the id of its process.

    Raises:
        FileNotFoundError: PostgreSQL is not installed.
    """
    programs = _programs()
    as_user = ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if as_user:
            shutil.chown(folder, "postgres")
        with socket.create_server(("127.0.0.1", 0)) as probe:
            port = probe.getsockname()[1]

        def run(program: str, *arguments: str) -> None:
            command = [*as_user, str(programs / program), "-D", str(folder / "data"), *arguments]
            subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL, timeout=SECONDS)

        run("initdb", "-A", "trust", "-U", "dagster")
        options = f"-p {port} -c listen_addresses=127.0.0.1 -k {folder}"
        run("pg_ctl", "-o", options, "-l", str(folder / "log"), "-w", "start")
        try:
            pid = int((folder / "data" / "postmaster.pid").read_text().split()[0])
            yield port, pid
        finally:
            run("pg_ctl", "-m", "fast", "stop")


def storage_on(port: int) -> str:
    """Return the line of a dagster.yaml that stores everything in the server of a port."""
    return f"storage: {{postgres: {{postgres_url: 'postgresql://dagster:-@127.0.0.1:{port}/postgres'}}}}\n"


def _programs() -> Path:
    """Return the folder of PostgreSQL's programs, which Debian keeps off the PATH."""
    on_path = shutil.which("initdb")
    found = [Path(on_path).parent] if on_path else sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    if not found:
        raise FileNotFoundError("PostgreSQL's initdb is not installed")
    return found[-1]
