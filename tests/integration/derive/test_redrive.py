"""Bad records are decoded again after their schema was corrected, each exactly once."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from kinesis_assets.derive import redrive as redrives
from kinesis_assets.derive.derivation import Upsert
from kinesis_assets.derive.redrive import redrive
from kinesis_assets.errors import CursorConflict, InvalidInput, TableOfAnotherSource
from support.derived import identified
from support.formats import delete, derived_rows

if TYPE_CHECKING:
    from kinesis_assets.derive.redrive import Redrive
    from support.typed_tables import TypedBench

pytestmark = pytest.mark.any_format

STRICT = "id STRING, at INT, v INT"
CORRECTED = "id STRING, at INT, v STRING"
KEYED = {"key": ("id",), "order_by": ("at",)}
OTHER = b'{"v": "x", "id": 3}'
"""A record that cannot be decoded with either schema, for another field."""


def event(id_: str, at: int, v: Any, **fields: Any) -> bytes:
    return json.dumps({"id": id_, "at": at, "v": v, **fields}).encode()


class Redriven:
    """A typed table that keeps bad records, or separates them."""

    def __init__(self, typed: TypedBench, *, apart: bool, **settings: Any) -> None:
        self.typed = typed
        self.apart = apart
        # The column is a text under both schemas.
        select = ["id", "at", "CAST(v AS STRING) AS v", *settings.pop("more", ())]
        bad = "separate" if apart else "keep"
        self.settings: dict[str, Any] = {"select": select, "on_bad_record": bad, **settings}

    def consume(self, *payloads: bytes, schema: str = STRICT) -> None:
        self.typed.consume(*payloads, schema=schema, **self.settings)

    def take_over(self) -> None:
        """Consume into the table of errors, if there is one."""
        if self.apart:
            self.typed.run_errors(STRICT, **self.settings)

    def redrive(self, schema: str = CORRECTED, *, apply: bool = True, **changes: Any) -> Redrive:
        rows = self.typed._rows(schema, self.settings)
        mode = None
        if "key" in self.settings:
            mode = Upsert(self.settings["key"], self.settings["order_by"], self.settings.get("delete_where"))
        derived = self.typed.derived
        careful = partial(rows.of_table, is_careful=True)
        given = {"transform": rows.of_table, "careful": careful, "mode": mode} | changes
        return redrive(
            derived.spark,
            derived.table,
            replace(derived.derivation, **given),
            errors=self.typed.errors_table if self.apart else None,
            by="ann",
            apply=apply,
        )

    @property
    def good(self) -> list[Any]:
        rows = self.typed.derived.rows.to_pylist()
        return sorted((row["id"], row["v"]) for row in rows if row.get("error") is None)

    @property
    def bad(self) -> list[tuple[bytes, str]]:
        """The data and the end of the reason of each bad record."""
        self.take_over()
        table = self.typed.errors_table if self.apart else self.typed.derived.table
        rows = derived_rows(table).to_pylist()
        return sorted((row["data"], row["error"].rpartition("$.")[2]) for row in rows if row["error"])


@pytest.mark.parametrize(
    ("apart", "taken_over"),
    [
        pytest.param(False, False, id="keep", marks=pytest.mark.thorough),
        pytest.param(True, False, id="separate, not taken over yet", marks=pytest.mark.thorough),
        pytest.param(True, True, id="separate"),
    ],
)
def test_records_that_can_be_decoded_now_become_rows_and_the_rest_stays_with_its_new_reason(
    typed: TypedBench, apart: bool, taken_over: bool
) -> None:
    table = Redriven(typed, apart=apart, more=["approximate_arrival_timestamp AS arrived", "batch_id"])
    table.consume(event("a", 1, 1), event("b", 1, "two"), OTHER, b"{")
    if taken_over:
        table.take_over()
    planned = table.redrive(apply=False)
    assert (planned.records, planned.decoded, planned.commit) == (3, 1, None)
    assert sorted(planned.reasons.values()) == [1, 1]
    assert table.good == [("a", "1")]

    made = table.redrive()
    assert made.commit is not None
    assert (made.records, made.decoded, made.commit.rows) == (3, 1, 1 if apart else 2)
    assert table.good == [("a", "1"), ("b", "two")]
    assert [(data, reason) for data, reason in table.bad if data == OTHER] == [(OTHER, "id`")]
    assert len(table.bad) == 2
    (row,) = (each for each in typed.derived.rows.to_pylist() if each["v"] == "two")
    assert row["arrived"] is not None
    assert row["batch_id"] in typed.bench.arrow("batch_id")["batch_id"].to_pylist()

    again = table.redrive()
    assert (again.records, again.decoded, again.commit) == (2, 0, None)
    last = table.redrive("id STRING, at INT, v STRING, other STRING")
    assert last.commit is None
    assert len(table.bad) == 2


@pytest.mark.parametrize(
    "apart", [pytest.param(False, marks=pytest.mark.thorough), True], ids=["keep", "separate"]
)
def test_of_a_split_record_only_the_bad_documents_are_redriven(typed: TypedBench, apart: bool) -> None:
    table = Redriven(typed, apart=apart, split="lines")
    lines = [event("a", 1, 1), event("b", 1, "x"), OTHER, event("c", 1, 1)]
    table.consume(b"\n".join(lines), event("d", 1, "y"))
    made = table.redrive()
    assert (made.records, made.decoded) == (3, 2)
    assert table.good == [("a", "1"), ("b", "x"), ("c", "1"), ("d", "y")]
    assert table.bad == [(OTHER, "id`")]
    assert table.redrive("id STRING, at INT, v BOOLEAN").decoded == 0
    assert table.bad == [(OTHER, "v`")]


@pytest.mark.thorough
@pytest.mark.parametrize(
    "apart", [False, pytest.param(True, marks=pytest.mark.thorough)], ids=["keep", "separate"]
)
def test_a_redriven_record_has_its_place_among_the_commits_of_rows_with_equal_order(
    typed: TypedBench, apart: bool
) -> None:
    table = Redriven(typed, apart=apart, **KEYED)
    table.consume(event("before", 5, 1), event("newer", 9, 1))
    table.consume(
        event("before", 5, "redriven"), event("after", 5, "redriven"), event("newer", 8, "redriven")
    )
    table.consume(event("after", 5, 3), event("other", 1, 3))
    table.consume(event("other", 2, "redriven"))
    made = table.redrive()
    assert made.decoded == 4
    assert table.good == [("after", "3"), ("before", "redriven"), ("newer", "1"), ("other", "redriven")]
    assert table.bad == []


@pytest.mark.thorough
def test_a_record_that_was_taken_over_late_and_stays_bad_keeps_its_place(typed: TypedBench) -> None:
    table = Redriven(typed, apart=True, **KEYED)
    table.consume(event("k", 5, "redriven"))
    table.consume(event("k", 5, 2))
    table.take_over()
    table.redrive("id STRING, at INT, v BOOLEAN")
    table.take_over()
    table.consume(event("l", 5, 2))
    assert table.redrive().decoded == 1
    assert table.good == [("k", "2"), ("l", "2")]
    assert table.bad == []


def test_records_are_redriven_although_an_expression_reads_the_name_of_an_entry_before_it(
    typed: TypedBench,
) -> None:
    table = Redriven(typed, apart=False, more=["upper(id) AS name", "concat(name, '!') AS call"])
    table.consume(event("a", 1, "x"), event("b", 1, 1))
    assert table.redrive().decoded == 1
    assert (typed.values("call"), table.bad) == (["A!", "B!"], [])


@pytest.mark.thorough
def test_a_record_without_a_row_is_no_longer_bad(typed: TypedBench) -> None:
    table = Redriven(
        typed, apart=False, where="id <> 'out'", key=("id",), order_by=("at",), delete_where="v = 'gone'"
    )
    table.consume(event("a", 1, 1), event("a", 2, "gone"), event("out", 1, "out"), event("c", 1, "in"))
    assert table.redrive().decoded == 3
    assert (table.good, table.bad) == ([("c", "in")], [])


def test_of_two_redrives_at_once_one_changes_the_table(
    typed: TypedBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = Redriven(typed, apart=True)
    table.consume(event("a", 1, "x"), event("b", 1, 1))
    commit = redrives.commit

    def overtaken(*args: Any, **settings: Any) -> Any:
        monkeypatch.setattr(redrives, "commit", commit)
        table.redrive()
        return commit(*args, **settings)

    monkeypatch.setattr(redrives, "commit", overtaken)
    with pytest.raises(CursorConflict, match="another redrive"):
        table.redrive()
    assert (table.good, table.bad) == ([("a", "x"), ("b", "1")], [])


@pytest.mark.thorough
def test_a_run_that_commits_meanwhile_keeps_its_rows_and_its_bad_records(
    typed: TypedBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = Redriven(typed, apart=False, **KEYED)
    table.consume(event("a", 1, "x"), event("b", 1, 1))
    commit = redrives.commit

    def overtaken(*args: Any, **settings: Any) -> Any:
        monkeypatch.setattr(redrives, "commit", commit)
        table.consume(event("a", 2, 2), event("c", 1, "y"))
        return commit(*args, **settings)

    monkeypatch.setattr(redrives, "commit", overtaken)
    assert table.redrive().decoded == 1
    assert (table.good, table.bad) == ([("a", "2"), ("b", "1")], [(event("c", 1, "y"), "v`")])


def test_a_record_that_the_source_no_longer_has_is_redriven_with_null_in_its_other_columns(
    typed: TypedBench,
) -> None:
    table = Redriven(typed, apart=False, more=["partition_key"])
    table.consume(event("a", 1, "x"), event("b", 1, "x"))
    first = typed.derived.rows.to_pylist()[0]["sequence_number"]
    delete(typed.bench.table, f"sequence_number = '{first}'")
    assert table.redrive().decoded == 2
    lacking = sorted(row["partition_key"] is None for row in typed.derived.rows.to_pylist())
    assert (len(table.good), table.bad, lacking) == (2, [], [False, True])


def test_tables_that_cannot_be_redriven_are_refused_and_nothing_is_changed(typed: TypedBench) -> None:
    table = Redriven(typed, apart=False)
    table.consume(event("a", 1, "x"))
    version = typed.derived.table.snapshot().version
    with pytest.raises(InvalidInput, match="would not keep them"):
        table.redrive(transform=identified, careful=None)
    table.settings["on_bad_record"] = "fail"
    with pytest.raises(InvalidInput, match="would not keep them"):
        table.redrive()
    assert typed.derived.table.snapshot().version == version


def test_the_table_of_another_owner_is_refused(typed: TypedBench) -> None:
    table = Redriven(typed, apart=False)
    typed.derived.derivation = replace(typed.derived.derivation, owner="orders")
    table.consume(event("a", 1, "x"))
    with pytest.raises(TableOfAnotherSource, match="belongs to the asset orders"):
        table.redrive(owner="sales")
