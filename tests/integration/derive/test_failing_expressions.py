"""Records for which an expression of a typed table fails when Spark evaluates it."""

from __future__ import annotations

import json
from datetime import date
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import functions as F  # noqa: N812  # the usual name

from kinesis_assets.decoders import failing_expressions
from kinesis_assets.decoders.projection import from_json
from kinesis_assets.derive.derivation import Upsert
from kinesis_assets.errors import BadRecordsRefused, InvalidInput, LandingFailed
from support.formats import derived_at
from support.mentions import assert_mentions
from support.typed_tables import BAD, KEEPING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

pytestmark = pytest.mark.usefixtures("compiled")

SCHEMA = "id INT, at STRING, ms BIGINT, ns BIGINT, n INT, list ARRAY<STRING>"

AT = "CAST(at AS TIMESTAMP) AS at"


def event(id_: int, **fields: Any) -> bytes:
    return json.dumps({"id": id_, **fields}).encode()


LARGE = 1764292800123456789
POISON = {
    AT: (event(2, at="0000-00-00 00:00:00"), "[CAST_INVALID_INPUT]"),
    "split(at, ' ')[1] AS hour": (event(2, at="2026-01-01"), "[INVALID_ARRAY_INDEX]"),
    "1 / n AS share": (event(2, n=0), "[DIVIDE_BY_ZERO]"),
    "ms * 1000 AS us": (event(2, ms=LARGE), "[ARITHMETIC_OVERFLOW]"),
    "timestamp_millis(ns) AS time": (event(2, ns=LARGE), "verflow"),
    "list[1] || list[1] AS twice": (event(2, list=["x"]), "[INVALID_ARRAY_INDEX]"),
    "IF(id = 9, raise_error('no'), at) AS raised": (event(9), "no"),
}
"""By an expression that fails, a record for which it does, and the reason."""

GOOD = [event(number, at="2026-01-01 00:00:00", ms=5, n=1) for number in (1, 3)]


def test_records_for_which_expressions_fail_are_kept_with_the_expression_and_the_reason(typed):
    payloads = [payload for payload, _ in POISON.values()]
    (commit,) = typed.consume(GOOD[0], *payloads, GOOD[1], schema=SCHEMA, select=["id", *POISON])
    rows = typed.derived.rows.to_pylist()
    assert sorted(row["id"] for row in rows if row["error"] is None) == [1, 3]
    kept = {row["data"]: row for row in rows if row["error"] is not None}
    for expression, (payload, reason) in POISON.items():
        row = kept.pop(payload)
        assert row["error"].startswith(f"select: {expression}: ")
        assert reason in row["error"]
        (source,) = (each for each in typed.bench.rows if each["data"] == payload)
        assert {each: row[each] for each in KEEPING[1:]} == {each: source[each] for each in KEEPING[1:]}
        assert {row[each] for each in typed.columns if each not in KEEPING} == {None}
    assert kept == {}
    assert commit.bad_records == len(POISON)


@pytest.mark.thorough
def test_the_arguments_of_a_generator_are_an_expression_too(typed):
    generator = "explode_outer(array(CAST(at AS DATE), NULL)) AS day"
    typed.consume(GOOD[0], event(2, at=")'"), schema=SCHEMA, select=["id", generator])
    errors = [row["error"] for row in typed.derived.rows.to_pylist() if row["id"] is None]
    assert [error.startswith(f"select: {generator}: [CAST_INVALID_INPUT]") for error in errors] == [True]
    assert typed.values("id", "day") == [(1, None), (1, date(2026, 1, 1)), (None, None)]


NAMED = [
    "id",
    "ms DIV 1000 AS s",
    "timestamp_seconds(s) AS time",
    "upper(at) AS text",
    "CAST(text AS DATE) AS day",
]


