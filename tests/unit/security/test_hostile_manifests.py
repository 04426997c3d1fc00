"""A hostile Spark Connect server: its results of tasks execute no code."""

from __future__ import annotations

import os
import pickle
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from kinesis_assets.errors import LandingFailed
from kinesis_assets.ingest.manifest import MAX_BYTES
from support.hostile_spark import HostileBench, unchanged

if TYPE_CHECKING:
    from pathlib import Path


def test_an_unchanged_manifest_is_committed(partly_read: HostileBench) -> None:
    assert [outcome.rows for outcome in partly_read.run_tampered(unchanged).outcomes.values()] == [2, 2]


class Bomb:
    """Creates a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self._path),)


@pytest.mark.parametrize("operation", [HostileBench.run_tampered, HostileBench.replay_tampered])
def test_a_pickle_in_place_of_a_manifest_is_not_executed(
    partly_read: HostileBench, tmp_path: Path, operation: Any
) -> None:
    bomb = tmp_path / "bomb"
    content = pickle.dumps(Bomb(bomb))
    with pytest.raises(LandingFailed, match="invalid manifest"):
        operation(partly_read, lambda _: content)
    assert not bomb.exists()


@pytest.mark.parametrize(
    "content",
    [b"", b"\xc1", b"\x90", b"\x80\x80", b"\x91" * 100_000, "text", msgspec.msgpack.encode({"files": 1})],
    ids=["empty", "no MessagePack", "a list", "two", "deep", "text", "another type"],
)
def test_invalid_content_is_reported_in_one_line_and_commits_nothing(
    unread: HostileBench, content: bytes | str
) -> None:
    before = unread.version
    with pytest.raises(LandingFailed, match=r"^stream .*: .*invalid manifest") as raised:
        unread.run_tampered(lambda _: content)
    assert len(str(raised.value).splitlines()) == 1
    assert unread.version == before


def test_a_manifest_that_is_too_large_is_not_decoded(unread: HostileBench) -> None:
    size = MAX_BYTES + 1
    with pytest.raises(LandingFailed, match=rf"\b{size} bytes\b.*\b{MAX_BYTES}\b"):
        unread.run_tampered(lambda _: bytes(size))
