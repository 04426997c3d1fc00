"""The messages of an event stream, which arrive in pieces and may be damaged."""

from __future__ import annotations

import struct
from zlib import crc32

import pytest

from kinesis_assets.kinesis.transport.event_stream import MessageParser
from support.scripted_http2 import event, exception, message

EVENT = event(records=[], millis_behind_latest=0)


def parsed(*pieces, largest=1 << 20):
    parser = MessageParser(largest)
    found = []
    for piece in pieces:
        parser.add(piece)
        while (each := parser.next_message()) is not None:
            found.append(each)
    return found


def test_a_message_has_headers_and_a_payload():
    ((headers, payload),) = parsed(exception("SomeException", "why"))
    assert headers == {":message-type": "exception", ":exception-type": "SomeException"}
    assert payload == b'{"message": "why"}'


def test_messages_may_arrive_in_any_pieces():
    whole = EVENT + exception("SomeException", "why") + message(b"")
    for at in range(len(whole)):
        assert len(parsed(whole[:at], whole[at:])) == 3


def test_the_size_of_a_message_is_known_from_its_first_twelve_bytes():
    parser = MessageParser(1 << 20)
    parser.add(EVENT[:11])
    assert parser.next_size() == 0
    parser.add(EVENT[11:12])
    assert (parser.next_size(), parser.buffered) == (len(EVENT), 12)


@pytest.mark.parametrize("at", range(len(EVENT)))
def test_a_changed_byte_is_noticed(at):
    damaged = bytearray(EVENT)
    damaged[at] ^= 1
    with pytest.raises(ValueError, match=r"message"):
        parsed(bytes(damaged))


@pytest.mark.parametrize("size", [0, 15, (1 << 20) + 1])
def test_an_impossible_size_is_refused_before_the_message_is_received(size):
    lengths = struct.pack(">II", size, 0)
    with pytest.raises(ValueError, match=f"has {size} bytes"):
        parsed(lengths + struct.pack(">I", crc32(lengths)))


def sealed(headers):
    """Return a message with any bytes as its headers, and with the right checksums."""
    lengths = struct.pack(">II", 16 + len(headers), len(headers))
    data = lengths + struct.pack(">I", crc32(lengths)) + headers
    return data + struct.pack(">I", crc32(data))


@pytest.mark.parametrize(
    "headers",
    [b"\x01", b"\x01a\x63", b"\x01\xff\x07\0\0", 2 * b"\x01a\0"],
    ids=["cut", "of unknown type", "not UTF-8", "twice"],
)
def test_invalid_headers_are_refused(headers):
    with pytest.raises(ValueError, match="a message is invalid"):
        parsed(sealed(headers))
