"""The field whose value decides which other fields documents have."""

from __future__ import annotations

from typing import Any

import pytest

from kinesis_assets.schemas.inference import find_kinds, path_text


def documents(path: str, *kinds: tuple[Any, dict[str, Any]], each: int = 3) -> list[dict[str, Any]]:
    """Return some documents of each kind, with the kind at a path and fields of its own."""
    found = []
    for value, fields in kinds:
        for number in range(each):
            document: Any = value
            for name in reversed(path.split(".")):
                document = {name: document}
            found.append({"number": number, **document, **fields})
    return found


RIDE, PING = {"km": 4}, {"battery": 0.5}


@pytest.mark.parametrize("path", ["kind", "meta.kind", "a.b.kind", "detail-type"])
@pytest.mark.parametrize("values", [("ride", "ping"), (1, 2), (True, False)], ids=str)
def test_the_kind_is_the_value_that_decides_the_fields(path, values):
    first, second = values
    kinds = find_kinds(documents(path, (first, RIDE), (second, PING)))
    assert kinds is not None
    assert (kinds.path, {kind: len(each) for kind, each in kinds.documents.items()}) == (
        path,
        {first: 3, second: 3},
    )


def test_kinds_may_have_the_same_fields_with_values_of_other_types():
    kinds = find_kinds(documents("kind", ("ride", {"by": 7}), ("ping", {"by": "x"})))
    assert kinds is not None
    assert kinds.path == "kind"


def test_the_most_frequent_kind_is_the_first():
    kinds = find_kinds([*documents("kind", ("ping", PING)), *documents("kind", ("ride", RIDE), each=5)])
    assert kinds is not None
    assert [*kinds.documents] == ["ride", "ping"]


def test_of_two_fields_that_with_more_own_fields_is_the_kind():
    kinds = find_kinds(
        documents(
            "part",
            ("a", RIDE | {"kind": "ride"}),
            ("b", PING | {"kind": "ping"}),
            ("c", PING | {"kind": "ping"}),
        )
    )
    assert kinds is not None
    assert kinds.path == "part"


@pytest.mark.parametrize(
    "sample",
    [
        documents("status", ("new", {}), ("sent", {"sent_at": 1})),
        [*documents("status", ("sent", {"sent_at": 1}), each=60), *documents("status", ("new", {}))],
        documents("kind", ("ride", RIDE), ("ping", PING), each=2),
        documents("kind", ("ride", RIDE)),
        documents("country", ("de", {"km": 1}), ("fr", {"km": 2})),
        [document | {"kind": None} for document in documents("kind", ("ride", RIDE), ("ping", PING))],
        documents("kind", *((f"kind {number}", {f"f{number}": 1}) for number in range(21))),
        documents("kind", ("", RIDE), ("ping", PING)),
        documents("kind", ("x" * 101, RIDE), ("ping", PING)),
        documents("kind", (1, RIDE), ("1", PING)),
        documents("kind", (1.5, RIDE), (2.5, PING)),
        documents("a.b.c.kind", ("ride", RIDE), ("ping", PING)),
        [],
    ],
    ids=[
        "a field that comes later",
        "a field that most have",
        "two documents",
        "one kind",
        "the same fields",
        "null",
        "many values",
        "an empty text",
        "a long text",
        "values of other types",
        "fractions",
        "deep",
        "nothing",
    ],
)
def test_others_have_no_kinds(sample):
    assert find_kinds(sample) is None


def test_documents_without_a_kind_are_in_none():
    sample = documents("kind", ("ride", RIDE), ("ping", PING), each=20)
    kinds = find_kinds([*sample, {"number": 1, "km": 2}, {"kind": {}}])
    assert kinds is not None
    assert sum(map(len, kinds.documents.values())) == 40


def test_a_name_with_a_dot_or_a_backtick_is_quoted_in_a_path():
    assert path_text(["a-b", "c.d", "e`f"]) == "a-b.`c.d`.`e``f`"
