"""Named points before and after each call to the outside, and the fault that happens at one of them.

The package does not know the points: its functions are wrapped by name when their module is loaded, in every
process whose environment has `FAULT`. Each pass of a point is recorded in a file. At the chosen pass the
fault happens: once in all processes together, unless it is to happen always.
"""

from __future__ import annotations

import errno
import functools
import inspect
import json
import os
import signal
import sys
import threading
from collections import Counter
from dataclasses import asdict, dataclass
from importlib.abc import MetaPathFinder
from importlib.machinery import PathFinder
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType

ENVIRONMENT = "FAULT"

OF_FORMAT = {
    "delta": {
        "create table": ("kinesis_assets.table.delta.opening", "DeltaTable.create"),
        "commit request": ("kinesis_assets.table.delta.opening", "DeltaTable.create_write_transaction"),
    },
    "iceberg": {
        "create table": ("pyiceberg.catalog.sql", "SqlCatalog.create_table"),
        "write manifests": ("kinesis_assets.table.iceberg.manifests", "NewManifests.following"),
        "write manifest list": ("kinesis_assets.table.iceberg.manifests", "NewManifests.list_of"),
        "commit request": ("pyiceberg.catalog.sql", "SqlCatalog.commit_table"),
    },
    "s3tables": {
        "create table": ("pyiceberg.catalog.rest", "RestCatalog.create_table"),
        "write manifests": ("kinesis_assets.table.iceberg.manifests", "NewManifests.following"),
        "write manifest list": ("kinesis_assets.table.iceberg.manifests", "NewManifests.list_of"),
        "commit request": ("pyiceberg.catalog.rest", "RestCatalog.commit_table"),
    },
}
"""What the process that plans and commits passes to a table of each format, see `support.formats.FORMAT`."""

DRIVER = OF_FORMAT[os.environ.get("FORMAT", "delta")] | {
    # The plan.
    "describe stream": ("kinesis_assets.kinesis.client", "StreamClient.describe"),
    "list shards": ("kinesis_assets.kinesis.client", "StreamClient._listed"),
    "open table": ("kinesis_assets.table.raw_table", "PositionedTable.snapshot"),
    "read positions": ("kinesis_assets.table.snapshot", "TableSnapshot.positions_of"),
    "freeze": ("kinesis_assets.table.commits.commit", "freeze"),
    # The commit, which includes the freeze of the first plan.
    "commit": ("kinesis_assets.ingest.run", "commit"),
    "verify data file": ("kinesis_assets.table.commits.commit", "verify"),
    "try to commit": ("kinesis_assets.table.snapshot", "TableSnapshot.commit"),
    "open positions file": ("kinesis_assets.table.store.chain", "write_new"),
    "write positions": ("kinesis_assets.table.store.chain", "write_file"),
}
"""What the process that plans and commits passes: module, and the name in it."""

WORKER = {
    "shard iterator": ("kinesis_assets.kinesis.client", "StreamClient.getting_iterator"),
    "get records": ("kinesis_assets.kinesis.client", "StreamClient.getting_records"),
    "open data file": ("kinesis_assets.table.data_file_writer", "write_new"),
    "write data file": ("kinesis_assets.table.data_file_writer", "_OpenFile._write_row_group"),
    "close data file": ("kinesis_assets.table.data_file_writer", "_OpenFile._end"),
    "land": ("kinesis_assets.ingest.task", "land_group"),
}
"""What a task passes: in Spark's Python worker, or in the one process of a run without Spark."""

FAN_OUT = {
    "subscribe": ("kinesis_assets.kinesis.client", "StreamClient.subscribing"),
    "receive events": ("kinesis_assets.kinesis.reading.subscription_events", "ShardEvents.receive"),
}
"""What only a run with a consumer passes."""

DAGSTER = {
    "store event": ("dagster._core.storage.event_log.sql_event_log", "SqlEventLogStorage.store_event"),
}
"""What only a run of Dagster passes. Only events about shards count."""

