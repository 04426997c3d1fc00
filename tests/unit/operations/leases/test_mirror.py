"""The mirror of a table's positions in a lease table, which no run depends on."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from kinesis_assets.errors import LeaseTableFailed
from kinesis_assets.kinesis.settings import ClientSettings
from kinesis_assets.metrics import LEASE_TABLE_LAG, STREAM
from kinesis_assets.operations.leases import mirror as mirror_module
from kinesis_assets.operations.leases.lease import WHOLE
from kinesis_assets.operations.leases.lease_table import LeaseTable, region_of
from kinesis_assets.operations.leases.mirror import LeaseMirror
from kinesis_assets.table.run_files.states import MIRROR_FILE, MirrorState, read_mirror_state
from kinesis_assets.testing import Clock
from support.aggregates import aggregate_of

pytestmark = pytest.mark.slow  # starts moto


class Ticking(Clock):
    """A clock of the machine that the test controls, on which no wait takes time.

    Attributes:
        waits: The seconds of the waits that have a limit.
        patient: Whether waits last until their event is set.
    """

    def __init__(self):
        super().__init__()
        self.waits = []
        self.patient = True

    def monotonic(self):
        return self.seconds

    time = monotonic

    def wait(self, event, seconds):
        if seconds is not None:
            self.waits.append(seconds)
        return event.wait(60) if self.patient or seconds is None else event.is_set()


@pytest.fixture
def measured(monkeypatch):
    """The measurements of the lag."""
    values = []

    def measure(instrument, value, attributes):
        assert instrument is LEASE_TABLE_LAG
        values.append((value, attributes[STREAM]))

    monkeypatch.setattr(mirror_module, "measure", measure)
    return values


class Mirrored:
    """A mirror that the test updates.

    Attributes:
        warnings: What it has warned of.
    """

    def __init__(self, bench, leases):
        self.bench, self.leases, self.clock = bench, leases, Ticking()
        self.name = leases.name
        self.warnings = []
        self.mirror = self.another()

    def another(self):
        """Return the mirror of another run."""
        return LeaseMirror(
            self.bench.table.reopened(),
            self.bench.client.listing(),
            self.name,
            lambda: self.leases.table,
            warn=self.warnings.append,
            clock=self.clock,
        )

    @property
    def state(self):
        """What is recorded for the check."""
        return read_mirror_state(self.bench.table, self.name)

    @property
    def checkpoints(self):
        return {
            key: (item["checkpoint"], item["checkpointSubSequenceNumber"])
            for key, item in self.leases.items.items()
        }


@pytest.fixture
def mirrored(bench, leases, measured):
    del measured
    bench.create(2)
    return Mirrored(bench, leases)


def test_the_leases_have_the_positions_of_the_newest_commit(mirrored, bench):
    first, second = bench.shard_ids
    (number,) = bench.put(1)
    (aggregate,) = bench.put(aggregate_of(2, 3), shard_id=second)
    bench.run(max_records=1)
    mirrored.mirror.update()
    assert mirrored.checkpoints == {first: (number, WHOLE), second: (aggregate, 0)}
    children = bench.split(first)
    bench.run()
    mirrored.mirror.update()
    assert mirrored.checkpoints == {
        first: ("SHARD_END", 0),
        second: (aggregate, WHOLE),
        **dict.fromkeys(children, ("TRIM_HORIZON", 0)),
    }
    assert mirrored.leases.items[first]["childShardIds"] == children
    assert mirrored.warnings == []


def test_positions_without_a_record_are_mirrored_too(mirrored, bench):
    first, second = bench.shard_ids
    (number,) = bench.put(1)
    bench.plan(start={first: f"AT_SEQUENCE_NUMBER:{number}", second: "LATEST"})
    mirrored.mirror.update()
    assert mirrored.checkpoints == {first: (number, -1), second: ("AT_TIMESTAMP", 0)}


def test_only_leases_that_change_are_written(mirrored, bench):
    first, second = bench.shard_ids
    bench.run()
    mirrored.mirror.update()
    bench.put(1)
    bench.run()
    mirrored.mirror.update()
    counters = {key: item["leaseCounter"] for key, item in mirrored.leases.items.items()}
    assert counters == {first: 1, second: 0}


def test_the_mirrors_of_two_runs_converge_on_the_newest_positions(mirrored, bench):
    first, second = bench.shard_ids
    other = mirrored.another()
    bench.run()
    mirrored.mirror.update()
    other.update()
    bench.put(1)
    bench.run()
    mirrored.mirror.update()
    (number,), (of_second,) = bench.put(2), bench.put(3, shard_id=second)
    bench.run()
    other.update()
    assert mirrored.checkpoints == {first: (number, WHOLE), second: (of_second, WHOLE)}
    mirrored.mirror.update()
    assert mirrored.checkpoints == {first: (number, WHOLE), second: (of_second, WHOLE)}
    assert mirrored.warnings == []


def test_two_mirrors_that_write_each_lease_at_the_same_time_do_not_fail(mirrored, bench, monkeypatch):
    bench.run()
    bench.split(bench.shard_ids[0])
    bench.run()
    put = LeaseTable.put
    rivals = []

    def late(*arguments):
        rivals.append(put(*arguments))  # the other mirror is a moment faster
        return put(*arguments)

    monkeypatch.setattr(LeaseTable, "put", late)
    mirrored.mirror.update()
    assert rivals == [True] * 4
    assert mirrored.warnings == []
    assert mirrored.state == MirrorState(lease_table=mirrored.name, commit_id=bench.positions.commit_id)


def test_a_mirror_fails_only_if_the_leases_are_old_after_all_others_have_written(
    mirrored, bench, leases, monkeypatch
):
    bench.run()
    mirrored.mirror.update()
    update = LeaseTable.update

    def changed_first(table, key, *arguments):
        for other in bench.shard_ids:
            leases.put(**leases.items[other] | {"leaseCounter": leases.items[other]["leaseCounter"] + 1})
        return update(table, key, *arguments)

    numbers = [*bench.put(1), *bench.put(2, shard_id=bench.shard_ids[1])]
    bench.run()
    monkeypatch.setattr(LeaseTable, "update", changed_first)
    mirrored.mirror.update()
    assert "others change its leases: 2 of them are old" in mirrored.warnings[0]
    assert mirrored.state.failed == 1
    monkeypatch.undo()
    mirrored.mirror.update()
    assert [number for number, _ in mirrored.checkpoints.values()] == numbers


def test_a_failure_is_reported_once_and_its_lateness_measured_until_it_is_over(
    mirrored, bench, leases, measured
):
    bench.run()
    broken = leases.name
    leases.name = "none"
    mirrored.clock.advance(10)
    mirrored.mirror.update()
    mirrored.clock.advance(10)
    mirrored.mirror.update()
    assert len(mirrored.warnings) == 1
    assert "The run goes on" in mirrored.warnings[0]
    mirrored.clock.advance(10)
    mirrored.another().update()  # that of a later run
    leases.name = broken
    mirrored.clock.advance(10)
    mirrored.mirror.update()
    assert measured == [(lag, bench.stream) for lag in (0, 10, 20, 0)]
    assert mirrored.checkpoints.keys() == set(bench.shard_ids)


def test_each_attempt_is_recorded_with_the_table(mirrored, bench, leases):
    assert mirrored.state == MirrorState(lease_table=leases.name)
    bench.run()
    first = bench.positions.commit_id
    mirrored.mirror.update()
    assert mirrored.state == MirrorState(lease_table=mirrored.name, commit_id=first)
    leases.name = "none"
    bench.put(1)
    bench.run()
    for failed in (1, 2):
        mirrored.another().update()
        assert (mirrored.state.commit_id, mirrored.state.failed) == (first, failed)
        assert "ResourceNotFoundException" in mirrored.state.error
        assert "aws dynamodb create-table" in mirrored.state.error
    leases.name = mirrored.name
    mirrored.mirror.update()
    assert mirrored.state == MirrorState(lease_table=mirrored.name, commit_id=bench.positions.commit_id)


def test_what_is_recorded_of_another_lease_table_does_not_count(mirrored, bench):
    bench.run()
    mirrored.mirror.update()
    mirrored.name = "another"
    assert mirrored.state == MirrorState(lease_table="another")


def test_a_damaged_record_is_replaced(mirrored, bench):
    bench.run()
    Path(bench.table.uri, MIRROR_FILE).write_text("{")
    mirrored.mirror.update()
    assert mirrored.state.commit_id == bench.positions.commit_id


def test_a_record_that_cannot_be_written_fails_nothing(mirrored, bench):
    bench.run()
    Path(bench.table.uri, MIRROR_FILE).mkdir()
    mirrored.mirror.update()
    assert mirrored.checkpoints.keys() == set(bench.shard_ids)
    assert mirrored.warnings == []


def test_a_slower_run_does_not_take_back_what_another_one_recorded():
    newer = MirrorState(lease_table="mirror", commit_id=6)
    assert newer.after_success(5) == newer
    assert newer.after_failure("denied", 1.0).after_success(5) == newer


def test_a_run_that_ends_updates_again_if_another_one_has_committed_meanwhile(mirrored, bench, monkeypatch):
    bench.run()
    write = mirror_module.write_mirror_state

    def overtaken(table, state):
        monkeypatch.setattr(mirror_module, "write_mirror_state", write)
        bench.put(1)
        bench.run()
        mirrored.another().update()
        write(table, state)  # replaces what the other run has recorded

    monkeypatch.setattr(mirror_module, "write_mirror_state", overtaken)
    with mirrored.mirror:
        pass
    assert mirrored.state.commit_id == bench.positions.commit_id


def test_the_table_of_an_application_is_left_alone(mirrored, bench, leases):
    bench.run()
    leases.lease(bench.shard_ids[0], "TRIM_HORIZON", leaseOwner="worker")
    mirrored.mirror.update()
    assert mirrored.checkpoints == {bench.shard_ids[0]: ("TRIM_HORIZON", 0)}
    assert "Use another one" in mirrored.warnings[0]


@pytest.mark.parametrize(
    ("checkpoint", "hash_range", "reason"),
    [
        ("12", {}, "before the shard's first sequence number"),
        ("TRIM_HORIZON", {"startingHashKey": "0", "endingHashKey": "99"}, "the hash range 0-99"),
    ],
)
def test_the_table_of_a_stopped_application_of_another_stream_is_left_alone(
    mirrored, bench, leases, checkpoint, hash_range, reason
):
    bench.run()
    leases.lease(bench.shard_ids[0], checkpoint, **hash_range)
    before = leases.items
    mirrored.mirror.update()
    assert leases.items == before
    assert reason in mirrored.warnings[0]


def test_a_shard_that_another_run_has_finished_since_it_was_listed_is_no_reason_to_stop(mirrored, bench):
    first, second = bench.shard_ids
    slower = mirrored.another()
    bench.split(first)
    bench.run()
    mirrored.mirror.update()
    (number,) = bench.put(1, shard_id=second)
    bench.run()
    slower.update()
    assert mirrored.checkpoints[first] == ("SHARD_END", 0)
    assert mirrored.checkpoints[second] == (number, WHOLE)
    assert mirrored.warnings == []


def test_a_thread_updates_after_a_commit_and_at_the_end(mirrored, bench, measured):
    updated = threading.Event()
    update = mirrored.mirror.update

    def counted():
        update()
        updated.set()

    mirrored.mirror.update = counted
    bench.run()
    with mirrored.mirror as mirror:
        mirror.note_commit()
        assert updated.wait(60)
        (number,) = bench.put(1)
        bench.run()
        mirror.note_commit()
    assert mirrored.checkpoints[bench.shard_ids[0]] == (number, WHOLE)
    assert len(measured) == 2


def test_a_run_does_not_wait_for_an_update_that_does_not_end(mirrored, bench, monkeypatch, measured):
    begun, answered = threading.Event(), threading.Event()

    def hang(_):
        begun.set()
        answered.wait(60)
        raise LeaseTableFailed("Scan failed")

    monkeypatch.setattr(LeaseTable, "items", hang)
    bench.run()
    mirrored.clock.patient = False
    with mirrored.mirror as mirror:
        mirror.note_commit()
        assert begun.wait(60)
        mirrored.clock.advance(4)
    assert mirrored.clock.waits[-1] == 10
    assert "did not end within 10 s" in mirrored.warnings[0]
    assert measured == [(4, bench.stream)]
    assert mirrored.state.failed == 1
    answered.set()


def test_an_arn_names_the_region_of_its_table():
    arn = "arn:aws:dynamodb:eu-west-1:123456789012:table/clicks"
    assert (region_of(arn, "us-east-1"), region_of("clicks", "us-east-1")) == ("eu-west-1", "us-east-1")
    assert LeaseTable(arn, ClientSettings("eu-west-1")).name == arn
