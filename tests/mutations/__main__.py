"""Mutants of the modules that hold exactly once and no silent loss, and which of them the unit tests notice.

`python tests/mutations [MODULE...]` makes one small mistake at a time, in memory: no file is changed. Each
mutant is a fork of one process that has collected the tests. It executes those that call the function with
the mistake, first those that are named for the module, then the quickest, until one fails.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "kinesis_assets"
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from mutations.mutate import Mutant, mutants, mutate  # noqa: E402  # its folder is on the path only now

if TYPE_CHECKING:
    from types import FrameType

COMMITS = ["table/positions", "table/commits"]
TABLES = [
    *COMMITS,
    "table/test_ownership.py",
    "ingest/test_table_identity.py",
    "ingest/test_recreated_stream.py",
]
LOSSES = ["ingest/test_data_loss.py", "ingest/test_continuing_after_loss.py"]
TESTS = {
    "ingest/manifest.py": ["security", "ingest/test_manifest.py"],
    "ingest/plan.py": ["ingest", "kinesis/test_auto_distribution.py"],
    "ingest/run.py": ["ingest"],
    "ingest/shard_lists.py": ["ingest", "operations/adopt", "operations/seek"],
    "kinesis/data_loss.py": ["kinesis/reading", *LOSSES],
    "table/commits/commit.py": [*TABLES, "ingest/test_allowance.py", "operations/adopt"],
    "table/commits/commit_loop.py": TABLES,
    "table/positions/merge.py": COMMITS,
    "table/positions/positions.py": COMMITS,
    "table/positions/positions_chain.py": COMMITS,
    "table/positions/positions_file.py": COMMITS,
    "table/positions/range_stats.py": COMMITS,
    "derive/commit.py": ["derive"],
    "derive/cursor.py": ["derive"],
    "derive/new_rows.py": ["derive"],
    "derive/source.py": ["derive"],
}
"""By module, the unit tests that should notice its mutants."""

MOST = int(os.environ.get("MOST", "1000"))
"""The maximum number of mutants of a module. They are spread over it."""

SECONDS = 60.0
"""How much CPU time the tests of one mutant may take without the mistake. Those after them are left out."""

OPTIONS = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--hypothesis-profile=quick", "--timeout=120"]
LOCAL = ROOT / ".local" / "mutations"

Calls = dict[str, dict[str, float]]
"""By function, as file and line, the tests that call it and how much CPU time each takes."""


class Recorded:
    """A plugin of pytest that records which tests call which functions of the modules, and which fail."""

    def __init__(self, files: set[str]) -> None:
        self.calls: Calls = {}
        self.failed: list[str] = []
        self._files = files
        self._now: set[str] = set()

    def execute(self, items: list[pytest.Item], *, traced: bool) -> None:
        """Execute tests; unless they are traced, until one fails."""
        for item, following in zip(items, [*items, None][1:], strict=True):
            self._now, since = set(), time.process_time()
            trace = self._trace if traced else None
            threading.settrace(trace)
            sys.settrace(trace)
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            sys.settrace(None)
            for function in self._now:
                self.calls.setdefault(function, {})[item.nodeid] = time.process_time() - since
            if self.failed and not traced:
                return

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note that a test failed."""
        if report.failed:
            self.failed.append(report.nodeid)

    def _trace(self, frame: FrameType, event: str, arg: object) -> None:
        del event, arg
        code = frame.f_code
        if code.co_filename in self._files:
            self._now.add(f"{code.co_filename}:{code.co_firstlineno}")


class MutationRun:
    """A plugin of pytest that tests mutants instead of the modules as they are."""

    def __init__(self, paths: list[str]) -> None:
        self._paths = paths
        self._recorded = Recorded({str(PACKAGE / path) for path in paths})

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Test all mutants, and report them."""
        self._plugins = session.config.pluginmanager
        self._plugins.register(self._recorded)
        items = {item.nodeid: item for item in session.items}
        calls = self._calls(session.items)
        tested = killed = 0
        report(f"{'mutants':>8} {'killed':>8}")
        for path in self._paths:
            chosen = spread(mutants((PACKAGE / path).read_text()))
            survivors = self._survivors(calls, path, chosen, items)
            tested, killed = tested + len(chosen), killed + len(chosen) - len(survivors)
            report(f"{len(chosen):8} {len(chosen) - len(survivors):8}  {path}")
            for mutant in survivors:
                report(f"{'':19}line {mutant.line}: {mutant.text}")
        report(f"{tested:8} {killed:8}  in all")
        return True

    def _calls(self, items: list[pytest.Item]) -> Calls:
        """Execute the tests without a mistake, in a fork, and return which functions they call."""
        LOCAL.mkdir(parents=True, exist_ok=True)
        file = LOCAL / "calls.json"
        process = os.fork()
        if not process:
            self._recorded.execute(items, traced=True)
            file.write_text(json.dumps(self._recorded.calls))
            os._exit(len(self._recorded.failed))
        if os.waitpid(process, 0)[1]:
            pytest.exit("tests fail without a mistake", returncode=1)
        calls: Calls = json.loads(file.read_text())
        return calls

    def _survivors(
        self, calls: Calls, path: str, chosen: list[Mutant], items: dict[str, pytest.Item]
    ) -> list[Mutant]:
        """Return the mutants of a module that no test notices, each of which is tested in a fork."""
        running: dict[int, Mutant] = {}
        survivors: list[Mutant] = []

        def wait() -> None:
            process, status = os.wait()
            mutant = running.pop(process)
            if status == 0:
                survivors.append(mutant)

        for mutant in chosen:
            while len(running) >= (os.cpu_count() or 1):
                wait()
            tests = [items[each] for each in tests_of(calls, path, mutant)]
            process = os.fork()
            if not process:
                self._plugins.unregister(name="terminalreporter")
                mutate(PACKAGE / path, mutant)
                self._recorded.execute(tests, traced=False)
                os._exit(bool(self._recorded.failed))
            running[process] = mutant
        while running:
            wait()
        return sorted(survivors)


def report(line: str) -> None:
    """Print a line of the report."""
    print(line, flush=True)  # noqa: T201  # this is its purpose


def spread(found: list[Mutant]) -> list[Mutant]:
    """Return as many of a module's mutants as are tested."""
    step = max(1.0, len(found) / MOST)
    return [found[int(index * step)] for index in range(min(MOST, len(found)))]


def tests_of(calls: Calls, path: str, mutant: Mutant) -> list[str]:
    """Return the tests of a mutant: those that are named for the module, then the quickest."""
    named = Path("tests/unit", path).with_name(f"test_{Path(path).name}").as_posix()
    taken: list[str] = []
    total = 0.0
    for test, seconds in sorted(
        calls.get(f"{PACKAGE / path}:{mutant.function}", {}).items(),
        key=lambda each: (not each[0].startswith(f"{named}::"), each[1]),
    ):
        total += seconds
        if taken and total > SECONDS:
            break
        taken.append(test)
    return taken


if __name__ == "__main__":
    modules = sys.argv[1:] or list(TESTS)
    folders = sorted({folder for module in modules for folder in TESTS[module]})
    sys.exit(
        pytest.main([*OPTIONS, *(f"{ROOT}/tests/unit/{each}" for each in folders)], [MutationRun(modules)])
    )