OPERATIONS_OF_FORMAT = {
    "delta": {
        # The rows that a seek backwards or the table's retention deletes.
        "delete rows": ("kinesis_assets.table.delta.opening", "DeltaTable.delete"),
        # Maintenance, in order. It claims the table by a property before it compacts and before it vacuums.
        "set properties": ("deltalake.table", "TableAlterer.set_table_properties"),
        "compact": ("deltalake.table", "TableOptimizer.compact"),
        "vacuum": ("kinesis_assets.table.delta.opening", "DeltaTable.vacuum"),
        "checkpoint": ("kinesis_assets.table.delta.opening", "DeltaTable.create_checkpoint"),
        "delete old log": ("kinesis_assets.table.delta.opening", "DeltaTable.cleanup_metadata"),
    },
    "iceberg": {
        "delete rows": ("kinesis_assets.table.iceberg.raw_table", "IcebergSnapshot._delete"),
        # Maintenance, in order. It commits without rows before it vacuums.
        "merge files": ("kinesis_assets.table.maintenance.iceberg_steps", "merge"),
        "replace files": ("kinesis_assets.table.iceberg.raw_table", "IcebergSnapshot.replace_files"),
        "add nothing": ("kinesis_assets.table.iceberg.raw_table", "IcebergSnapshot.add_nothing"),
    },
}

OPERATIONS = OPERATIONS_OF_FORMAT.get(os.environ.get("FORMAT", "delta"), {}) | {
    "prune a file": ("support.named_files", "NamedFiles.delete_file"),
}
"""What a replay, a seek or a maintenance passes beside what a run passes too. The vacuum of an Iceberg table
prunes its files too."""

DERIVE = {
    "open derived file": ("kinesis_assets.derive.data_files", "write_new"),
    "write derived file": ("kinesis_assets.derive.data_files", "_OpenFile.write_pending"),
    "close derived file": ("kinesis_assets.derive.data_files", "_OpenFile.close"),
    "record copies": ("kinesis_assets.derive.type_widening", "write_file"),
}
"""What a task passes that writes files of a derived table, and the driver while it widens types.
`chaos/derived/kill.py` has the driver's other steps."""

POINTS = DRIVER | WORKER | FAN_OUT | DAGSTER | OPERATIONS | DERIVE
MOMENTS = ("before", "after")


