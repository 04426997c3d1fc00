"""`kinesis-assets compare`: a range of a stream beside the table of another system."""

from __future__ import annotations

import json
from collections import Counter
from datetime import UTC, datetime
from threading import Event, Thread

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake

from kinesis_assets.testing import UserRecord, aggregate
from support.command_line import single_line_error
from support.mentions import assert_mentions

SHARDS = 8
STEP = (1 << 128) // SHARDS
ID = "get_json_object(CAST(data AS STRING), '$.id')"
BY_POSITION = ["--key", "shardId", "--key", "sequenceNumber", "--key", "subSequenceNumber"]
BY_ID = ["--key", "id", "--stream-key", ID]
SCHEMA = pa.schema(
    {
        "shardId": pa.string(),
        "sequenceNumber": pa.string(),
        "subSequenceNumber": pa.int32(),
        "id": pa.int64(),
        "payload": pa.string(),
        "arrived": pa.timestamp("us", tz="UTC"),
        "day": pa.string(),
    }
)
COUNTS = ("records", "equal", "missing", "doubled", "different", "extra", "outside")


class Source:
    """A stream in the emulator, and the rows that a perfect consumer writes."""

    def __init__(self, clocked, stream):
        self.clock, self.kinesis, self.stream = clocked.clock, clocked.kinesis, stream
        self.settings = clocked.settings
        self.is_read = Event()
        self.rows = []

    def put(self, *ids, shard=0, version=0, together=False, text=None):
        """Put JSON documents into a shard, each in a record of its own, or together in an aggregate."""
        key = str(shard * STEP)
        documents = [text or json.dumps({"id": number, "v": version}) for number in ids]
        if together:
            records = [aggregate(UserRecord("k", each.encode(), key) for each in documents)]
        else:
            records = [each.encode() for each in documents]
        for number, record in enumerate(records):
            put = self.kinesis.put_record(
                StreamName=self.stream, Data=record, PartitionKey="k", ExplicitHashKey=key
            )
            parts = range(len(ids)) if together else [number]
            for sub, part in enumerate(parts):
                self.rows.append(self._row(put, sub, ids[part], documents[part]))
        return self.rows[-len(ids) :]

    def _row(self, put, sub, number, document):
        arrived = datetime.fromtimestamp(round(self.clock.seconds * 1000) / 1000, UTC)
        return {
            "shardId": put["ShardId"],
            "sequenceNumber": put["SequenceNumber"],
            "subSequenceNumber": sub,
            "id": number,
            "payload": document,
            "arrived": arrived,
            "day": f"day {len(self.rows) % 3}",
        }

    @property
    def now(self):
        return datetime.fromtimestamp(self.clock.seconds, UTC).isoformat()


@pytest.fixture
def source(clocked, stream, faults):
    """A stream, in which time passes while it is read."""
    source = Source(clocked, stream)

    def advance(*_):
        source.is_read.set()
        clocked.clock.seconds += 0.5

    faults.answer("GetRecords", advance)
    clocked.kinesis.create_stream(StreamName=stream, ShardCount=SHARDS)
    return source


@pytest.fixture
def compare(cli, source, tmp_path):
    """Writes a table, and compares the stream up to now with it. Returns the result of the command."""

    def compare(rows, *options, write=write_deltalake, until=None, codes=(0, 1), json_lines=True):
        place = str(tmp_path / "other")
        write(place, pa.Table.from_pylist(rows, SCHEMA))
        end = ["--to", until or source.now] if until != "now" else []
        options = [*end, *(["--json"] if json_lines else []), *options]
        source.clock.seconds += 10
        done = cli(
            "compare",
            *("--stream", source.stream, "--region", "us-east-1"),
            *("--endpoint-url", source.settings.endpoint_url),
            *("--with", f"{place}-by-day" if write is by_day else place),
            *options,
        )
        assert done.exit_code in codes, done.err
        return done

    return compare


def by_day(place, table):
    """Write Parquet files in folders for the values of a column."""
    pq.write_to_dataset(table, f"{place}-by-day", partition_cols=["day"])


