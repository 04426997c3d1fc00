"""A PostgreSQL server on loopback, for tests of Dagster's storage."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from benchmarks.harness.waiting import SECONDS

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def postgresql() -> Iterator[int]:
    """Run a server until the end of the block, and yield its port.

    As root, it runs as the user postgres, because it refuses root. The test is skipped without PostgreSQL.
    """
    programs = _programs()
    as_user = ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []
    folder = Path(tempfile.mkdtemp())
    if as_user:
        shutil.chown(folder, "postgres")
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    data = ["-D", str(folder / "data")]
    options = f"-p {port} -c listen_addresses=127.0.0.1 -k {folder}"

    def run(program: str, *arguments: str) -> None:
        command = [*as_user, str(programs / program), *data, *arguments]
        subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL, timeout=SECONDS)

    run("initdb", "-A", "trust", "-U", "dagster")
    run("pg_ctl", "-o", options, "-l", str(folder / "log"), "-w", "start")
    try:
        yield port
    finally:
        run("pg_ctl", "-m", "fast", "stop")
        shutil.rmtree(folder)


def storage_on(port: int) -> str:
    """Return the lines of a dagster.yaml that stores everything in the server of a port."""
    return f"storage: {{postgres: {{postgres_url: 'postgresql://dagster:-@127.0.0.1:{port}/postgres'}}}}\n"


def _programs() -> Path:
    """Return the folder of PostgreSQL's programs, which Debian keeps off the PATH."""
    on_path = shutil.which("initdb")
    found = [Path(on_path).parent] if on_path else sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    if found:
        return found[-1]
    missing = pytest.fail if os.environ.get("CI") else pytest.skip
    missing("PostgreSQL's initdb is not installed")
    raise AssertionError("unreachable")