def test_an_expression_that_reads_the_name_of_an_entry_before_it_makes_a_bad_record_too(typed):
    late = event(2, ms=9 * 10**18)
    typed.consume(*GOOD, late, event(4, at="a"), event(5, at="b"), schema=SCHEMA, select=NAMED)
    assert typed.values("id", "day") == [(1, date(2026, 1, 1)), (3, date(2026, 1, 1)), *[(None, None)] * 3]
    errors = {row["data"]: row["error"] for row in typed.derived.rows.to_pylist() if row["error"]}
    assert errors[late].startswith(f"select: {NAMED[2]}: ")
    for number, text in (4, "a"), (5, "b"):
        assert_mentions(errors[event(number, at=text)], f"select: {NAMED[4]}: ", f"'{text.upper()}'")


def test_an_entry_that_fails_fails_none_that_reads_its_name(typed):
    select = ["id", "1 / n AS share", "share * 2 AS twice"]
    typed.consume(*GOOD, event(2, n=0), schema=SCHEMA, select=select)
    (error,) = (error for error in typed.values("error") if error)
    assert error.startswith(f"select: {select[1]}: [DIVIDE_BY_ZERO]")


def test_an_expression_that_reads_what_a_generator_returns_fails_the_run_and_the_error_names_the_record(
    typed,
):
    poison = event(2, list=["a", "x"])
    select = ["id", "explode(list) AS item", "CAST(item AS DATE) AS day"]
    with pytest.raises(LandingFailed) as caught:
        typed.consume(poison, schema=SCHEMA, select=select)
    (source,) = (row for row in typed.bench.rows if row["data"] == poison)
    assert_mentions(str(caught.value), source["sequence_number"], "CAST_INVALID_INPUT")


ZERO = event(2, at="0000-00-00")


def test_a_condition_that_fails_makes_a_bad_record_and_the_others_are_filtered(typed):
    condition = {"where": "CAST(at AS DATE) < DATE'2026-02-01'", "select": ["id", "at"]}
    typed.consume(*GOOD, ZERO, event(4, at="2027-01-01"), BAD, schema=SCHEMA, **condition)
    rows = typed.derived.rows.to_pylist()
    assert sorted(row["id"] for row in rows if row["error"] is None) == [1, 3]
    assert sorted(row["error"][:7] for row in rows if row["error"]) == ["json: E", "where: "]


def test_no_expression_is_tried_for_a_record_that_the_condition_leaves_out(typed):
    typed.consume(*GOOD, ZERO, event(4, at="x"), schema=SCHEMA, select=["id", AT], where="id <> 2")
    assert [error and error[:30] for error in typed.values("error")] == [
        "select: CAST(at AS TIMESTAMP) ",
        None,
        None,
    ]


def test_separate_errors_have_the_records_for_which_an_expression_fails(typed):
    separate = {"on_bad_record": "separate", "select": ["id", AT], "where": "1 / n > 0 OR n IS NULL"}
    typed.consume(*GOOD, ZERO, event(5, n=0), BAD, schema=SCHEMA, **separate)
    assert typed.values("id") == [1, 3]
    errors = {row["data"]: row["error"].partition(":")[0] for row in typed.errors(schema=SCHEMA, **separate)}
    assert errors == {ZERO: "select", event(5, n=0): "where", BAD: "json"}
    typed.consume(event(6), schema=SCHEMA, **separate)
    assert typed.values("id") == [1, 3, 6]
    assert len(typed.errors(schema=SCHEMA, **separate)) == 3


@pytest.mark.parametrize(
    "limit",
    [{"on_bad_record": "fail"}, pytest.param({"max_bad_share": 0.3}, marks=pytest.mark.thorough)],
    ids=str,
)
def test_a_limit_counts_the_records_for_which_an_expression_fails(typed, limit):
    with pytest.raises(BadRecordsRefused, match=r"1 of 3 records.*select: CAST.*CAST_INVALID_INPUT"):
        typed.consume(*GOOD, ZERO, schema=SCHEMA, select=["id", AT], **limit)
    assert typed.is_missing()


