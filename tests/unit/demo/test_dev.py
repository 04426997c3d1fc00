"""The supervision of Spark by `dev`. tests/deployments/test_dev.py tests the command."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys

import pytest

from benchmarks.harness.waiting import wait_until
from kinesis_assets.demo import dev
from kinesis_assets.errors import InvalidInput, SparkServerFailed


class Supervisor:
    """Counts its checks, and fails from a given number on."""

    def __init__(self, most=1000):
        self.polls = 0
        self._most = most

    def check(self):
        self.polls += 1
        if self.polls > self._most:
            raise SparkServerFailed("given up")


@pytest.fixture
def dagster():
    """Something that runs until its standard input ends, for 20 s at most, and exits 3."""
    code = "import select, sys; select.select([sys.stdin], [], [], 20); sys.exit(3)"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE) as process:
        yield process


def test_spark_is_supervised_until_dagster_has_ended(dagster):
    class Ending(Supervisor):
        def check(self):
            super().check()
            if self.polls == 5:
                dagster.stdin.close()

    keeper = Ending()
    assert dev._wait_for_dagster(dagster, keeper, check_interval=0.01) == 3
    assert keeper.polls >= 5


def test_dev_ends_if_spark_cannot_be_restarted(dagster):
    with pytest.raises(SparkServerFailed, match="given up"):
        dev._wait_for_dagster(dagster, Supervisor(most=2), check_interval=0.01)


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A project on a machine with Java. The signal handlers that `dev` sets are reset."""
    monkeypatch.setattr(dev, "require_java", lambda: None)
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield tmp_path
    for number, handler in before.items():
        signal.signal(number, handler)


HOLDER = """if True:
    import sys
    from pathlib import Path
    from kinesis_assets.demo.dev import _only_one
    with _only_one(Path(sys.argv[1])):
        print(flush=True)
        input()
"""


def test_a_second_environment_of_a_project_is_refused_and_deletes_nothing(project):
    folder = project / ".local" / "dev"
    kept = folder / "orders" / "row"
    kept.parent.mkdir(parents=True)
    kept.touch()
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", HOLDER, folder], **pipes) as first:
        assert first.stdout.readline()
        with pytest.raises(InvalidInput, match=r"already running in .*; stop it"):
            dev.run_dev(project, port=0)
        assert kept.exists()
        first.kill()
    with dev._only_one(folder):
        assert kept.exists()


@pytest.mark.slow
def test_a_run_that_does_not_stop_with_dagster_is_killed():
    """The run ignores the interrupt, and would end with the standard input that the test closes at last."""
    run = """if True:
        import signal, sys
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        print("ready", flush=True)
        sys.stdin.read()
    """
    code = f"""if True:
        import signal, subprocess, sys
        signal.signal(signal.SIGINT, lambda *_: sys.exit())
        run = subprocess.Popen([sys.executable, "-c", {run!r}], stdout=subprocess.PIPE)
        run.stdout.readline()
        print(run.pid, flush=True)
        signal.pause()
    """
    command = [sys.executable, "-c", code]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, **pipes, start_new_session=True) as dagster:
        left = os.pidfd_open(int(dagster.stdout.readline()))
        try:
            dev._stop(dagster)
            assert dagster.returncode == 0
            wait_until(lambda: select.select([left], [], [], 0)[0], failure="the run is left")
        finally:
            os.close(left)
