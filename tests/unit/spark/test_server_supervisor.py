"""The supervisor restarts a Spark server a bounded number of times. test_server.py uses a real server."""

from __future__ import annotations

import pytest

from kinesis_assets.errors import SparkServerFailed
from kinesis_assets.spark.packages import code_hash
from kinesis_assets.spark.server import MAX_RESTARTS, STABLE_SECONDS, Supervisor


class Server:
    """A server that a test can end, or make fail at each start."""

    def __init__(self):
        self.ended = False
        self.broken = False
        self.starts = 0

    def failed(self):
        return SparkServerFailed("the Spark server ended with status 1") if self.ended else None

    def stop(self):
        self.ended = False

    def start(self):
        self.starts += 1
        if self.broken:
            raise SparkServerFailed("the Spark server ended while it started")


@pytest.fixture
def server():
    return Server()


def test_a_running_server_is_not_restarted(server):
    Supervisor(server, print).check()
    assert server.starts == 0


def test_a_server_that_has_ended_is_restarted_with_a_message(server):
    messages = []
    supervisor = Supervisor(server, messages.append)
    server.ended = True
    supervisor.check()
    supervisor.check()
    assert server.starts == 1
    (message,) = messages
    assert "status 1" in message


def test_a_server_that_ends_after_each_start_is_not_restarted_indefinitely(server):
    supervisor = Supervisor(server, print)
    for _ in range(MAX_RESTARTS):
        server.ended = True
        supervisor.check()
    server.ended = True
    with pytest.raises(SparkServerFailed, match=rf"\bstatus 1\b.*\b{MAX_RESTARTS} restarts$"):
        supervisor.check()
    assert server.starts == MAX_RESTARTS


def test_a_server_that_fails_to_start_is_not_restarted_indefinitely(server):
    server.ended = server.broken = True
    with pytest.raises(SparkServerFailed, match="given up"):
        Supervisor(server, print).check()
    assert server.starts == MAX_RESTARTS


def test_a_server_that_ran_for_long_is_restarted_any_number_of_times(server):
    now = 0.0
    supervisor = Supervisor(server, print, lambda: now)
    for _ in range(2 * MAX_RESTARTS):
        now += STABLE_SECONDS
        server.ended = True
        supervisor.check()
    assert server.starts == 2 * MAX_RESTARTS


# The hash of the code


def test_the_code_hash_changes_if_a_module_changes_or_moves(tmp_path):
    for name in ("a.py", "package/b.py", "c.txt", "defs/d.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("one")
    hashes = [code_hash(tmp_path)]
    for name, content in {"package/b.py": "two", "e.py": "one"}.items():
        (tmp_path / name).write_text(content)
        hashes.append(code_hash(tmp_path))
    (tmp_path / "e.py").rename(tmp_path / "f.py")
    hashes.append(code_hash(tmp_path))
    assert len(set(hashes)) == len(hashes)


def test_the_code_hash_ignores_other_files(tmp_path):
    (tmp_path / "a.py").write_text("one")
    name = code_hash(tmp_path)
    (tmp_path / "defs").mkdir()
    for other in ("notes.txt", "defs/orders.py", "definitions.py"):
        (tmp_path / other).write_text("two")
    assert code_hash(tmp_path) == name