def test_a_record_for_which_an_expression_fails_replaces_no_other(typed):
    by_key = {"key": ("id",), "order_by": ("n",), "select": ["id", "n", AT]}
    for payloads in (GOOD, [event(1, n=5, at="0000-00-00")], [event(1, n=3, at=None)]):
        typed.consume(*payloads, schema=SCHEMA, **by_key)
    found = [(row["id"], row["n"]) for row in typed.derived.rows.to_pylist() if row["error"] is None]
    assert sorted(found) == [(1, 3), (3, 1)]
    assert len([error for error in typed.values("error") if error]) == 1


@pytest.mark.thorough
def test_the_rows_depend_neither_on_steps_nor_on_the_records_around_them(typed, tmp_path):
    payloads = [*GOOD, ZERO, event(4, at="x"), ZERO, event(5, n=0, at="x"), event(6, n=0)]
    select = ["id", AT, "CAST(at AS DATE) AS day", "1 / n AS share"]
    for payload in payloads:
        typed.consume(payload, schema=SCHEMA, select=select)
    columns = [name for name in typed.columns if name != "_batch_id"]
    expected = typed.values(*columns)
    typed.derived.table = derived_at(str(tmp_path / "again"))
    typed.run(SCHEMA, select=select)
    again = DeltaTable(str(tmp_path / "again")).to_pyarrow_table()
    assert sorted((tuple(row[name] for name in columns) for row in again.to_pylist()), key=repr) == expected


EXPLODED = {"schema": SCHEMA, "select": ["id", "CAST(at AS DATE) AS day", "explode(list) AS item"]}
EMPTY, FAILING = event(1, list=[], at="x"), event(2, list=["a"], at="x")


def test_a_record_for_which_a_generator_returns_no_row_is_no_bad_record_beside_one_that_is(typed):
    """Spark evaluates the other expressions for the rows of a generator, so its job does not fail for it."""
    typed.consume(EMPTY, FAILING, event(3, list=["a"]), **EXPLODED)
    assert typed.values("id", "data") == [(3, None), (None, FAILING)]


@pytest.mark.thorough
def test_a_record_for_which_a_generator_returns_no_row_is_not_separated(typed):
    separate = {**EXPLODED, "on_bad_record": "separate"}
    typed.consume(EMPTY, FAILING, event(3, list=["a"]), **separate)
    assert typed.values("id") == [3]
    assert [row["data"] for row in typed.errors(**separate)] == [FAILING]


def test_a_record_with_a_time_after_the_year_9999_is_a_bad_record_too(typed):
    last = "9999-12-31T23:59:59-05:00"
    late = event(2, at="x", until=last, times={"a": [{"last": last}]})
    schema = f"{SCHEMA}, until TIMESTAMP, times MAP<STRING, ARRAY<STRUCT<last: TIMESTAMP>>>"
    select = ["id", "until", "CAST(at || left(times['a'][0].last, 0) AS DATE) AS day"]
    typed.consume(*GOOD, late, schema=schema, select=select)
    assert [row["data"] for row in typed.derived.rows.to_pylist() if row["error"]] == [late]


def test_many_records_with_the_same_values_are_one_failure(typed, monkeypatch):
    monkeypatch.setattr(failing_expressions, "MAX_FAILURES", 1)
    poison = [event(number, at="0000-00-00") for number in range(50)]
    typed.consume(*GOOD, *poison, schema=SCHEMA, select=["id", AT])
    assert len({error for error in typed.values("error") if error}) == 1
    assert len([id_ for id_ in typed.values("id") if id_ is not None]) == 2


def test_too_many_different_failures_fail_the_run_with_examples(typed, monkeypatch):
    monkeypatch.setattr(failing_expressions, "MAX_FAILURES", 2)
    poison = [event(number, at=f"{number}-00-00") for number in range(3)]
    with pytest.raises(InvalidInput, match=r"^table .*more than 2 ") as caught:
        typed.consume(*GOOD, *poison, schema=SCHEMA, select=["id", AT])
    assert_mentions(str(caught.value), "CAST_INVALID_INPUT", "0-00-00", "try_cast")
    assert typed.is_missing()


