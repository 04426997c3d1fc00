"""The application in `Application.java`, which uses the Kinesis Client Library (KCL), and its output."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, NamedTuple

from benchmarks.harness.waiting import SECONDS, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

RECORDS_OF_A_BATCH = 8
FAILOVER_SECONDS = 5


class UserRecord(NamedTuple):
    """A user record that the application has processed."""

    number: int
    sub: int
    item: int


@dataclass
class Reading:
    """What the application has read of a shard from one start on.

    Attributes:
        start: The checkpoint after which it started.
        unchecked: The records after its last checkpoint.
    """

    shard_id: str
    start: str
    records: list[UserRecord] = field(default_factory=list)
    unchecked: list[UserRecord] = field(default_factory=list)

    def checkpoint(self, number: int, sub: int) -> None:
        self.unchecked = [each for each in self.unchecked if each[:2] > (number, sub)]


def readings_of(printed: str) -> list[Reading]:
    """Return what an application has read by what it has printed, whose last line may be incomplete."""
    found: list[Reading] = []
    last: dict[str, Reading] = {}
    for line in printed[: printed.rfind("\n") + 1].splitlines():
        event, *words = line.split()
        if event == "begin":
            shard_id, number, sub = words
            start = f"{number}:{sub}" if number.isdigit() else number
            found.append(Reading(shard_id, start))
            last[shard_id] = found[-1]
        elif event == "record":
            shard_id, number, sub, item = words
            record = UserRecord(int(number), int(sub), int(item))
            last[shard_id].records.append(record)
            last[shard_id].unchecked.append(record)
        elif event == "checkpoint":
            shard_id, number, sub = words
            last[shard_id].checkpoint(int(number), int(sub))
        elif event == "end":
            last[words[0]].unchecked.clear()
    return found


class Application:
    """The application, whose workers run one after the other.

    Attributes:
        name: Its name, which is that of its lease table.
    """

    def __init__(
        self,
        name: str,
        stream: str,
        endpoints: tuple[str, str],
        class_path: str,
        environment: Mapping[str, str],
    ) -> None:
        self.name = name
        self._stream, self._endpoints = stream, endpoints
        self._class_path, self._environment = class_path, environment
        self._process: subprocess.Popen[bytes] | None = None
        self._workers = count()
        self._printed: list[Path] = []

    def start(self, folder: Path, checkpoint_at: str) -> None:
        """Start a worker.

        Args:
            folder: The folder of what it prints.
            checkpoint_at: Which record of a batch it writes a checkpoint at: the "last" one, or an "earlier".
        """
        worker = f"worker-{next(self._workers)}"
        self._printed.append(folder / worker)
        command = ["java", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        command += [
            "-Daws.cborEnabled=false",
            "-Dslf4j.internal.verbosity=ERROR",
            "-cp",
            self._class_path,
            "Application",
            *self._endpoints,
        ]
        command += [self._stream, self.name, worker, str(RECORDS_OF_A_BATCH)]
        command += [str(FAILOVER_SECONDS * 1000), checkpoint_at]
        with self._printed[-1].open("wb") as printed:
            self._process = subprocess.Popen(
                command, env=self._environment, stdin=subprocess.PIPE, stdout=printed
            )

    def wait(self, condition: Callable[[], object]) -> None:
        """Wait until a condition is true while the worker runs."""
        wait_until(condition, self._process, failure=self._printed[-1])

    def stop(self) -> None:
        """Stop the worker gracefully."""
        assert self._process is not None
        self._process.communicate(timeout=SECONDS)
        assert self._process.returncode == 0

    def kill(self) -> None:
        """Kill the worker, if it runs."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate(timeout=SECONDS)

    def readings(self) -> list[list[Reading]]:
        """What each worker has read."""
        return [readings_of(path.read_text()) for path in self._printed]

    def processed(self) -> int:
        """How many records the running worker has processed."""
        return sum(len(reading.records) for reading in readings_of(self._printed[-1].read_text()))
