"""A real Flink job is stopped with a savepoint, which the example of docs/migration.md reads."""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from benchmarks.harness.waiting import SECONDS, wait_until
from support.java import class_path, compiled

SOURCES = Path(__file__).parent / "flink"
PAGE = (Path(__file__).parents[3] / "docs" / "migration.md").read_text()

OPENED = [
    f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in ("java.lang", "java.time", "java.util")
]
"""What Flink's own scripts open: it copies values of these packages by reflection."""


def job(folder: Path) -> str:
    """Compile the job with the example of the page, and return its class path."""
    (example,) = re.findall(r"^```java\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    assert '"s3://my-bucket/savepoints/1"' in example
    here = example.replace('"s3://my-bucket/savepoints/1"', "savepoint")
    source = (SOURCES / "Job.java").read_text()
    assert "// The example" in source
    (folder / "Job.java").write_text(source.replace("// The example", f"{here}\n// The example"))
    return compiled(folder / "Job.java", class_path(SOURCES, folder), folder)


@pytest.mark.thorough
def test_a_savepoint_and_the_table_have_each_record_once(hand_over, tmp_path):
    printed, log = tmp_path / "printed", tmp_path / "log"
    command = ["java", "-Xmx512m", *OPENED, "-cp", job(tmp_path), "Job"]
    command += [str(hand_over.bench.settings.endpoint_url), hand_over.bench.stream, f"{tmp_path}/savepoints"]
    with printed.open("wb") as output, log.open("wb") as errors:
        process = subprocess.Popen(
            command, env=hand_over.environment, stdin=subprocess.PIPE, stdout=output, stderr=errors
        )
        try:
            wait_until(lambda: printed.read_text().count("\n") >= 20, process, failure=log)
            process.communicate(timeout=SECONDS)
        finally:
            process.kill()
    assert process.returncode == 0, log.read_text()[-2000:]

    lines = printed.read_text().splitlines()
    read = [line.partition("record ")[2] for line in lines if "record " in line]
    positions = tmp_path / "positions-of-flink.json"
    positions.write_text("\n".join(line for line in lines if line.startswith("{")))
    landed = hand_over.landed("flink", positions)
    assert landed, "the job has read everything"
    assert Counter([*read, *landed]) == Counter(hand_over.items)
