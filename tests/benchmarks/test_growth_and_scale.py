"""What the curves, the profile and the reader of a followed table tell is what there is."""

from __future__ import annotations

import threading
import time
from collections import Counter

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from benchmarks.data.grown_table import grown_table, seconds_of_commit
from benchmarks.harness import charts
from benchmarks.harness.cpu_profile import hottest, sampled
from benchmarks.harness.measure import Spread, of_rounds
from benchmarks.harness.section import Goal, Target
from benchmarks.harness.single_process import unpaced, whole_run
from benchmarks.sections import follow, memory
from benchmarks.sections.contention import standing
from benchmarks.sections.follow import Freshness, _Seen
from benchmarks.sections.growth import Place, measured
from benchmarks.sections.scale import DONE, PLANNED, Idle, Rates, Tick, Whole, empty_calls, targets
from benchmarks.servers.replay_client import replay_server
from benchmarks.servers.replay_streams import StreamSpec
from kinesis_assets.kinesis.reading import call_pacing

CALLS = {"GetShardIterator": 1000, "GetRecords": 1000, "ListShards": 2}


@pytest.mark.parametrize("power", [0, 1, 2, -0.5])
def test_exponent_is_the_power_by_which_something_grows(power):
    points = [(x, 7 * x**power) for x in (1.0, 10.0, 100.0, 1000.0)]
    assert charts.exponent(points) == pytest.approx(power)


def test_same_curves_give_the_same_file_byte_by_byte(tmp_path, monkeypatch):
    monkeypatch.setattr(charts, "CHARTS", tmp_path)
    files = []
    for _ in range(2):
        path, exponents = charts.growth("curve", "shards", "seconds", {"all": [(1, 1), (10, 100)]})
        files.append(path.read_bytes())
    assert files[0] == files[1]
    assert b"matplotlib" not in files[0].lower()  # nor is its version in it
    assert exponents == {"all": pytest.approx(2)}


def test_pace_is_lifted_within_the_block_alone():
    paced = (call_pacing.SECONDS_BETWEEN_CALLS, call_pacing.BYTES_PER_SECOND)
    with unpaced():
        assert call_pacing.SECONDS_BETWEEN_CALLS == 0
    assert paced == (call_pacing.SECONDS_BETWEEN_CALLS, call_pacing.BYTES_PER_SECOND)


@pytest.mark.usefixtures("environment")
def test_each_way_to_call_makes_as_many_calls(monkeypatch):
    monkeypatch.setattr(empty_calls, "CALLS", 7)
    with replay_server() as server:
        spent = empty_calls.cpu_of_empty_calls(server, rounds=2)
        assert server.calls()["GetRecords"] == 3 * (1 + 2) * 7
    assert list(spent) == [empty_calls.DIRECT, empty_calls.SESSION, empty_calls.SDK]


@pytest.mark.usefixtures("environment")
def test_each_place_of_a_curve_is_a_run_over_its_own_stream():
    places = [Place(shards, StreamSpec(f"s{shards}", shards, 1, 10)) for shards in (1, 3)]
    with unpaced(), replay_server() as server:
        points = measured(server, places, whole_run, lambda once, _: once.rows, rounds=1)
    assert points == [(1, Spread(10, 10, 10)), (3, Spread(30, 30, 30))]


def test_figure_is_told_with_its_spread_only_where_rounds_differ():
    assert Spread.of([31_704.4]).text(0) == "31,704"
    assert Spread.of([0.11, 0.12, 0.13]).text() == "0.1"
    assert Spread.of([3.0, 1.0, 2.0]).text() == "2.0 (1.0 to 3.0)"
    assert of_rounds(1) == "One round"
    assert of_rounds(5) == "Median of 5 rounds, with the lowest and the highest"


def test_grown_table_has_so_many_files_and_can_be_committed_to():
    with grown_table(12) as table:
        assert len(table.snapshot().active_files()) == 12
        before = standing(table).commit_id
        seconds_of_commit(table, times=1)
        assert standing(table).commit_id != before


