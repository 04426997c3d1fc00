"""JSON documents near the edges of what a schema accepts, as strategies of Hypothesis."""

from __future__ import annotations

import gzip

from hypothesis import strategies as st

SCHEMA = (
    "id BIGINT NOT NULL, text STRING, flag BOOLEAN, tiny TINYINT, small SMALLINT, number INT, amount DOUBLE, "
    "share FLOAT, price DECIMAL(10, 2), bytes BINARY, day DATE, at TIMESTAMP, local TIMESTAMP_NTZ, "
    "list ARRAY<STRING>, map MAP<STRING, INT>, item STRUCT<sku: STRING, count: INT, sizes: ARRAY<DOUBLE>>"
)

GOOD = {
    "id": ["1", "-9223372036854775808", "9223372036854775807", "0", "-0"],
    "text": ['"x"', '""', r'"\u00e9\ud83d\ude00\u0000"', '"é😀"', r'"\"\\\/\b\f\n\r\t"', '"1"', '"null"'],
    "flag": ["true", "false"],
    "tiny": ["-128", "127"],
    "small": ["-32768", "32767"],
    "number": ["-2147483648", "2147483647"],
    "amount": ["1", "-0.0", "1e-400", "1.7976931348623157e308", "0.1", "9007199254740993", "5e-324"],
    "share": ["0.1", "-3.4028234663852886e38", "16777217", "1e-46", "-0.0"],
    "price": ["1.25", '"1.500"', "1e7", "-0.00", "99999999.99", "0e999999999"],
    "bytes": ['"aGk="', '""'],
    "day": ['"2026-01-31"', '"0001-01-01"', '"9999-12-31"', '"1582-10-10"'],
    "at": ['"2026-01-31T12:00:00.5+02:00"', '"1900-01-01t00:00:00z"', '"9999-12-31T23:59:59.999999Z"'],
    "local": ['"2026-01-31T12:00:00"', '"0001-01-01T00:00:00"', '"2026-01-31T12:00:00.1234567"'],
    "list": ["[]", '["x", null, ""]'],
    "map": ["{}", '{"x": 1, "y": null, "x": 2}', '{"": 0}'],
    "item": ["{}", '{"sku": "x", "count": 1, "sizes": [1, null, 2.5]}', '{"count": null, "other": [{}]}'],
}
"""Values that have the types of the schema, by field."""

ODD = [
    *("null", '"1"', "1", "1.0", "-1e2", "true", '"true"', "[]", "{}", '"x"', '""', "[1]", '{"a": 1}'),
    *("NaN", "Infinity", "-Infinity", '"NaN"', "01", "+1", ".5", "1.", "0x1", "1e", "--1", "tru", "nul"),
    *("128", "-32769", "2147483648", "9223372036854775808", "-9223372036854775809", "9" * 400, "1e400"),
    *("1e39", "1.125", "123456789", "1e-999999999", "1e99999999999999999999", '"sNaN"', '"1e2"', '" 1"'),
    *(r'"\ud800"', r'"\udc00\ud800"', r'"\ud83d\ud83d\ude00"', r'"\x"', r'"\u12"', '"a\nb"', '"\x7f"', "'x'"),
    *('"not base64"', '"aGk"', '"2026-02-30"', '"2026-1-31"', '"2026-01-31T24:00:00Z"', '"0000-01-01"'),
    *('"2026-01-31T12:00:00"', '"2026-01-31T12:00:00Z"', '"2026-01-31 12:00:00+00:00"', "1769860800"),
    *(
        '"2016-12-31T23:59:60Z"',
        '{"sku": 1}',
        '{"sku": "x", "sku": null}',
        '[null, "x"]',
        "[1, 2",
        '{"x": "1"}',
    ),
]
"""Values that have other types, or are not JSON, whatever the field."""

NAMES = [*GOOD, "ID", "Text", "Number", r"\u0069d", r"te\u0078t", "other", "", "_batch_id", "error", "data"]


def mostly(common: st.SearchStrategy, rare: st.SearchStrategy) -> st.SearchStrategy:
    return st.integers(0, 9).flatmap(lambda chance: common if chance else rare)


@st.composite
def members(draw: st.DrawFn) -> str:
    """Return one member of an object."""
    name = draw(st.sampled_from(NAMES))
    value = draw(mostly(st.sampled_from(GOOD.get(name, ODD)), st.sampled_from(ODD)))
    space = draw(mostly(st.just(""), st.sampled_from([" ", "\n\t\r ", "\ufeff", "\xa0", "/**/"])))
    return f'{space}"{name}"{space}:{space}{value}{space}'


def objects() -> st.SearchStrategy[bytes]:
    """Return documents with the required field, mostly, in which other fields may be missing or repeated."""
    identified = mostly(st.sampled_from(GOOD["id"]).map(lambda value: [f'"id":{value}']), st.just([]))
    return st.builds(
        lambda first, rest: ("{" + ",".join([*first, *rest]) + "}").encode(),
        identified,
        st.lists(members(), max_size=8),
    )


def damaged(document: bytes) -> st.SearchStrategy[bytes]:
    """Return changed copies of a document."""
    characters = [b"\xff", b"\xed\xa0\x80", b"\xc3", b"\xa9", b"\0", b"\xef\xbb\xbf", b" ", b"\n"]
    inserted = st.sampled_from([b"", b",", b"//", b"{}", *characters])
    place = st.integers(0, len(document))
    return st.one_of(
        place.map(lambda end: document[:end]),
        st.builds(lambda at, part: document[:at] + part + document[at:], place, inserted),
        st.builds(lambda part: document + part, st.sampled_from([document, b"\n" + document, b"\n", b"x"])),
        st.just(gzip.compress(document, mtime=0)),
        st.sampled_from([b"null", b"[]", b"[%s]" % document, b"1", b'"x"', b" ", b"{", b"\xc3", b"\xa9{}"]),
    )


documents = objects().flatmap(lambda document: mostly(st.just(document), damaged(document)))
