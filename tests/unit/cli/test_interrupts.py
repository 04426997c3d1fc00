"""The processes that an interrupted command terminates. An integration test interrupts commands."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kinesis_assets.cli.interrupts import _parents

RENAMED = """if True:
    from pathlib import Path
    Path("/proc/self/comm").write_bytes(b"\\xff) ")
    print(flush=True)
    input()
"""


@pytest.mark.skipif(not Path("/proc/self/comm").exists(), reason="the system has no /proc")
def test_a_process_is_found_whatever_its_name():
    with subprocess.Popen(
        [sys.executable, "-c", RENAMED], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        process.stdout.readline()
        assert dict(_parents())[process.pid] == os.getpid()
        process.communicate(b"\n")