@dataclass(frozen=True)
class Fault:
    """A fault at a point.

    Attributes:
        folder: The folder in which passes are recorded.
        point: A name in `POINTS`, or empty for no fault.
        moment: Before or after the point.
        nth: The pass of the process, from 1.
        action: `kill`, `kill JVM`, `stop`, or the name of an error number such as `ENOSPC`.
        always: Whether the fault happens at each pass from that one on.
        since: Passes count once a file of this name is in the folder; empty to count from the beginning.
    """

    folder: str
    point: str = ""
    moment: str = "before"
    nth: int = 1
    action: str = "kill"
    always: bool = False
    since: str = ""

    def __str__(self) -> str:
        return f"{self.action} {self.moment} {self.point} {self.nth}"

    def environment(self) -> dict[str, str]:
        """The environment variables for a process and its children."""
        here = Path(__file__).parent
        # The package too: a run in a copy of the project uses the package of that copy.
        path = [str(here), str(here.parents[2]), str(here.parents[3])]
        return {ENVIRONMENT: json.dumps(asdict(self)), "PYTHONPATH": os.pathsep.join(path)}

    @property
    def passed(self) -> list[tuple[int, str, str]]:
        """The process id, moment and point of each pass so far."""
        notes = self._notes.read_text().splitlines() if self._notes.exists() else []
        return [(int(pid), moment, point) for pid, moment, point in (line.split(" ", 2) for line in notes)]

    @property
    def happened(self) -> bool:
        """Whether the fault has happened."""
        return self._claim.exists()

    @property
    def is_due(self) -> bool:
        """Whether passes count yet."""
        return not self.since or Path(self.folder, self.since).exists()

    @property
    def _notes(self) -> Path:
        return Path(self.folder, "passed")

    @property
    def _claim(self) -> Path:
        return Path(self.folder, "happened")

    def note(self, moment: str, point: str) -> None:
        """Record a pass atomically, because other processes do so too."""
        file = os.open(self._notes, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(file, f"{os.getpid()} {moment} {point}\n".encode())
        os.close(file)

    def happen(self) -> None:
        """Make the fault happen if it has not happened yet."""
        try:
            self._claim.touch(exist_ok=self.always)
        except FileExistsError:
            return
        if self.action == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        elif self.action == "stop":
            os.kill(os.getpid(), signal.SIGSTOP)
        elif self.action == "kill JVM":
            os.kill(_jvm(), signal.SIGKILL)
        else:
            number = getattr(errno, self.action)
            raise OSError(number, os.strerror(number))


class _Points:
    """Wraps the points of this process. Its environment names the fault when the first one is passed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._passes: Counter[tuple[str, str]] = Counter()

    @functools.cached_property
    def _fault(self) -> Fault:
        return Fault(**json.loads(os.environ[ENVIRONMENT]))

    def wrap(self, module: ModuleType) -> None:
        for point, (name, path) in POINTS.items():
            if name == module.__name__:
                owner, _, attribute = path.rpartition(".")
                place = attrgetter(owner)(module) if owner else module
                setattr(place, attribute, self._around(point, getattr(place, attribute)))

    def _around(self, point: str, call: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(call)
        def around(*arguments: Any, **named: Any) -> Any:
            if point == "store event" and not _is_about_a_shard(arguments[1]):
                return call(*arguments, **named)
            self._pass("before", point)
            answer = call(*arguments, **named)
            self._pass("after", point)
            return answer

        @functools.wraps(call)
        async def around_coroutine(*arguments: Any, **named: Any) -> Any:
            self._pass("before", point)
            answer = await call(*arguments, **named)
            self._pass("after", point)
            return answer

        return around_coroutine if inspect.iscoroutinefunction(call) else around

    def _pass(self, moment: str, point: str) -> None:
        fault = self._fault
        fault.note(moment, point)
        if (moment, point) != (fault.moment, fault.point) or not fault.is_due:
            return
        with self._lock:
            self._passes[moment, point] += 1
            passes = self._passes[moment, point]
        if passes == fault.nth or (fault.always and passes > fault.nth):
            fault.happen()


class _Finder(MetaPathFinder):
    """Wraps the points of a module as soon as it is loaded."""

    def __init__(self, points: _Points) -> None:
        self._points = points
        self._modules = {name for name, _ in POINTS.values()}

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname not in self._modules:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        assert spec is not None
        assert spec.loader is not None
        load = spec.loader.exec_module

        def load_and_wrap(module: ModuleType) -> None:
            load(module)
            self._points.wrap(module)

        spec.loader.exec_module = load_and_wrap  # type: ignore[method-assign]
        return spec


def install() -> None:
    """Wrap the points of this process if its environment has a fault."""
    if ENVIRONMENT in os.environ:
        sys.meta_path.insert(0, _Finder(_Points()))


def _is_about_a_shard(entry: Any) -> bool:
    event = entry.dagster_event
    return event is not None and event.event_type_value == "ASSET_MATERIALIZATION"


def _jvm() -> int:
    """Return the process of Spark's JVM: a child of the driver, or an ancestor of a Python worker."""
    parents, names = {}, {}
    for process in Path("/proc").glob("[0-9]*"):
        try:
            text = (process / "stat").read_text()
        except (FileNotFoundError, ProcessLookupError):
            continue  # the process has ended
        name, _, rest = text.partition("(")[2].rpartition(")")
        parents[int(process.name)], names[int(process.name)] = int(rest.split()[1]), name
    pid = os.getpid()
    for child, parent in parents.items():
        if parent == pid and names[child] == "java":
            return child
    while names[pid] != "java":
        pid = parents[pid]
    return pid
