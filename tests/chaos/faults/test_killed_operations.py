"""A replay, a seek, an adoption or a maintenance is killed by SIGKILL at a step, and then repeated.

Right after the kill the table is in its old or in its new state. After the repeated operation and an ordinary
run it contains each acknowledged record exactly once, without any manual step.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import time
from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable

from chaos.faults.one_operation import LOWERED, operate
from chaos.faults.site.fault_points import Fault
from kinesis_assets.table.iceberg.raw_table import IcebergSnapshot
from kinesis_assets.table.maintenance.steps import DEFAULT_LIMITS
from kinesis_assets.table.store.storage import files_below
from support.formats import FORMAT, delete, raw_table, write

if TYPE_CHECKING:
    from chaos.faults.bench import FaultBench


pytestmark = pytest.mark.any_format


def faults(*points: str) -> pytest.MarkDecorator:
    """Parametrize a test by faults, each as `MOMENT POINT` and, if it is not the first, the pass."""
    chosen = []
    for point in points:
        moment, _, rest = point.partition(" ")
        name, _, nth = rest.rpartition(" ")
        chosen.append(Fault("", name, moment, int(nth)) if nth.isdecimal() else Fault("", rest, moment))
    return pytest.mark.parametrize("fault", chosen, ids=str)


def kill(bench: FaultBench, fault: Fault, operation: str, *shard_ids: str, **arguments: Any) -> None:
    process = bench.run_with_fault(
        fault, *shard_ids, program="one_operation.py", operation=operation, **arguments
    )
    assert process.code == -signal.SIGKILL, process.err


def again(bench: FaultBench, operation: str, *shard_ids: str, **arguments: Any) -> None:
    """Repeat an operation without a fault."""
    reached = {"stream": bench.stream, "table": bench.table.uri, "endpoint_url": bench.settings.endpoint_url}
    operate({"operation": operation, "shards": shard_ids, **reached, **arguments})


def begin(bench: FaultBench, runs: int = 1) -> list[tuple[str, str, bytes]]:
    """Execute runs, put records that stay unread, and return the records that were read."""
    bench.create(2)
    for _ in range(runs):
        bench.put_many(20)
        assert bench.run().errors == {}
    read = list(bench.acknowledged)
    bench.put_many(20)
    return read


def positions_file(bench: FaultBench) -> tuple[int, bytes]:
    """Return the commit id that the log names, and the content of its positions file."""
    commit_id = bench.positions.commit_id
    return commit_id, Path(bench.table.uri, f"_kinesis/positions/{commit_id}.json").read_bytes()


def of_shard(records: list[tuple[str, str, bytes]], shard_id: str) -> list[tuple[str, str, bytes]]:
    """Return the records of a shard in order."""
    return sorted((record for record in records if record[0] == shard_id), key=lambda record: int(record[1]))


@faults(
    "after open data file",
    "after close data file",
    "after write positions",  # here the commit of the amendment
    "before commit request",
    "after commit request",
)
def test_a_repeated_replay_adds_each_missing_row_once(bench: FaultBench, fault: Fault) -> None:
    read = begin(bench)
    before = positions_file(bench)
    lost = read[3:9]
    numbers = ", ".join(f"'{number}'" for _, number, _ in lost)
    delete(bench.table, f"sequence_number IN ({numbers})")
    assert Counter(bench.stored) == Counter(read) - Counter(lost)
    kill(bench, fault, "replay")
    committed = (fault.moment, fault.point) == ("after", "commit request")
    assert Counter(bench.stored) == Counter(read) - Counter([] if committed else lost)
    assert positions_file(bench) == before
    again(bench, "replay")
    assert Counter(bench.stored) == Counter(read)
    assert positions_file(bench) == before
    bench.assert_next_run_recovers()


@faults(
    "after write positions",
    "after write positions 2",  # the commit of the amendment
    "before delete rows",
    "after delete rows",
)
def test_the_run_after_a_killed_seek_backwards_adds_its_rows_once(bench: FaultBench, fault: Fault) -> None:
    read = begin(bench)
    shard_id = read[0][0]
    records = of_shard(read, shard_id)
    kept, number = 3, records[2][1]
    to = {"to": f"AFTER_SEQUENCE_NUMBER:{number}"}
    kill(bench, fault, "seek", shard_id, **to)
    bench.assert_rows_equal_positions()
    again(bench, "seek", shard_id, **to)
    bench.assert_rows_equal_positions()
    shard = bench.positions.shards[shard_id]
    assert shard.position.sequence_number == number
    assert [seek.rows_removed for seek in shard.seeks] == [len(records) - kept]
    bench.assert_next_run_recovers()


@faults("before commit request", "after commit request")
def test_a_killed_seek_forwards_skips_what_it_names_and_nothing_else(bench: FaultBench, fault: Fault) -> None:
    read = begin(bench)
    shard_id = read[0][0]
    unread = of_shard(bench.acknowledged[len(read) :], shard_id)
    skipped = unread[:3]
    to = {"to": f"AFTER_SEQUENCE_NUMBER:{skipped[-1][1]}"}
    kill(bench, fault, "seek", shard_id, **to)
    assert Counter(bench.stored) == Counter(read)
    again(bench, "seek", shard_id, **to)
    shard = bench.positions.shards[shard_id]
    assert (len(shard.seeks), len(shard.gaps)) == (1, 1)
    assert bench.run().errors == {}
    assert Counter(bench.stored) == Counter(bench.acknowledged) - Counter(skipped)


STEPS_OF_MAINTENANCE = {
    "delta": (
        "after set properties",  # right before the compaction
        "after compact",
        "after set properties 2",  # right before the vacuum
        "after vacuum 2",  # the first step only prints
        "after checkpoint",
        "after delete old log",
        "after prune a file 2",
    ),
    "iceberg": (
        "before add nothing",
        "after commit request",  # right before the vacuum
        "after prune a file",  # the first one of the vacuum
        "after prune a file 5",
        "after merge files",
        "before replace files",
        "before commit request 2",
        "after commit request 2",
    ),
}


@faults(*STEPS_OF_MAINTENANCE[FORMAT])
def test_a_killed_maintenance_leaves_rows_and_positions_as_they_are(bench: FaultBench, fault: Fault) -> None:
    # Enough for one day, even if another begins meanwhile.
    read = begin(bench, 2 * DEFAULT_LIMITS.small_files - 1)
    orphan = age(bench)
    before = positions_file(bench)
    kill(bench, fault, "maintain")
    assert Counter(bench.stored) == Counter(read)
    bench.assert_others_read_it()
    assert positions_file(bench) == before
    again(bench, "maintain")
    assert Counter(bench.stored) == Counter(read)
    assert positions_file(bench) == before
    assert not orphan.exists()
    assert len(bench.table.snapshot().data_files()) < DEFAULT_LIMITS.small_files
    if FORMAT == "delta":
        assert_log_is_short(bench)
    else:
        assert_no_file_is_missing(bench)
    kept = {str(before[0]), str(json.loads(before[1])["base"])}
    assert {path.stem for path in Path(bench.table.uri, "_kinesis/positions").iterdir()} == kept
    bench.assert_next_run_recovers()


def assert_log_is_short(bench: FaultBench) -> None:
    """The log of a Delta table has a checkpoint, and no entry from before."""
    log = Path(bench.table.uri, "_delta_log")
    summed_up = json.loads((log / "_last_checkpoint").read_text())["version"]
    assert summed_up == DeltaTable(bench.table.uri).version()
    assert not (log / f"{0:020}.json").exists()


def assert_no_file_is_missing(bench: FaultBench) -> None:
    """The folder of an Iceberg table has all files that a snapshot or the metadata names."""
    snapshot = bench.table.snapshot()
    assert isinstance(snapshot, IcebergSnapshot)
    assert snapshot.named_paths() <= {info.path for info in files_below(bench.table.files)}


def age(bench: FaultBench) -> Path:
    """Make the log old, and add an old file that it does not name; return that file."""
    folder = Path(bench.table.uri)
    file = next(folder.glob("arrival_date=*/*.parquet"))
    orphan = file.with_name(f"part-of-nobody-{file.name}")
    shutil.copy(file, orphan)
    long_ago = time.time() - timedelta(days=8).total_seconds()
    if FORMAT == "delta":
        DeltaTable(bench.table.uri).create_checkpoint()  # entries before an old one can be deleted
    for path in (orphan, *folder.glob("_delta_log/*")):
        os.utime(path, (long_ago, long_ago))
    return orphan


ADOPTION = ("after write positions", "before commit request", "after commit request")


@faults(*ADOPTION)
def test_a_restored_table_is_accepted_once_after_a_killed_adoption(bench: FaultBench, fault: Fault) -> None:
    begin(bench, 2)
    bench.restore(bench.version - 1)
    again(bench, "replay")
    kill(bench, fault, "adopt")
    committed = (fault.moment, fault.point) == ("after", "commit request")
    assert (bench.amendment is not None and bench.amendment.accepted is not None) == committed
    if not committed:
        again(bench, "adopt")
    bench.assert_next_run_recovers()


@faults(*ADOPTION, *(["after commit request 2"] if FORMAT == "iceberg" else []))
def test_a_table_of_another_program_is_adopted_once_after_a_killed_adoption(
    bench: FaultBench, tmp_path: Path, fault: Fault
) -> None:
    read = begin(bench)
    rows = bench.arrow()
    bench.table = raw_table(str(tmp_path / "copy" / "table"), bench.table.policy)
    Path(bench.table.uri).parent.mkdir()
    write(bench.table, rows)
    kill(bench, fault, "adopt")
    assert Counter(bench.stored) == Counter(read)
    if not bench.has_positions:
        again(bench, "adopt")
    assert bench.positions.adopted
    bench.assert_next_run_recovers()


@faults("before delete rows", "after delete rows")
def test_a_killed_retention_deletes_old_rows_together_with_its_floor(bench: FaultBench, fault: Fault) -> None:
    read = begin(bench)
    before = positions_file(bench)
    kill(bench, fault, "maintain", retention_days=10)
    taken = fault.moment == "after"
    assert Counter(bench.stored) == (Counter() if taken else Counter(read))
    assert (past_floor(bench) is not None) == taken
    assert positions_file(bench) == before
    again(bench, "maintain", retention_days=10)
    assert bench.stored == []
    assert past_floor(bench) is not None
    assert positions_file(bench) == before
    assert bench.run().errors == {}
    assert Counter(bench.stored) == Counter(bench.acknowledged[len(read) :])


@faults("after write positions", "before commit request", "after commit request")
def test_a_replay_adds_what_a_wrong_clock_expired_after_a_killed_lowering_of_the_floor(
    bench: FaultBench, fault: Fault
) -> None:
    read = begin(bench)
    before = positions_file(bench)
    again(bench, "maintain", retention_days=10)
    assert bench.stored == []
    kill(bench, fault, "lower floor")
    committed = (fault.moment, fault.point) == ("after", "commit request")
    assert (past_floor(bench) == LOWERED) == committed
    if not committed:
        again(bench, "lower floor")
    again(bench, "replay")
    assert Counter(bench.stored) == Counter(read)
    assert positions_file(bench) == before
    bench.assert_next_run_recovers()


def past_floor(bench: FaultBench) -> object:
    amendment = bench.table.snapshot().amendment(bench.positions.identity)
    return None if amendment is None else amendment.floor
