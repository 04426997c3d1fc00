"""Environments of the peers, each with its own pinned packages, made on first use under .local/peers."""

from __future__ import annotations

import subprocess
import venv
from pathlib import Path

import yaml

PEERS = Path(__file__).parent.parent.parent / ".local" / "peers"
REQUIREMENTS = Path(__file__).parent.parent / "peers" / "requirements"
DLT_SOURCE = "https://github.com/dlt-hub/verified-sources.git"


class PeerUnavailable(Exception):
    """A peer cannot be had here; the message says why."""


def python_of(peer: str) -> str:
    """The Python that has a peer's packages, as `peers/requirements/<peer>.txt` pins them.

    Raises:
        PeerUnavailable: They cannot be installed.
    """
    folder, wanted = PEERS / peer, REQUIREMENTS / f"{peer}.txt"
    python, installed = folder / "bin" / "python", folder / "installed.txt"
    if not (installed.exists() and installed.read_bytes() == wanted.read_bytes()):
        venv.create(folder, with_pip=True, clear=True)
        _run([str(python), "-m", "pip", "install", "--quiet", "-r", str(wanted)], PEERS)
        installed.write_bytes(wanted.read_bytes())
    return str(python)


def version_of(peer: str, package: str | None = None) -> str:
    """The pin of a package, that of the peer's own name by default, as `name==version`."""
    lines = (REQUIREMENTS / f"{peer}.txt").read_text(encoding="utf-8").splitlines()
    return next(line for line in lines if line.startswith(f"{package or peer}=="))


def dlt_source() -> str:
    """See that dlt's Kinesis source is there, which its own `dlt init` fetches; the commit that it is of.

    It comes from the clone at `.local/peers/verified-sources` if somebody has put one there, else from where
    dlt publishes it.

    Raises:
        PeerUnavailable: It cannot be fetched.
    """
    clone, project = PEERS / "verified-sources", PEERS / "dlt-project"
    if not (project / "kinesis" / "__init__.py").exists():
        project.mkdir(parents=True, exist_ok=True)
        dlt = str(Path(python_of("dlt")).with_name("dlt"))
        location = str(clone) if clone.exists() else DLT_SOURCE
        _run([dlt, "--non-interactive", "init", "kinesis", "filesystem", "--location", location], project)
    noted = yaml.safe_load((project / ".dlt" / ".sources").read_text(encoding="utf-8"))
    return str(noted["sources"]["kinesis"]["last_commit_sha"])[:8]


def _run(command: list[str], folder: Path) -> None:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=300)
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines() or [f"status {done.returncode}"]
        raise PeerUnavailable(f"`{Path(command[0]).name} {' '.join(command[1:4])}` failed: {said[-1][:300]}")