def replace(place, table):
    """Replace the rows of the Delta table."""
    write_deltalake(place, table, mode="overwrite")


def shard_id(number):
    return f"shardId-{number:012d}"


def key_of(row):
    return row["shardId"], row["sequenceNumber"], str(row["subSequenceNumber"])


def totals(done):
    """Return the counts of all shards together that are not 0."""
    assert done.out, done.err
    sums = {name: sum(line[name] for line in done.lines) for name in COUNTS}
    return {name: count for name, count in sums.items() if count}


def test_ten_planted_differences_of_each_kind_are_found(source, compare, spark, tmp_path):
    for shard in range(SHARDS):
        source.put(*range(shard * 100, shard * 100 + 10), shard=shard)
        source.put(*range(shard * 100 + 10, shard * 100 + 20), shard=shard, together=True)
        source.clock.seconds += 1
        source.put(*range(shard * 100 + 20, shard * 100 + 30), shard=shard)
    source.clock.seconds += 1
    rows = [dict(row) for row in source.rows]
    missing, doubled, different = rows[3::24], rows[5::24], rows[11::24]
    for row in different:
        row["payload"] += " "
    different[0]["payload"] = None
    wrong = [
        row | {"sequenceNumber": str(int(row["sequenceNumber"]) + 1), "id": -row["id"]} for row in rows[7::24]
    ]
    kept = [row for row in rows if row not in missing] + doubled + wrong
    expected = {
        "records": 240,
        "equal": 220,
        "missing": 10,
        "doubled": 10,
        "different": 10,
        "extra": 10,
    }

    by_position = compare(kept, *BY_POSITION, "--value", "payload")
    by_id = compare(kept, *BY_ID, "--value", "payload", "--format", "parquet", write=by_day)
    spark.read.parquet(str(tmp_path / "other-by-day")).createOrReplaceTempView("events_of_another")
    try:
        by_name = compare(kept, *BY_ID, "--value", "payload", "--with", "events_of_another", write=replace)
    finally:
        spark.catalog.dropTempView("events_of_another")

    for done in (by_position, by_id, by_name):
        assert (done.exit_code, totals(done)) == (1, expected)
    examples = [example for line in by_position.lines for example in line["examples"]]
    assert sorted(key_of(row) for row in missing) == sorted(
        tuple(example["key"]) for example in examples if example["kind"] == "missing"
    )
    assert Counter(example["kind"] for example in examples) == dict.fromkeys(
        ("missing", "doubled", "different", "extra"), 10
    )
    (first,) = (each for each in examples if each["key"] == [*key_of(missing[0])])
    assert first == {
        "kind": "missing",
        "shard": missing[0]["shardId"],
        "sequence_number": missing[0]["sequenceNumber"],
        "sub_sequence_number": missing[0]["subSequenceNumber"],
        "arrival": missing[0]["arrived"].isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "key": [*key_of(missing[0])],
        "rows": 1,
    }
    # Rows whose record is not in the stream are of no shard, unless they name one.
    assert [line["extra"] for line in by_id.lines if line["shard"] is None] == [10]


def test_a_table_without_the_rows_of_two_shards_lacks_just_these(source, compare):
    for shard in range(SHARDS):
        source.put(shard, shard + 100, shard=shard)
    source.clock.seconds += 1
    rows = [row for row in source.rows if row["shardId"] not in {shard_id(2), shard_id(5)}]
    done = compare(rows, *BY_POSITION)
    assert done.exit_code == 1
    assert {line["shard"]: line["missing"] for line in done.lines if line["missing"]} == {
        shard_id(2): 2,
        shard_id(5): 2,
    }
    assert totals(compare(source.rows, *BY_POSITION, write=replace)) == {"records": 16, "equal": 16}
    printed = compare(rows, *BY_POSITION, "--examples", "1", write=replace, json_lines=False)
    shards, examples = printed.out.split("\n\n")
    assert shards.splitlines()[3].split()[-7:] == ["2", "0", "2", "0", "0", "0", "0"]
    assert [line.split()[:2] for line in examples.splitlines()] == [
        ["kind", "shard"],
        ["missing", shard_id(2)],
    ]


