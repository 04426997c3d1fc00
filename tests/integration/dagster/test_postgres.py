"""The PostgreSQL storage that dagster.yaml has as a comment, on a server that the test starts."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import dagster as dg
import pytest
import yaml

import kinesis_assets
from support.stream_names import raw_key

if TYPE_CHECKING:
    from collections.abc import Iterator

PROJECT = Path(kinesis_assets.__file__).parents[1]


def binaries() -> Path:
    """Return the folder of PostgreSQL's programs, which Debian keeps off the PATH."""
    on_path = shutil.which("initdb")
    found = [Path(on_path).parent] if on_path else sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    if found:
        return found[-1]
    missing = pytest.fail if os.environ.get("CI") else pytest.skip
    missing("PostgreSQL's initdb is not installed")
    raise AssertionError("unreachable")


@pytest.fixture
def postgres_port() -> Iterator[int]:
    """The port of a server on loopback. As root, it runs as the user postgres, because it refuses root."""
    programs = binaries()
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
        subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL, timeout=300)

    run("initdb", "-A", "trust", "-U", "dagster")
    run("pg_ctl", "-o", options, "-l", str(folder / "log"), "-w", "start")
    try:
        yield port
    finally:
        run("pg_ctl", "-m", "fast", "stop")
        shutil.rmtree(folder)


def with_postgres_storage(text: str, port: int) -> str:
    """Return dagster.yaml with its storage block uncommented."""
    before, mark, rest = text.partition("# storage:\n")
    block, gap, after = rest.partition("\n\n")
    lines = [mark, *(line + "\n" for line in block.splitlines())]
    return (
        before + "".join(line.removeprefix("# ") for line in lines).replace("5432", str(port)) + gap + after
    )


@pytest.mark.usefixtures("spark")
def test_a_run_is_recorded_in_postgresql(postgres_port, cli, stream_options, source, tmp_path, monkeypatch):
    content = with_postgres_storage((PROJECT / "dagster.yaml").read_text(), postgres_port)
    assert "postgres_db" in yaml.safe_load(content)["storage"]["postgres"]
    (tmp_path / "dagster.yaml").write_text(content)
    for name, value in {"HOST": "127.0.0.1", "USER": "dagster", "PASSWORD": "-", "DB": "postgres"}.items():
        monkeypatch.setenv(f"DAGSTER_POSTGRES_{name}", value)
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path))
    source.create(2)
    assert cli("run", *stream_options).exit_code == 0
    with dg.DagsterInstance.get() as instance:
        assert type(instance.run_storage).__name__ == "PostgresRunStorage"
        assert [run.status for run in instance.get_runs()] == [dg.DagsterRunStatus.SUCCESS]
        assert len(instance.get_materialized_partitions(raw_key(source.name))) == 2
