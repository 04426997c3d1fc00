"""A run that follows, killed around a commit of its second round; the next one goes on."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest
from test_follow_rounds import A, Followed

RUN = """
import os, signal, sys
from kinesis_assets.follow import Follow
from kinesis_assets.kinesis.client import StreamClient
from kinesis_assets.kinesis.settings import ClientSettings
from kinesis_assets.pace import Pace
from kinesis_assets.plan import ReadPolicy
from kinesis_assets.spark.land import land_group
from kinesis_assets.table.delta import PositionedTable

stream, url, table, moment, shard_id = sys.argv[1:]
told = []

def die():
    os.kill(os.getpid(), signal.SIGKILL)

def land(job, ranges, allowance):
    landing = land_group(job, ranges, allowance)
    if told and landing.rows and moment == "before":
        die()
    return landing

def tell(result):
    told.append(result)
    if len(told) == 2:
        die()
    print("told", flush=True)

client = StreamClient(stream, ClientSettings("us-east-1", url))
Follow(land, client, PositionedTable(table), ReadPolicy(), Pace(60.0, 0.2), tell=tell).run([shard_id])
"""


@pytest.mark.parametrize("moment", ["before", "after"])
def test_the_next_run_leaves_each_record_once(bench, moment):
    bench.create()
    bench.put(1)
    arguments = [bench.stream, bench.settings.endpoint_url, bench.table.uri, moment, A]
    command = [sys.executable, "-c", RUN, *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as run:
        assert run.stdout.readline() == "told\n"
        bench.put(2, 3)
        assert run.wait(60) == -signal.SIGKILL
    assert bench.items == ([1] if moment == "before" else [1, 2, 3])
    bench.put(4)
    Followed(bench, last_round=1).run(A)
    assert bench.items == [1, 2, 3, 4]