def test_rows_at_the_edges_of_the_range_are_no_differences(source, compare, spark):
    before = source.put(1, 2)
    source.clock.seconds += 1
    start = source.now
    source.put(3)
    source.put(1, shard=1)
    source.clock.seconds += 1
    end = source.now
    after = source.put(4, 5, 1)
    source.clock.seconds += 1
    window = ["--from", start]

    by_position = compare(source.rows, *BY_POSITION, *window, until=end)
    by_id = compare(source.rows, *BY_ID, *window, until=end, write=replace)
    exact = compare(source.rows, *BY_ID, *window, "--margin", "0", until=end, write=replace)
    spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    try:
        where = ["--where", f"arrived >= '{start[:19]}' AND arrived < '{end[:19]}'"]
        selected = compare(source.rows, *BY_ID, *window, "--margin", "0", *where, until=end, write=replace)
    finally:
        spark.conf.unset("spark.sql.session.timeZone")

    inside = {"records": 2, "equal": 2}
    assert totals(by_position) == inside | {"outside": len(before + after)}
    assert totals(by_id) == inside | {"outside": len(before + after)}
    assert (totals(exact)["extra"], exact.exit_code) == (3, 1)
    assert (totals(selected), selected.exit_code) == (inside, 0)


def test_records_that_arrive_during_the_comparison_are_not_expected(source, compare):
    source.put(1, 2)
    source.put(3, shard=3, together=True)
    source.clock.seconds += 1
    rows, stop = [*source.rows], Event()

    def produce():
        source.is_read.wait()
        while not stop.wait(0.02):
            source.put(100, shard=3)

    producer = Thread(target=produce)
    producer.start()
    try:
        done = compare(rows, *BY_POSITION, until="now")
    finally:
        stop.set()
        source.is_read.set()
        producer.join()
    assert any(row["id"] == 100 for row in source.rows)
    assert totals(done) == {"records": 3, "equal": 3}


def test_equal_keys_and_null_keys_are_compared_as_often_as_they_occur(source, compare):
    source.put(1, 1, 2)
    source.put(1, 3, shard=4)
    source.put(None, None, shard=4, text="no JSON")
    source.clock.seconds += 1
    ones = [row for row in source.rows if row["id"] == 1]
    rows = [row for row in source.rows if row is not ones[0]]

    done = compare(rows[:-1], *BY_ID)
    assert totals(done) == {"records": 7, "equal": 5, "missing": 2}
    missing = [example for line in done.lines for example in line["examples"]]
    assert [example["key"] for example in missing] == [["1"], [None]]
    assert totals(compare(source.rows, *BY_ID, write=replace)) == {"records": 7, "equal": 7}


def test_null_keys_are_counted_and_prove_nothing_if_all_are_null(source, compare):
    source.put(1, 2, 3)
    source.put(4, shard=4)
    source.clock.seconds += 1
    others = [row | {"id": row["id"] + 10, "payload": '{"id": 9}'} for row in source.rows]
    nobody = "get_json_object(CAST(data AS STRING), '$.idd')"
    wrong = ["--key", "get_json_object(payload, '$.idd')", "--stream-key", nobody]
    no_proof = "--stream-key \"get_json_object(CAST(data AS STRING), '$.idd')\" is null in all records"

    for options in (wrong, ["--key", "1", "--stream-key", "1", *wrong]):
        done = compare(others, *options, write=replace)
        assert (done.exit_code, totals(done)) == (1, {"records": 4, "equal": 4})
        assert f"{no_proof}, so this proves nothing" in done.err
    some = ["--key", "nullif(id, 1)", "--stream-key", f"nullif({ID}, 1)", "--value", "nullif(1, id)"]
    done = compare([*source.rows, source.rows[0]], *some, "--stream-value", f"nullif(1, {ID})", write=replace)
    assert totals(done) == {"records": 4, "equal": 4, "doubled": 1}
    assert "--key 'nullif(id, 1)' is null in 2 of 5 rows.\n" in done.err
    assert " is null in 1 of 4 records.\n" in done.err


