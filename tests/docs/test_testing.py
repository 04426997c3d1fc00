"""The Python blocks of docs/testing.md run, and its table of faults is complete."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import boto3

from benchmarks.harness.waiting import SECONDS
from kinesis_assets.kinesis.records.aggregation import MAGIC
from kinesis_assets.testing import Faults, LocalKinesis

PAGE = (Path(__file__).parents[2] / "docs" / "testing.md").read_text()
BLOCKS = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
FILES = {found[1]: block for block in BLOCKS if (found := re.match(r"# (\w+\.py)\n", block))}
LINES = [block for block in BLOCKS if block not in FILES.values()]


def test_the_documented_tests_pass(tmp_path: Path) -> None:
    assert list(FILES) == ["conftest.py", "test_orders.py", "test_producer.py", "test_shared_stream.py"]
    for name, block in FILES.items():
        (tmp_path / name).write_text(block)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "4 passed" in done.stdout


def test_the_documented_lines_run(environment: None) -> None:
    del environment
    faults = Faults()
    assert len(LINES) == 4
    with LocalKinesis() as local:
        kinesis = boto3.client("kinesis", endpoint_url=local.endpoint_url)
        names: dict[str, Any] = {"faults": faults, "kinesis": kinesis}
        for block in LINES:
            exec(block, names)  # noqa: S102  # the code of the page
        summary = kinesis.describe_stream_summary(StreamName="clicks")["StreamDescriptionSummary"]
    assert (summary["OpenShardCount"], summary["RecordDistributionStrategy"]) == (4, "AUTO")
    assert len(faults._faults) == 3
    assert [record["Data"] for record in names["event"]["Records"]] == [b"visit"]
    assert names["data"].startswith(MAGIC)


def test_every_fault_is_documented_with_its_arguments() -> None:
    rows = dict(re.findall(r"^\| `(\w+)\((.*?)\)` \|", PAGE, re.MULTILINE))
    not_faults = {"around", "clear", "count", "trim", "recreate", "enforce_limits", "slow_consumers"}
    public = {name for name, _ in inspect.getmembers(Faults, inspect.isfunction) if name[0] != "_"}
    assert rows.keys() == public - not_faults
    assert all(f"{name}(" in PAGE for name in not_faults - {"around"})
    for name, arguments in rows.items():
        given = {argument.partition("=")[0] for argument in arguments.split(", ") if argument}
        assert given <= inspect.signature(getattr(Faults, name)).parameters.keys()