@pytest.mark.thorough
def test_a_record_that_fails_only_behind_another_one_is_no_bad_record(typed):
    """Spark builds a map in a buffer, which still has the keys of the record for which that failed."""
    behind = [event(number, at="a=1") for number in (1, 3)]
    select = ["id", "map_keys(str_to_map(at, '&', '=')) AS keys"]
    typed.consume(event(2, at="a=1&a=2"), *behind, schema=SCHEMA, select=select)
    assert typed.values("id") == [1, 3, None]
    (reason,) = (error for error in typed.values("error") if error)
    assert "[DUPLICATED_MAP_KEY]" in reason


def test_the_error_names_the_record_if_spark_fails_in_a_way_that_functions_do_not_catch(typed):
    poison = event(2, at="a", list=["a"])
    with pytest.raises(LandingFailed) as caught:
        typed.consume(
            *(poison, event(1, at="a", list=["b"])),
            schema=SCHEMA,
            select=["id", "map(at, 1, list[0], 2) AS m"],
        )
    (source,) = (row for row in typed.bench.rows if row["data"] == poison)
    assert_mentions(str(caught.value), source["sequence_number"], "DUPLICATED_MAP_KEY")
    assert typed.is_missing()


@pytest.mark.thorough
def test_of_rows_that_are_equal_in_order_by_the_later_one_is_newer_beside_a_bad_record(typed):
    days = [event(1, n=1, at=f"2026-01-0{day}") for day in (3, 2, 1)]
    by_key = {"key": ("id",), "order_by": ("n",)}
    typed.consume(
        days[0], ZERO, *days[1:], schema=SCHEMA, select=["id", "n", "CAST(at AS DATE) AS day"], **by_key
    )
    assert typed.values("id", "day") == [(1, date(2026, 1, 1)), (None, None)]


def test_a_condition_of_deletions_that_fails_fails_the_run_and_the_error_names_the_record(typed):
    by_key = {"key": ("id",), "order_by": ("n",), "delete_where": "CAST(at AS DATE) > DATE'2026-01-01'"}
    with pytest.raises(LandingFailed) as caught:
        typed.consume(GOOD[0], ZERO, schema=SCHEMA, select=["id", "n", "at"], **by_key)
    (source,) = (row for row in typed.bench.rows if row["data"] == ZERO)
    assert_mentions(str(caught.value), source["sequence_number"], "CAST_INVALID_INPUT")
    assert typed.values("id") == []


# Functions


def with_timestamps(rows: DataFrame) -> DataFrame:
    return from_json(rows, "id INT, at STRING").withColumn("at", F.expr("CAST(at AS TIMESTAMP)"))


@pytest.mark.parametrize(
    "mode",
    [None, pytest.param(Upsert(("id",), ("at",)), marks=pytest.mark.thorough)],
    ids=["append", "upsert"],
)
def test_the_error_of_a_function_names_the_record_for_which_it_fails(bench, derived, mode):
    for payloads in ([GOOD[0]], [GOOD[0], ZERO, GOOD[1]], [GOOD[1]]):
        bench.put(*payloads)
        bench.run()
    (poison,) = (row for row in bench.rows if row["data"] == ZERO)
    with pytest.raises(LandingFailed) as caught:
        derived.run(transform=with_timestamps, mode=mode)
    assert_mentions(
        str(caught.value),
        derived.table.uri,
        f"{poison['shard_id']}: {poison['sequence_number']}",
        "CAST_INVALID_INPUT",
        "try_cast",
    )


def test_the_error_of_a_function_that_fails_only_for_several_records_says_how_to_find_them(bench, derived):
    bench.put(*GOOD)
    bench.run()

    def transform(rows: DataFrame) -> DataFrame:
        counted = rows.groupBy("shard_id").agg(F.count("*").alias("rows"))
        return counted.select("shard_id", F.expr("1 / (rows - 2)").alias("share"))

    with pytest.raises(LandingFailed, match="DIVIDE_BY_ZERO") as caught:
        derived.run(transform=transform)
    assert_mentions(str(caught.value), "a row;", "parts of the rows")
