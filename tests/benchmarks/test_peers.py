"""Whoever is compared runs what is pinned, and the report says which versions those are."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.harness import peer_environments as environments
from benchmarks.harness.peer_environments import REQUIREMENTS, PeerUnavailable, dlt_source, version_of
from benchmarks.sections.landing import readers

CONSTRAINTS = Path(__file__).parents[2] / "constraints.txt"
COMMIT = "3957506893a7da821dbcc6acd51c7ca4475d1f53"


@pytest.fixture
def fetched(tmp_path, monkeypatch):
    """dlt's source as `dlt init` leaves it."""
    monkeypatch.setattr(environments, "PEERS", tmp_path)
    project = tmp_path / "dlt-project"
    for folder in ("kinesis", ".dlt"):
        (project / folder).mkdir(parents=True)
    (project / "kinesis" / "__init__.py").touch()
    noted = f"engine_version: 1\nsources:\n  kinesis:\n    is_dirty: false\n    last_commit_sha: {COMMIT}\n"
    (project / ".dlt" / ".sources").write_text(noted)


@pytest.mark.usefixtures("fetched")
def test_dlts_source_is_told_by_the_commit_that_dlt_notes():
    assert dlt_source() == COMMIT[:8]
    assert readers.versions(missing={}).endswith(
        f", {version_of('dlt')} with its source of commit {COMMIT[:8]}"
    )


def test_versions_are_told_where_dlts_source_is_missing(monkeypatch):
    monkeypatch.setattr(readers, "dlt_source", lambda: pytest.fail("it was fetched again"))
    assert readers.versions(missing={readers.DLT: "no way there"}).endswith(f", {version_of('dlt')}")


def test_boto3_peers_have_the_versions_that_the_project_is_tested_with():
    pins = (REQUIREMENTS / "boto3.txt").read_text().split()
    assert {"boto3", "botocore", "pyarrow", "pyspark"} < {pin.partition("==")[0] for pin in pins}
    assert set(pins) <= set(CONSTRAINTS.read_text().splitlines())


def test_each_peer_runs_in_an_environment_of_its_own_or_is_told_to_be_missing(monkeypatch):
    def python_of(environment):
        if environment == "quixstreams":
            raise PeerUnavailable("no way there")
        return f"/{environment}/python"

    monkeypatch.setattr(readers, "python_of", python_of)
    monkeypatch.setattr(readers, "dlt_source", lambda: COMMIT[:8])
    commands, missing = readers.peers()
    assert missing == {readers.QUIX: "no way there"}
    assert {command.name: command.argv[0] for command in commands} == {
        readers.DISCARD: "/boto3/python",
        readers.PYARROW: "/boto3/python",
        readers.SPARK: "/boto3/python",
        readers.ASYNC: "/async-kinesis/python",
        readers.DLT: "/dlt/python",
    }
