"""What is stored is what is compared: keys of every type, in steps, with any partition columns."""

from __future__ import annotations

import json
import math
from collections import Counter
from dataclasses import dataclass, replace
from datetime import date
from decimal import Decimal
from itertools import count
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import functions as F  # noqa: N812  # the usual name

from kinesis_assets.dagster.checks.duplicates import check_no_duplicate_keys
from kinesis_assets.dagster.settings.check_settings import DerivedNoDuplicatesCheck
from kinesis_assets.derive.derivation import Upsert
from support.formats import derived_at

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

HARD_TEXTS = [
    *(b"a", b"A", b"a ", b"\x80", b"\xff", b"\xed\xa0\x80", b"\0", b"null", b"__HIVE_DEFAULT_PARTITION__"),
    *("\uffee".encode(), "\U0001f600".encode()),
]
HARD_FLOATS = [0.0, -0.0, math.nan, math.inf, -math.inf, 5e-324, 0.1]


@dataclass(frozen=True)
class Type:
    """A type of a column of the key.

    Attributes:
        texts: The texts that stand for its values in records.
        cast: The expression in Spark SQL that returns the value of a text.
        value: Returns it in Python.
        hard: Texts that are always tried.
    """

    texts: st.SearchStrategy[str]
    cast: str
    value: Callable[[str], Any]
    hard: Sequence[str] = ()


def floats(cast, kind):
    texts = st.floats().map(repr)
    return Type(
        texts, cast, lambda text: pa.scalar(float(text)).cast(kind).as_py(), [*map(repr, HARD_FLOATS)]
    )


TYPES = {
    "text": Type(
        st.text(min_size=1, max_size=3).map(lambda text: text.encode().hex()),
        "CAST(unhex(`{}`) AS STRING)",
        lambda text: bytes.fromhex(text).decode(errors="replace"),
        [text.hex() for text in HARD_TEXTS],
    ),
    "number": Type(st.integers(-(2**31), 2**31 - 1).map(str), "CAST(`{}` AS INT)", int),
    "day": Type(st.dates().map(str), "CAST(`{}` AS DATE)", date.fromisoformat),
    "double": floats("CAST(`{}` AS DOUBLE)", pa.float64()),
    "float": floats("CAST(CAST(`{}` AS DOUBLE) AS FLOAT)", pa.float32()),
    "price": Type(
        st.decimals(-999, 999, allow_nan=False, places=4).map(str), "CAST(`{}` AS DECIMAL(20, 4))", Decimal
    ),
    "time": Type(
        st.integers(-(10**16), 10**16).map(str),
        "timestamp_micros(CAST(`{}` AS BIGINT))",
        lambda text: pa.scalar(int(text)).cast(pa.timestamp("us", "UTC")).as_py(),
    ),
    "flag": Type(st.booleans().map(str), "CAST(`{}` AS BOOLEAN)", lambda text: text == "True"),
    "bytes": Type(st.binary(max_size=3).map(bytes.hex), "unhex(`{}`)", bytes.fromhex),
}
EXAMPLES = count(1)

BASE = {
    "text": "61",
    "number": "0",
    "day": "2026-01-01",
    "double": "0.0",
    "float": "0.0",
    "price": "0",
    "time": "0",
    "flag": "True",
    "bytes": "",
}

HARD_KEYS = [BASE | {name: text} for name, kind in TYPES.items() for text in (*kind.hard, None)]

KEYS = st.sampled_from(sorted(TYPES)).flatmap(
    lambda name: (TYPES[name].texts | st.none()).map(lambda text: BASE | {name: text})
)
"""Keys, which differ from each other in few columns."""


def decoded(example):
    """Return the function that decodes the keys and versions of an example's records."""
    fields = ", ".join(f"`{name}` STRING" for name in TYPES)
    values = [f"{kind.cast.format(name)} AS `{name}`" for name, kind in TYPES.items()]

    def decode(rows):
        parsed = F.from_json(F.col("data").cast("string"), f"{fields}, version INT, example INT")
        rows = rows.select(parsed.alias("row")).select("row.*").where(F.col("example") == example)
        return rows.selectExpr(*values, "version")

    return decode


def values_of(key):
    return [None if text is None else TYPES[name].value(text) for name, text in key.items()]


def compared(values):
    """Return a key as Spark compares it; None if a column is null."""
    if None in values:
        return None
    floats = (
        ("NaN" if math.isnan(value) else value + 0.0) if isinstance(value, float) else value
        for value in values
    )
    return tuple(floats)


@pytest.mark.thorough
@pytest.mark.usefixtures("compiled")
@pytest.mark.parametrize(
    "partition_by",
    [pytest.param((), marks=pytest.mark.thorough), ("text", "day")],
    ids=["whole", "partitioned"],
)
@given(generated=st.lists(KEYS, min_size=1, max_size=40))
@settings(
    max_examples=2,
    phases=[Phase.generate],  # an example takes seconds
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_a_table_has_the_newest_row_of_each_key_that_is_stored(bench, derived, generated, partition_by):
    example = next(EXAMPLES)
    table = derived_at(f"{derived.table.uri}-{example}")
    keyed = replace(
        derived,
        table=table,
        derivation=replace(
            derived.derivation,
            transform=decoded(example),
            mode=Upsert(tuple(TYPES), ("version",)),
            partition_by=partition_by,
        ),
    )
    newest, without_key, version = {}, [], 0
    for step in (HARD_KEYS, generated, [*generated, *reversed(HARD_KEYS)]):
        for key in step:
            version += 1
            bench.put(json.dumps({**key, "version": version, "example": example}).encode())
            sent = compared(values_of(key))
            if sent is None:
                without_key.append(version)
            else:
                newest[sent] = version
        bench.run()
        keyed.run()
    found = Counter(
        (compared([row[name] for name in TYPES]), row["version"]) for row in keyed.rows.to_pylist()
    )
    wanted = Counter([*newest.items(), *((None, each) for each in without_key)])
    assert (found - wanted, wanted - found) == (Counter(), Counter())
    consumption = SimpleNamespace(unique=tuple(TYPES))
    checked = SimpleNamespace(uri=table.uri, role=None, format=None, consumption=consumption)
    assert check_no_duplicate_keys(DerivedNoDuplicatesCheck(), checked, derived.spark).passed