def test_profile_tells_the_thread_that_computes_and_not_the_one_that_waits():
    over = threading.Event()

    def compute():
        end = time.thread_time() + 1.0
        while time.thread_time() < end:
            sum(range(1000))
        over.set()

    def work():
        threads = [threading.Thread(target=compute), threading.Thread(target=over.wait)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    _, spent = sampled(work)
    (hot, share), *_ = hottest(spent)
    assert "test_growth_and_scale" in hot
    assert share > 0.8
    assert 0.6 < sum(spent.values()) < 1.4  # before its first sample and after its last none is seen


def test_reader_of_a_followed_table_tells_a_record_that_is_there_twice(tmp_path):
    rows = pa.table({"data": [b"7"]})
    seen = _Seen(tmp_path)
    assert not seen.look()
    write_deltalake(tmp_path, rows)
    assert seen.look()
    assert seen.rows.keys() == {7}
    write_deltalake(tmp_path, rows, mode="append")
    with pytest.raises(RuntimeError, match="record 7 is in the table twice"):
        seen.look()


@pytest.mark.parametrize(("p95", "met"), [([1.0, 2.0, 4.0], True), ([1.0, 4.0, 5.0], False)])
def test_freshness_is_met_by_the_median_round_and_the_slowest_record_is_of_all(p95, met):
    rounds = [[0.5] * 90 + [each] * 9 + [each + 1] for each in p95]
    section = follow.told([Freshness(seconds, commits=60, window=60.0, cpu=15.0) for seconds in rounds])
    told = f"{p95[1]:.2f} ({p95[0]:.2f} to {p95[2]:.2f}) s"
    assert section.targets == [Target(Goal.FRESHNESS, told, met)]
    assert f"| put to row, slowest of all | {p95[2] + 1:.2f} s |" in section.markdown
    assert "; each has a run of its own. 300 records in all." in section.markdown


@pytest.mark.parametrize(("highest", "met"), [(512, True), (513, False)])
def test_memory_is_told_by_the_median_and_met_by_the_highest(highest, met):
    case = {"name": "records", "shards": 64, "rows": 640, "mib": 64.0}
    section = memory.told([[case | {"peak_mib": peak}] for peak in (150.0, highest, 100.0)])
    (target,) = section.targets
    assert (target.goal, target.met) == (Goal.PEAK_MEMORY, met)
    assert f"| records | 64 | 640 | 64 | 150 (100 to {highest}) |" in section.markdown


def _met(**changed):
    """Which goals of a thousand shards are met in three rounds, with some of the figures changed."""
    even = Spread(70_000, 65_000, 75_000)
    figures = {
        "cpu_ms": 4.0,
        "calls": CALLS,
        "seconds": [30.0] * 3,
        "commits": [1] * 3,
        "files": [8] * 3,
        "tick": [2.0] * 3,
        "few": even,
        "many": even,
    } | changed
    idle = Idle(Spread.of([figures["cpu_ms"]]), Spread.of([2.0]), figures["calls"])
    phases = {PLANNED: 5.0, DONE: 6.0}
    wholes = [
        Whole(seconds, 1_000_000, commits, Counter({"2026-11-20": 1, "2026-11-21": files}), phases)
        for seconds, commits, files in zip(
            figures["seconds"], figures["commits"], figures["files"], strict=True
        )
    ]
    ticks = [[Tick("new", 1.0, 1.0, 0, 0), Tick("then", seconds, 0.0, 0, 0)] for seconds in figures["tick"]]
    slow = Spread(20_000, 20_000, 20_000)
    rates = [
        Rates(shards, 100, paced, slow if paced else rate, 64_000.0, 20.0, 1.0, 0.1)
        for shards, rate in ((64, figures["few"]), (256, figures["many"]))
        for paced in (False, True)
    ]
    return {target.goal for target in targets(idle, wholes, ticks, rates) if target.met}


GOALS = {
    Goal.SMALL_PAGES,
    Goal.SMALL_PAGES_256,
    Goal.IDLE_SHARD_CPU,
    Goal.IDLE_SHARD_CALLS,
    Goal.THOUSAND_SHARDS,
    Goal.SENSOR_TICK,
}


@pytest.mark.parametrize(
    ("changed", "missed"),
    [
        ({}, set()),
        ({"cpu_ms": 5.1}, {Goal.IDLE_SHARD_CPU}),
        ({"calls": CALLS | {"GetRecords": 2001}}, {Goal.IDLE_SHARD_CALLS}),
        ({"seconds": [30.0, 41.0, 41.0]}, {Goal.THOUSAND_SHARDS}),
        ({"seconds": [30.0, 30.0, 41.0]}, set()),
        ({"commits": [1, 2, 1]}, {Goal.THOUSAND_SHARDS}),
        ({"commits": [1, 0, 1]}, {Goal.THOUSAND_SHARDS}),
        ({"files": [8, 8, 9]}, {Goal.THOUSAND_SHARDS}),
        ({"tick": [2.0, 8.1, 8.1]}, {Goal.SENSOR_TICK}),
        ({"tick": [2.0, 2.0, 8.1]}, set()),
        ({"few": Spread(59_000, 58_000, 61_000)}, {Goal.SMALL_PAGES}),
        ({"many": Spread(64_000, 60_000, 70_000)}, {Goal.SMALL_PAGES_256}),
    ],
)
def test_each_goal_of_a_thousand_shards_is_missed_by_its_own_figure(changed, missed):
    assert _met(**changed) == GOALS - missed
