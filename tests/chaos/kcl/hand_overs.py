"""A stream that is handed over between the Kinesis Client Library and tables of this package, and back.

Records, most of them aggregates, are put all the time, and shards are split and merged.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections import Counter
from dataclasses import replace
from itertools import count
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.harness.waiting import wait_until
from chaos.kcl.application import FAILOVER_SECONDS
from kinesis_assets.table.raw_table import PositionedTable
from kinesis_assets.testing import UserRecord, aggregate
from support.bench import Bench
from support.stream_calls import HASH_KEYS
from support.timing import READING, WRITING

if TYPE_CHECKING:
    from random import Random

    from chaos.kcl.application import Application
    from kinesis_assets.kinesis.settings import ClientSettings
    from kinesis_assets.kinesis.stream import Shard

SCRIPT = Path(sys.prefix, "bin", "kinesis-assets")
OPEN_SHARDS = range(3, 7)
SIZES = (1, *range(2, 7), *range(2, 7))
"""How many user records a record has."""
PUTS_OF_A_CALL, SECONDS_BETWEEN_CALLS = 2, 0.3


class HandOvers:
    """A stream of four shards, and everything that reads it.

    Attributes:
        tables: The tables, one for each time that the stream was handed over to one.
        contents: The numbers in each record that was put, by shard id and sequence number.
        reshards: The number of splits and merges.
        refusal: What was printed as the stream was imported while the application was running.
        inside: How many shards were handed over inside an aggregate, by command.
        stored: The checkpoint of each shard, for each import.
    """

    def __init__(
        self,
        kinesis: Any,
        settings: ClientSettings,
        application: Application,
        dynamodb: str,
        folder: Path,
        dice: Random,
    ) -> None:
        self.application, self.folder = application, folder
        self.tables: list[PositionedTable] = []
        self.contents: dict[tuple[str, int], list[int]] = {}
        self.reshards: Counter[str] = Counter()
        self.refusal = ""
        self.inside: Counter[str] = Counter()
        self.stored: list[dict[str, str | None]] = []
        self._dice, self._dynamodb = dice, dynamodb
        settings = replace(settings, timing=READING)
        self._bench = Bench(kinesis, settings, application.name, self._table(0))
        self._items = count()
        self._stopped = threading.Event()
        self._producer = threading.Thread(target=self._produce, daemon=True)

    def run(self, hand_overs: int) -> None:
        """Hand the stream over from the application and back. At last, let the application read the rest."""
        self._bench.create(4)
        self._producer.start()
        try:
            for turn in range(hand_overs):
                self._read_with_the_application(turn)
                self._read_with_the_package(turn)
            self.application.start(self.folder, "last")
            self.application.wait(lambda: self.application.processed() >= 20)
        finally:
            self._stopped.set()
            self._producer.join()
        # The last records of all open shards, before which the application reads all others.
        last = self._put(*(int(shard.hash_range[0]) for shard in self._open_shards()))
        self.application.wait(lambda: last <= self.processed()[-1])
        self.application.stop()

    def landed(self) -> list[list[int]]:
        """The numbers in each table."""
        return [replace(self._bench, table=table).items for table in self.tables]

    def processed(self) -> list[set[int]]:
        """The numbers that each worker has processed."""
        workers = self.application.readings()
        return [{record.item for reading in worker for record in reading.records} for worker in workers]

    def checked(self) -> list[set[int]]:
        """Those of them up to the checkpoints that were imported; all of the last worker."""
        *workers, _ = self.application.readings()
        before = [
            {
                record.item
                for reading in worker
                for record in reading.records
                if record[:2] <= _place(stored.get(reading.shard_id))
            }
            for worker, stored in zip(workers, self.stored, strict=True)
        ]
        return [*before, self.processed()[-1]]

    def put(self) -> int:
        """How many numbers were put."""
        return sum(map(len, list(self.contents.values())))

    def _read_with_the_application(self, turn: int) -> None:
        self.application.start(self.folder, "last" if turn % 4 == 3 else "earlier")
        self.application.wait(lambda: self.application.processed() >= 20)
        if turn == 0:
            self.refusal = self._leases("import", failover_seconds=2 * FAILOVER_SECONDS, code=1).stderr
        self._reshard()
        enough = self.application.processed() + self._dice.randint(1, 60)
        self.application.wait(lambda: self.application.processed() >= enough)
        if turn % 2:
            self.application.kill()
        else:
            self.application.stop()

    def _read_with_the_package(self, turn: int) -> None:
        self._bench = replace(self._bench, table=self._table(turn))
        self.tables.append(self._bench.table)
        self.stored.append(self._count_inside("import", "stored", self._leases("import").stdout))
        for _ in range(self._dice.randint(1, 3)):
            self._reshard()
            self._run(max_records=self._dice.randint(5, 50))
        self._run(max_records=3)  # leaves some unread, also of an aggregate
        self._command("pause", "--reason", "the application goes on")
        self._count_inside("export", "checkpoint", self._leases("export").stdout)

    def _run(self, max_records: int) -> None:
        """Let a run read some records of each shard, after more were put."""
        enough = self.put() + 40
        wait_until(lambda: self.put() >= enough)
        self._bench.run(max_records=max_records)

    def _table(self, turn: int) -> PositionedTable:
        return PositionedTable(str(self.folder / f"table-{turn}"), WRITING)

    def _leases(
        self, command: str, *, failover_seconds: float = 0.1, code: int = 0
    ) -> subprocess.CompletedProcess[str]:
        """Import into the table, or export from it. By default, nobody else is alive."""
        options = ["--lease-table", self.application.name, "--lease-endpoint-url", self._dynamodb]
        options += ["--failover-time", str(failover_seconds), "--apply", "--json"]
        return self._command("leases", command, *options, code=code)

    def _command(self, *words: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        """Run a command on the stream and the table, which must exit with a code."""
        bench = self._bench
        options = ["--stream", bench.stream, "--table", bench.table.uri]
        options += ["--endpoint-url", str(bench.settings.endpoint_url)]
        done = subprocess.run([SCRIPT, *words, *options], capture_output=True, text=True, check=False)
        assert done.returncode == code, done.stdout + done.stderr
        return done

    def _count_inside(self, command: str, column: str, printed: str) -> dict[str, str | None]:
        """Count the shards that are handed over inside an aggregate, and return the checkpoints of all."""
        checkpoints = {}
        for line in printed.splitlines():
            row = json.loads(line)
            checkpoints[row["shard"]] = row[column]
            number, colon, sub = str(row[column]).partition(":")
            if colon and int(sub) < len(self.contents[row["shard"], int(number)]) - 1:
                self.inside[command] += 1
        return checkpoints

    def _produce(self) -> None:
        while not self._stopped.wait(SECONDS_BETWEEN_CALLS):
            self._put(*(self._dice.randrange(HASH_KEYS) for _ in range(PUTS_OF_A_CALL)))

    def _put(self, *keys: int) -> set[int]:
        """Put a record for each hash key, most of them aggregates, and return the numbers in them."""
        contents = [[next(self._items) for _ in range(self._dice.choice(SIZES))] for _ in keys]
        entries = []
        for key, items in zip(map(str, keys), contents, strict=True):
            user_records = [UserRecord("k", str(item).encode(), key) for item in items]
            data = aggregate(user_records) if len(items) > 1 else user_records[0].data
            entries.append({"Data": data, "PartitionKey": "k", "ExplicitHashKey": key})
        response = self._bench.kinesis.put_records(StreamName=self._bench.stream, Records=entries)
        for record, items in zip(response["Records"], contents, strict=True):
            self.contents[record["ShardId"], int(record["SequenceNumber"])] = items
        return {item for items in contents for item in items}

    def _open_shards(self) -> list[Shard]:
        """Return the open shards in the order of their hash keys."""
        shards = [shard for shard in self._bench.client.list_shards() if not shard.closed]
        return sorted(shards, key=lambda shard: int(shard.hash_range[0]))

    def _reshard(self) -> None:
        """Split the widest shard, or merge two neighbours."""
        shards = self._open_shards()
        if len(shards) == OPEN_SHARDS[0] or (len(shards) < OPEN_SHARDS[-1] and self._dice.random() < 0.5):
            widest = max(shards, key=lambda each: int(each.hash_range[1]) - int(each.hash_range[0]))
            self._bench.split(widest.shard_id)
            self.reshards["split"] += 1
        else:
            first = self._dice.randrange(len(shards) - 1)
            self._bench.merge(shards[first].shard_id, shards[first + 1].shard_id)
            self.reshards["merge"] += 1


def _place(checkpoint: str | None) -> tuple[float, int]:
    """Return a value to compare with the numbers of a record. A finished shard may have no lease any more."""
    if checkpoint in {None, "SHARD_END"}:
        return (inf, 0)
    number, _, sub = str(checkpoint).partition(":")
    return (int(number), int(sub)) if number.isdigit() else (-1, 0)
