"""Errors of shards in manifests of a hostile server."""

from __future__ import annotations

import re

import pytest

from kinesis_assets.errors import LandingFailed, ReadFailed, ShardError
from support.hostile_spark import A, B, HostileBench, Tamper, changed_by


def failed(*error: str) -> Tamper:
    return changed_by(lambda manifest: manifest["shards"][0].update(end=None, error=error))


def test_the_error_of_a_shard_keeps_its_class(partly_read: HostileBench) -> None:
    error: ShardError = partly_read.run_tampered(failed("ReadFailed", A, "no answer")).errors[A]
    assert type(error) is ReadFailed
    assert str(error) == f"{A}: no answer"


@pytest.mark.parametrize("name", ["LandingFailed", "SystemExit", "os.system", "InvalidInput", ""])
def test_an_error_of_an_unknown_class_is_refused(unread: HostileBench, name: str) -> None:
    with pytest.raises(LandingFailed, match=re.escape(repr(name))):
        unread.run_tampered(failed(name, A, "x"))


def test_another_shards_error_is_refused(unread: HostileBench) -> None:
    with pytest.raises(LandingFailed, match="another shard's error"):
        unread.run_tampered(failed("ReadFailed", B, "x"))


def test_an_error_of_the_server_is_one_line_without_control_characters(partly_read: HostileBench) -> None:
    error = partly_read.run_tampered(failed("ReadFailed", A, "a\n\x1b[31mb\x07")).errors[A]
    assert str(error) == f"{A}: a b\\x07"
