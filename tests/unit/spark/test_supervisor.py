"""A server that has ended is started anew, until that is of no use; see test_server for a real one."""

from __future__ import annotations

import pytest

from kinesis_assets.errors import SparkServerFailed
from kinesis_assets.spark.code_version import code_hash
from kinesis_assets.spark.supervisor import MAX_RESTARTS, STABLE_SECONDS, Supervisor


class Server:
    """Ends when it is told to; comes up as long as it can."""

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


def test_a_server_that_runs_is_left_alone(server):
    Supervisor(server, print).check()
    assert server.starts == 0


def test_a_server_that_has_ended_is_started_and_that_is_said(server):
    said = []
    keeper = Supervisor(server, said.append)
    server.ended = True
    keeper.check()
    keeper.check()
    assert server.starts == 1
    assert said == ["the Spark server ended with status 1. Restarting it"]


def test_a_server_that_ends_after_each_start_is_given_up(server):
    keeper = Supervisor(server, print)
    for _ in range(MAX_RESTARTS):
        server.ended = True
        keeper.check()
    server.ended = True
    with pytest.raises(
        SparkServerFailed, match=f"^the .* ended with status 1; given up after {MAX_RESTARTS} restarts$"
    ):
        keeper.check()
    assert server.starts == MAX_RESTARTS


def test_a_server_that_does_not_come_up_any_more_is_given_up(server):
    server.ended = server.broken = True
    with pytest.raises(SparkServerFailed, match=r"ended while it started; given up"):
        Supervisor(server, print).check()
    assert server.starts == MAX_RESTARTS


def test_a_server_that_lasted_is_started_however_often(server):
    now = 0.0
    keeper = Supervisor(server, print, lambda: now)
    for _ in range(2 * MAX_RESTARTS):
        now += STABLE_SECONDS
        server.ended = True
        keeper.check()
    assert server.starts == 2 * MAX_RESTARTS


# Which code


def test_code_has_another_name_when_a_module_differs_or_moves(tmp_path):
    for name in ("a.py", "rooms/b.py", "c.txt", "defs/d.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("one")
    names = [code_hash(tmp_path)]
    for name, content in {"rooms/b.py": "two", "e.py": "one"}.items():
        (tmp_path / name).write_text(content)
        names.append(code_hash(tmp_path))
    (tmp_path / "e.py").rename(tmp_path / "f.py")
    names.append(code_hash(tmp_path))
    assert len(set(names)) == len(names)


def test_code_is_the_same_whatever_else_lies_beside_it(tmp_path):
    (tmp_path / "a.py").write_text("one")
    name = code_hash(tmp_path)
    (tmp_path / "defs").mkdir()
    for other in ("notes.txt", "defs/orders.py", "definitions.py"):
        (tmp_path / other).write_text("two")
    assert code_hash(tmp_path) == name