@pytest.mark.thorough
def test_aggregates_that_are_only_counted_are_mentioned(source, compare):
    first, _ = source.put(1, 2, together=True)
    single = source.put(3)
    source.clock.seconds += 1
    rows, keys = [first, first, *single], BY_POSITION[:4]
    hint = "2 records are user records of aggregates, of which only the number is compared"

    counted = compare(rows, *keys)
    compared = compare(rows, *keys, "--value", "payload", write=replace)
    positions = compare(rows, *BY_POSITION, write=replace)

    assert (counted.exit_code, totals(counted)) == (0, {"records": 3, "equal": 3})
    assert f"{hint}. Also give --value, or the sub-sequence number as a third --key.\n" in counted.err
    assert totals(compared) == {"records": 3, "equal": 2, "different": 1}
    assert totals(positions) == {"records": 3, "equal": 2, "missing": 1, "doubled": 1}
    assert hint not in compared.err + positions.err


@pytest.mark.thorough
def test_rows_of_shards_that_are_not_listed_are_counted_together(source, compare):
    source.put(1, 2, 3)
    source.clock.seconds += 1
    swapped = ["--key", "sequenceNumber", "--key", "shardId"]
    short = ["--key", "right(shardId, 1)", "--key", "sequenceNumber"]
    expired = [row | {"shardId": "shardId-000000000009"} for row in source.rows]
    without_shard = [row | {"shardId": None} for row in source.rows[:2]]
    hint = "3 of 3 rows name no shard that the stream lists. The first --key must be the shard id"

    done = compare(source.rows, *swapped)
    assert totals(done) == {"records": 3, "missing": 3, "extra": 3}
    assert [line["shard"] for line in done.lines] == [*map(shard_id, range(SHARDS)), None]
    assert hint in done.err
    done = compare(source.rows, *short, write=replace)
    assert totals(done) == {"records": 3, "missing": 3, "outside": 3}
    assert [line["shard"] for line in done.lines][SHARDS:] == [None]
    assert hint in done.err
    done = compare([*source.rows, *expired[:2]], *BY_POSITION, write=replace)
    assert (done.exit_code, totals(done)) == (0, {"records": 3, "equal": 3, "outside": 2})
    assert "shard id" not in done.err
    done = compare([*source.rows, *without_shard], *BY_POSITION, write=replace)
    assert totals(done) == {"records": 3, "equal": 3, "extra": 2}


def test_a_range_without_records_proves_nothing(compare):
    done = compare([], *BY_POSITION)
    assert (done.exit_code, totals(done)) == (1, {})
    assert "The range has no records, so this proves nothing" in done.err


def test_a_table_that_keeps_the_last_version_of_a_key_has_that_of_the_range(source, compare):
    version = "CAST(get_json_object(CAST(data AS STRING), '$.v') AS INT)"
    source.put(1, 2, 3, version=2)
    source.put(4, 5, version=9)
    source.put(1, 2, version=10, shard=6)
    source.put(3, version=1, shard=6)
    source.clock.seconds += 1
    end = source.now
    late = source.put(4, version=11)
    source.clock.seconds += 1
    last = {row["id"]: row for row in source.rows if row["payload"] != '{"id": 3, "v": 1}'}
    assert last[4] is late[0]
    stale = last | {2: source.rows[1]}
    options = [*BY_ID, "--value", "payload", "--latest-by", version]

    equal = compare([*last.values()], *options, until=end)
    differs = compare([*stale.values()], *options, until=end, write=replace)

    assert totals(equal) == {"records": 4, "equal": 4, "outside": 1}
    assert totals(differs) == {"records": 4, "equal": 3, "different": 1, "outside": 1}


