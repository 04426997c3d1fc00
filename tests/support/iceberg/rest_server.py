"""A REST catalog: Iceberg's own handlers in `RestCatalogServer.java`, in a process of their own."""

from __future__ import annotations

import subprocess
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.harness.file_lock import locked
from support import java

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

FOLDER = Path(__file__).parent
BUILDS = Path(__file__).parents[3] / ".local" / "iceberg"
SERVER = "org.apache.iceberg.rest.RestCatalogServer"


def libraries() -> list[str]:
    """Return the paths of Iceberg's libraries for Java, which are downloaded on first use."""
    BUILDS.mkdir(parents=True, exist_ok=True)
    with locked(BUILDS / "lock"):  # several test sessions may share the folder
        if _changed(FOLDER / "pom.xml"):
            java.class_path(FOLDER, BUILDS)
    return (BUILDS / "libraries").read_text().split(":")


def class_path() -> str:
    """Return the class path of the server, which is compiled if it has not been compiled here before."""
    of_server = [path for path in libraries() if "spark-runtime" not in path]
    source = FOLDER / "RestCatalogServer.java"
    with locked(BUILDS / "lock"):
        if _changed(source):
            java.compiled(source, ":".join(of_server), BUILDS)
    return ":".join([*of_server, str(BUILDS)])


@contextmanager
def running(properties: Mapping[str, str], folder: Path) -> Iterator[str]:
    """Run a server until the end of the block, and yield its URL.

    Args:
        properties: Those of the catalog beside its database, which is in the folder.
        folder: An empty folder.
    """
    catalog = {
        "uri": f"jdbc:sqlite:{folder}/catalog.db",
        "jdbc.schema-version": "V1",
        "clients": "1",  # SQLite has one writer
        **properties,
    }
    command = ["java", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", class_path(), SERVER]
    command += [f"{name}={value}" for name, value in catalog.items()]
    log = folder / "log"
    with log.open("wb") as errors:
        server = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True
        )
    assert server.stdout is not None
    try:
        port = server.stdout.readline().strip()
        assert port, log.read_text()
        yield f"http://127.0.0.1:{port}"
    finally:
        server.communicate()


def _changed(source: Path) -> bool:
    """Whether a source has changed since the last call. A copy of it is kept."""
    copy = BUILDS / source.name
    if copy.exists() and copy.read_bytes() == source.read_bytes():
        return False
    copy.write_bytes(source.read_bytes())
    return True
