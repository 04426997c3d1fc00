"""Gzip, zstd and snappy records are decompressed completely and within a bound, or have an error."""

from __future__ import annotations

import gzip
import sys
import zlib
from contextlib import suppress

import cramjam
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kinesis_assets.decoders import AutoDecompress, Gzip, Snappy, Zstd
from kinesis_assets.decoders.compression import COMPRESSIONS, decompress
from kinesis_assets.decoders.decoder import Undecodable
from support.mentions import assert_mentions
from support.raw_rows import decoded

PLAIN = b"the same words and the same words " * 40


def zstd(data: bytes) -> bytes:
    return pa.Codec("zstd").compress(data, asbytes=True)


def block(data: bytes) -> bytes:
    return pa.Codec("snappy").compress(data, asbytes=True)


def framed(data: bytes) -> bytes:
    return bytes(cramjam.snappy.compress(data)) or b"\xff\x06\x00\x00sNaPpY"


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


@pytest.mark.slow
@pytest.mark.parametrize("codec", COMPRESSIONS)
@settings(derandomize=True, max_examples=200)
@given(
    data=st.binary(max_size=200),
    head=st.sampled_from([b"", b"\x1f\x8b\x08", b"\x78\x9c", b"\x28\xb5\x2f\xfd", framed(b""), framed(b"a")]),
)
def test_random_bytes_are_decoded_or_an_error(codec, data, head):
    with suppress(Undecodable):
        assert isinstance(decompress(head + data, codec, 10_000), bytes)


# Snappy


@pytest.mark.parametrize("compress", [block, framed])
def test_snappy_is_decompressed_within_the_bound(compress):
    assert decompress(compress(PLAIN), "snappy", len(PLAIN)) == PLAIN
    assert decompress(compress(b""), "snappy", 1) == b""
    with pytest.raises(Undecodable, match=rf"more than {len(PLAIN) - 1} bytes uncompressed"):
        decompress(compress(PLAIN), "snappy", len(PLAIN) - 1)


def test_a_chunk_of_snappy_that_is_not_compressed_has_no_more_bytes_than_its_block():
    data = bytes(range(100))
    whole = framed(data)
    assert data in whole
    assert decompress(whole, "snappy", len(data)) == data


def test_frames_of_snappy_in_a_row_are_one_record():
    large = PLAIN * 100  # of several chunks
    padding = b"\xfe\x02\x00\x00\x00\x00"
    assert decompress(framed(large) + padding + framed(b"end"), "snappy", 1 << 20) == large + b"end"


@pytest.mark.parametrize("compress", [block, framed])
def test_snappy_cut_within_a_chunk_or_with_other_bytes_behind_it_is_an_error(compress):
    whole = compress(PLAIN)
    begin = 10 if compress is framed else 0  # no chunk at all is an empty record
    for data in [whole[:length] for length in range(begin + 1, len(whole))] + [whole + b"x"]:
        with pytest.raises(Undecodable):
            decompress(data, "snappy", 10_000)


def test_a_frame_of_snappy_with_a_changed_bit_never_decodes_to_other_bytes():
    whole = framed(PLAIN)
    for bit in range(80, 8 * len(whole)):
        changed = bytearray(whole)
        changed[bit // 8] ^= 1 << bit % 8
        with suppress(Undecodable):
            assert decompress(bytes(changed), "snappy", 10_000) in (PLAIN, b"")  # a chunk that is skipped


@pytest.mark.parametrize(
    "bomb",
    [b"\xff\xff\xff\xff\x0f" + b"x" * 10, framed(b"") + b"\x00\x0a\x00\x00crc!\xff\xff\xff\xff\x0fx"],
    ids=["block", "frame"],
)
def test_a_snappy_record_that_would_be_too_large_allocates_nothing(bomb):
    before = pa.total_allocated_bytes()
    (row,) = decoded([bomb], Snappy())
    assert row["error"] == f"snappy: more than {64 << 20} bytes uncompressed (max_bytes)"
    assert pa.total_allocated_bytes() - before < 1 << 20


def test_a_frame_of_snappy_without_the_extra_is_a_bad_record_that_names_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "cramjam", None)
    framed_row, block_row = decoded([framed(PLAIN), block(PLAIN)], Snappy())
    assert_mentions(framed_row["error"], "pip install 'kinesis-assets[snappy]'")
    assert (block_row["value"], block_row["error"]) == (PLAIN, None)


# Auto


@pytest.mark.parametrize("compress", [gzip.compress, zlib.compress, zstd, framed, bytes])
def test_the_first_bytes_of_a_record_show_its_compression(compress):
    for plain in (PLAIN, b'{"id": 1}', b"[1]", b"id,name", b"", b"x", b"x 1"):
        (row,) = decoded([compress(plain)], AutoDecompress())
        assert (row["value"], row["error"]) == (plain, None)


@pytest.mark.parametrize("level", [1, 2, 6, 9])
def test_zlib_of_each_level_is_found(level):
    assert decompress(zlib.compress(PLAIN, level), "auto", 10_000) == PLAIN


def test_a_damaged_record_of_a_known_compression_is_bad():
    (row,) = decoded([gzip.compress(PLAIN)[:-1]], AutoDecompress())
    assert row["error"].startswith("auto: ")
