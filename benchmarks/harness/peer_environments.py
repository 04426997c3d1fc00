"""Virtual environments of the peers, with pinned packages, which are created on first use in .local/peers."""

from __future__ import annotations

import shutil
import subprocess
import venv
from pathlib import Path
from tempfile import TemporaryDirectory

import yaml

from benchmarks.harness.file_lock import locked
from benchmarks.harness.paths import BENCHMARKS, ROOT

PEERS = ROOT / ".local" / "peers"
REQUIREMENTS = BENCHMARKS / "peers" / "requirements"
DLT_SOURCE = "https://github.com/dlt-hub/verified-sources.git"


class PeerUnavailable(Exception):
    """A peer cannot be installed. The message contains the reason."""


def python_of(peer: str) -> str:
    """Return the Python interpreter with the packages that `peers/requirements/<peer>.txt` pins.

    Raises:
        PeerUnavailable: They cannot be installed.
    """
    folder, requirements = PEERS / peer, REQUIREMENTS / f"{peer}.txt"
    python, installed = folder / "bin" / "python", folder / "installed.txt"
    PEERS.mkdir(parents=True, exist_ok=True)
    with locked(PEERS / f"{peer}.lock"):  # several test processes may need it at once
        if not (installed.exists() and installed.read_bytes() == requirements.read_bytes()):
            venv.create(folder, with_pip=True, clear=True)
            _run([str(python), "-m", "pip", "install", "--quiet", "-r", str(requirements)], PEERS)
            installed.write_bytes(requirements.read_bytes())
    return str(python)


def version_of(peer: str, package: str | None = None) -> str:
    """Return the pin `name==version` of a package, by default of the one with the name of the peer."""
    lines = (REQUIREMENTS / f"{peer}.txt").read_text(encoding="utf-8").splitlines()
    return next(line for line in lines if line.startswith(f"{package or peer}=="))


DELTA = "delta-spark"

_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>benchmarks</groupId>
  <artifactId>delta-spark</artifactId>
  <version>1</version>
  <dependencies>
    <dependency>
      <groupId>io.delta</groupId>
      <artifactId>delta-spark_{spark}_2.13</artifactId>
      <version>{delta}</version>
    </dependency>
  </dependencies>
</project>
"""


def delta_python() -> str:
    """Return the Python interpreter with delta-spark.

    Its libraries for Java are put into the folder `jars` of the environment by Maven, with Maven's settings.
    If Maven is not installed, they are left to Ivy, with which Spark downloads them.

    Raises:
        PeerUnavailable: They cannot be installed.
    """
    python = python_of(DELTA)
    jars = Path(python).parent.parent / "jars"
    maven = shutil.which("mvn")
    if maven is not None:
        with locked(PEERS / f"{DELTA}.lock"):
            if not jars.exists():
                _put_jars(jars, maven)
    return python


def _put_jars(jars: Path, maven: str) -> None:
    delta, spark = (version_of(DELTA, each).partition("==")[2] for each in (DELTA, "pyspark"))
    with TemporaryDirectory() as folder:
        pom = _POM.format(delta=delta, spark=spark.rpartition(".")[0])
        Path(folder, "pom.xml").write_text(pom, encoding="utf-8")
        goal = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"
        options = ["-DincludeGroupIds=io.delta", "-DoutputDirectory=jars"]
        _run([maven, goal, "--quiet", "--batch-mode", *options], Path(folder))
        shutil.move(Path(folder, "jars"), jars)


def dlt_source() -> str:
    """Install dlt's Kinesis source with `dlt init`, unless it is installed, and return its commit.

    The source comes from a clone at `.local/peers/verified-sources`, if there is one, or from GitHub.

    Raises:
        PeerUnavailable: It cannot be fetched.
    """
    clone, project = PEERS / "verified-sources", PEERS / "dlt-project"
    if not (project / "kinesis" / "__init__.py").exists():
        project.mkdir(parents=True, exist_ok=True)
        dlt = str(Path(python_of("dlt")).with_name("dlt"))
        location = str(clone) if clone.exists() else DLT_SOURCE
        _run([dlt, "--non-interactive", "init", "kinesis", "filesystem", "--location", location], project)
    sources = yaml.safe_load((project / ".dlt" / ".sources").read_text(encoding="utf-8"))
    return str(sources["sources"]["kinesis"]["last_commit_sha"])[:8]


def _run(command: list[str], folder: Path) -> None:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=300)
    if done.returncode:
        output = (done.stderr or done.stdout).strip().splitlines() or [f"exit code {done.returncode}"]
        raise PeerUnavailable(
            f"`{Path(command[0]).name} {' '.join(command[1:4])}` failed: {' '.join(output[-5:])[-500:]}"
        )
