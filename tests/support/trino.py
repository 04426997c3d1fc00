"""Trino, on which Athena is based. It finds tables by AWS Glue and reads them from S3."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import requests

from benchmarks.harness.file_lock import locked
from benchmarks.harness.waiting import SECONDS, wait_until
from support.java import fetch
from support.skipping import give_up

if TYPE_CHECKING:
    from collections.abc import Iterator

VERSION = "476"
JAVA = 24
"""The oldest version of Java that it supports."""

BUILDS = Path(__file__).parents[2] / ".local" / "trino"
OPTIONS = ["-Xmx1g", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "--add-modules", "jdk.incubator.vector"]

CONNECTORS = {
    "delta": {"connector.name": "delta_lake", "hive.metastore": "glue"},
    "iceberg": {"connector.name": "iceberg", "iceberg.catalog.type": "glue"},
}
"""The catalogs of the server by their names, one for the tables of each format."""


class TrinoFailed(Exception):
    """A statement failed. The message is Trino's."""


@dataclass(frozen=True)
class Trino:
    """A server.

    Attributes:
        url: Where it listens.
    """

    url: str

    def rows(self, statement: str, *, format_: str, database: str) -> list[list[Any]]:
        """Return the rows of a query in a database of AWS Glue, with values as they are in Trino's JSON.

        Args:
            format_: The format of the tables: "delta" or "iceberg".

        Raises:
            TrinoFailed: The query failed.
        """
        headers = {"X-Trino-User": "tests", "X-Trino-Catalog": format_, "X-Trino-Schema": database}
        headers["X-Trino-Time-Zone"] = "UTC"
        found: list[list[Any]] = []
        answer = requests.post(f"{self.url}/v1/statement", statement, headers=headers, timeout=SECONDS).json()
        while "nextUri" in answer:
            answer = requests.get(answer["nextUri"], headers=headers, timeout=SECONDS).json()
            found += answer.get("data", [])
        if "error" in answer:
            raise TrinoFailed(answer["error"]["message"])
        return found

    def is_ready(self) -> bool:
        """Whether it executes queries."""
        try:
            about = requests.get(f"{self.url}/v1/info", timeout=SECONDS)
        except requests.ConnectionError:
            return False
        return about.ok and about.json()["starting"] is False


@contextmanager
def running(endpoint: str, folder: Path) -> Iterator[Trino]:
    """Run a server until the end of the block.

    Args:
        endpoint: That of AWS Glue and of S3, which accepts the keys of the tests.
        folder: An empty folder.
    """
    java, home = _java(), _installed()
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    plugins = folder / "plugins"
    plugins.mkdir()
    for plugin in ("delta-lake", "iceberg"):
        (plugins / plugin).symlink_to(home / "plugin" / plugin)
    server = {
        "coordinator": "true",
        "node-scheduler.include-coordinator": "true",
        "http-server.http.port": str(port),
        "discovery.uri": f"http://127.0.0.1:{port}",
        "plugin.dir": str(plugins),
    }
    _write(folder / "config.properties", server)
    for name, connector in CONNECTORS.items():
        _write(folder / "catalogs" / f"{name}.properties", connector | _reached_at(endpoint))
    system = {
        "config": folder / "config.properties",
        "catalog.config-dir": folder / "catalogs",
        "node.environment": "tests",
        "node.data-dir": folder / "data",
    }
    options = [*OPTIONS, *(f"-D{name}={value}" for name, value in system.items())]
    log = folder / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [java, *options, "-cp", f"{home}/lib/*", "io.trino.server.TrinoServer"],
            stdout=output,
            stderr=output,
            cwd=folder,
        )
        try:
            trino = Trino(f"http://127.0.0.1:{port}")
            wait_until(trino.is_ready, process, failure=log, interval=1)
            yield trino
        finally:
            process.kill()
            process.wait()


def _reached_at(endpoint: str) -> dict[str, str]:
    glue = {"region": "us-east-1", "endpoint-url": endpoint}
    keys = {"aws-access-key": "test", "aws-secret-key": "test"}
    s3 = {"region": "us-east-1", "endpoint": endpoint, "path-style-access": "true"}
    return {
        "fs.native-s3.enabled": "true",
        **{f"hive.metastore.glue.{name}": value for name, value in (glue | keys).items()},
        **{f"s3.{name}": value for name, value in (s3 | keys).items()},
    }


def _write(path: Path, properties: dict[str, str]) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))


def _java() -> str:
    """Return a Java that is new enough: that of the path, of JAVA_HOME or of the system."""
    homes = [Path(os.environ["JAVA_HOME"])] if "JAVA_HOME" in os.environ else []
    homes += sorted(Path("/usr/lib/jvm").glob("*"))
    found = [shutil.which("java"), *(shutil.which("java", path=home / "bin") for home in homes)]
    new_enough = (java for java in found if java is not None and _version(java) >= JAVA)
    return next(new_enough, None) or give_up(f"Trino needs Java {JAVA}")


def _version(java: str) -> int:
    about = subprocess.run([java, "-version"], capture_output=True, text=True, check=True).stderr
    version = re.search(r'version "(\d+)', about)
    assert version is not None, about
    return int(version[1])


def _installed() -> Path:
    """Return the folder of Trino, which Maven downloads on first use, with its own settings."""
    home = BUILDS / f"trino-server-{VERSION}"
    BUILDS.mkdir(parents=True, exist_ok=True)
    with locked(BUILDS / "lock"):  # several test sessions may share the folder
        if not home.exists():
            _install()
    return home


def _install() -> None:
    artifact = f"-Dartifact=io.trino:trino-server:{VERSION}:tar.gz"
    fetch("Trino", "copy", artifact, f"-DoutputDirectory={BUILDS}")
    archive = BUILDS / f"trino-server-{VERSION}.tar.gz"
    unpacked = BUILDS / "unpacked"
    unpacked.mkdir(exist_ok=True)
    subprocess.run(["tar", "-xzf", archive, "-C", unpacked], check=True)
    (unpacked / f"trino-server-{VERSION}").rename(BUILDS / f"trino-server-{VERSION}")
    archive.unlink()