def test_a_range_with_a_split_shard_is_compared_as_a_whole(source, compare):
    source.put(1, 2, shard=7)
    source.kinesis.split_shard(
        StreamName=source.stream, ShardToSplit=shard_id(7), NewStartingHashKey=str(7 * STEP + STEP // 2)
    )
    source.put(3, 4, shard=7)
    source.clock.seconds += 1
    rows = [row for row in source.rows if row["id"] != 4]
    done = compare(rows, *BY_POSITION)
    assert {line["shard"]: (line["equal"], line["missing"]) for line in done.lines if line["records"]} == {
        shard_id(7): (2, 0),
        shard_id(8): (1, 1),
    }


def test_the_end_can_be_a_position_of_each_shard(source, compare):
    first = source.put(1, 2, 3)
    second = source.put(4, shard=1)
    ends = {row["shardId"]: f"AFTER_SEQUENCE_NUMBER:{row['sequenceNumber']}" for row in (first[1], second[0])}
    done = compare(source.rows, *BY_POSITION, until=json.dumps(ends | {"default": "TRIM_HORIZON"}))
    assert totals(done) == {"records": 3, "equal": 3, "outside": 1}


def test_rows_of_a_record_in_which_the_range_starts_or_ends_are_no_differences(source, compare):
    number = source.put(1, 2, 3, 4, 5, together=True)[0]["sequenceNumber"]
    source.clock.seconds += 1
    start, end = (f"AFTER_SEQUENCE_NUMBER:{number}:{sub}" for sub in (1, 3))
    start, end = (json.dumps({shard_id(0): position, "default": "TRIM_HORIZON"}) for position in (start, end))
    for keys in (BY_POSITION, BY_POSITION[:4]):
        done = compare(source.rows, *keys, "--from", start, until=end, write=replace)
        assert (done.exit_code, totals(done)) == (0, {"records": 2, "equal": 2, "outside": 3})


@pytest.mark.parametrize(
    ("options", "error"),
    [
        (["--key", "shardid, 1", "--key", "sequenceNumber"], "--key 'shardid, 1'"),
        (["--key", "shard", "--key", "sequenceNumber"], "UNRESOLVED_COLUMN"),
        (["--key", "id", "--stream-key", "payload"], "--stream-key 'payload'"),
        ([*BY_ID, "--value", "count(*)"], "--value 'count(*)'"),
        ([*BY_ID, "--where", "day ="], "--where 'day ='"),
        (["--key", "array(id)", "--stream-key", ID], "--key 'array(id)': name its elements or fields"),
        (["--key", "id", "--stream-key", "struct(data)"], "--stream-key 'struct(data)': name its"),
        ([*BY_ID, "--value", "map(1, id)"], "--value 'map(1, id)': name its"),
        ([*BY_ID, "--value", "id", "--stream-value", "array(data)"], "--stream-value 'array(data)': name"),
        ([*BY_ID, "--latest-by", "explode(array(1))"], "--latest-by"),
        ([*BY_ID, "--with", "no_such_table"], "no_such_table"),
        ([*BY_ID, "--with", "./no/such/table"], "there is no Delta table"),
        ([*BY_ID, "--format", "no_such_format"], "Spark knows no format 'no_such_format'"),
        ([*BY_ID, "--from", "2020-01-01T00:00:00Z", "--to", "2019-01-01T00:00:00Z"], "use a later end"),
    ],
    ids=str,
)
def test_an_invalid_argument_is_refused_before_anything_is_read(source, compare, faults, options, error):
    source.put(1)
    faults.calls.clear()
    done = compare(source.rows, *options, codes=(2,))
    assert error in single_line_error(done.err)
    assert not [call for call in faults.calls if call.operation == "GetRecords"]


def test_a_shard_that_cannot_be_read_fails_the_comparison(source, compare, faults):
    source.put(1)
    source.clock.seconds += 1
    faults.fail(status=400, code="AccessDeniedException", shard_id=shard_id(3))
    done = compare(source.rows, *BY_POSITION, codes=(1,))
    assert done.out == ""
    assert_mentions(single_line_error(done.err), f"ReadFailed: {shard_id(3)}", "AccessDenied")
