"""Gzip and zstd records are decompressed completely and within a bound, or have an error."""

from __future__ import annotations

import gzip
import zlib
from contextlib import suppress

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kinesis_assets.decoders import Gzip, Zstd
from kinesis_assets.decoders.compression import decompress
from kinesis_assets.decoders.decoder import Undecodable
from support.mentions import assert_mentions
from support.raw_rows import decoded

PLAIN = b"the same words and the same words " * 40


def zstd(data: bytes) -> bytes:
    return pa.Codec("zstd").compress(data, asbytes=True)


FORMATS = pytest.mark.parametrize(("codec", "compress"), [("gzip", gzip.compress), ("zstd", zstd)])


@pytest.mark.slow
@FORMATS
@settings(derandomize=True, max_examples=50)
@given(parts=st.lists(st.binary(max_size=5000), min_size=1, max_size=4))
def test_several_members_are_one_record(codec, compress, parts):
    assert decompress(b"".join(map(compress, parts)), codec, 20_000) == b"".join(parts)


@FORMATS
def test_a_record_cut_anywhere_is_an_error(codec, compress):
    whole = compress(PLAIN)
    for length in range(len(whole)):
        with pytest.raises(Undecodable):
            decompress(whole[:length], codec, 10_000)


@FORMATS
def test_a_second_member_cut_anywhere_is_an_error(codec, compress):
    whole = compress(PLAIN)
    for length in range(1, len(whole)):
        with pytest.raises(Undecodable):
            decompress(whole + whole[:length], codec, 10_000)


@FORMATS
@pytest.mark.parametrize("garbage", [b"x", b"\0", b"\0" * 8, b"garbage that goes on"])
def test_trailing_bytes_are_an_error(codec, compress, garbage):
    with pytest.raises(Undecodable):
        decompress(compress(PLAIN) + garbage, codec, 10_000)


@FORMATS
def test_trailing_bytes_at_the_bound_are_an_error(codec, compress):
    with pytest.raises(Undecodable):
        decompress(compress(PLAIN) + b"garbage", codec, len(PLAIN))


@FORMATS
def test_max_bytes_is_inclusive(codec, compress):
    assert decompress(compress(PLAIN), codec, len(PLAIN)) == PLAIN
    with pytest.raises(Undecodable, match=rf"\b{len(PLAIN) - 1} bytes\b"):
        decompress(compress(PLAIN), codec, len(PLAIN) - 1)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("decoder", "compress"), [(Gzip(), gzip.compress), (Zstd(), zstd)], ids=["gzip", "zstd"]
)
def test_a_decompression_bomb_is_an_error_and_is_never_in_memory(decoder, compress):
    bomb = compress(bytes(65 << 20))
    assert len(bomb) < 100_000
    before = pa.total_allocated_bytes()
    bad, good = decoded([bomb, compress(PLAIN)], decoder)
    assert (bad["data"], bad["value"]) == (bomb, None)
    assert_mentions(bad["error"], f"{decoder.name}: ", f"{64 << 20} bytes", "max_bytes")
    assert (good["value"], good["error"]) == (PLAIN, None)
    assert pa.total_allocated_bytes() - before < 64 << 20


@FORMATS
def test_an_empty_record_is_an_error(codec, compress):
    assert decompress(compress(b""), codec, 1) == b""
    with pytest.raises(Undecodable, match="empty"):
        decompress(b"", codec, 1)


def test_a_gzip_record_with_a_changed_bit_never_decodes_to_other_bytes():
    whole = gzip.compress(PLAIN, mtime=0)
    for bit in range(8 * len(whole)):
        changed = bytearray(whole)
        changed[bit // 8] ^= 1 << bit % 8
        with suppress(Undecodable):
            assert decompress(bytes(changed), "gzip", 10_000) == PLAIN


def test_gzip_accepts_the_zlib_format():
    assert decompress(zlib.compress(PLAIN), "gzip", 10_000) == PLAIN


@pytest.mark.parametrize("codec", ["gzip", "zstd"])
@settings(derandomize=True, max_examples=200)
@given(
    data=st.binary(max_size=200),
    head=st.sampled_from([b"", b"\x1f\x8b\x08", b"\x78\x9c", b"\x28\xb5\x2f\xfd"]),
)
def test_random_bytes_are_decoded_or_an_error(codec, data, head):
    with suppress(Undecodable):
        assert isinstance(decompress(head + data, codec, 10_000), bytes)
