"""No response of a hostile Spark Connect server executes code in the process of a run."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import grpc
import pyarrow as pa
import pytest
from pyspark.sql.connect.proto import base_pb2, base_pb2_grpc, types_pb2
from pyspark.sql.connect.proto.expressions_pb2 import Expression

from benchmarks.harness.waiting import SECONDS
from kinesis_assets.spark import connect
from kinesis_assets.spark.connect import ConnectServer
from kinesis_assets.spark.local_settings import CODE
from kinesis_assets.spark.packages import code_hash
from support.mentions import assert_mentions

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

RUN = """
import math, sys
from kinesis_assets.errors import KinesisAssetsError
from kinesis_assets.kinesis.reading.range import Allowance, Bounds
from kinesis_assets.kinesis.position import Position
from kinesis_assets.kinesis.reading.range import ShardRange
from kinesis_assets.kinesis.settings import ClientSettings
from kinesis_assets.ingest.land import land
from kinesis_assets.ingest.task import LandingJob
from kinesis_assets.spark.session import wrap_spark_errors, start_session
from kinesis_assets.table.store.storage import TableFolder

job = LandingJob("clicks", ClientSettings("us-east-1"), TableFolder.at(sys.argv[1]), 1, math.inf)
everything = ("0", str((1 << 128) - 1))
ranges = [ShardRange("shardId-000000000000", Position.parse("TRIM_HORIZON"), Bounds(), everything)]
try:
    with wrap_spark_errors("clicks"):
        spark = start_session({})
        land(spark, job, ranges, Allowance())
except KinesisAssetsError as error:
    print(error)
"""


class Bomb:
    """Creates a folder when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self._path),)


class HostileServer(base_pb2_grpc.SparkConnectServiceServicer):
    """Responds to each plan with content that may be unpickled.

    Attributes:
        ran: The queries that it received.
    """

    def __init__(self, place: str, content: bytes) -> None:
        self._place = place
        self._content = content
        self.ran = 0

    def Config(self, request: Any, context: Any) -> Any:  # noqa: N802  # gRPC's names, here and below
        del context
        keys = request.operation.get_with_default.pairs or []
        settings = {CODE: code_hash(), "spark.default.parallelism": "1"}
        pairs = [base_pb2.KeyValue(key=each.key, value=settings.get(each.key, each.value)) for each in keys]
        pairs += [
            base_pb2.KeyValue(key=key, value=settings.get(key)) for key in request.operation.get_option.keys
        ]
        return base_pb2.ConfigResponse(
            session_id=request.session_id, server_side_session_id="server", pairs=pairs
        )

    def AnalyzePlan(self, request: Any, context: Any) -> Any:  # noqa: N802
        del context
        field = types_pb2.DataType.StructField(
            name="landing", data_type=types_pb2.DataType(binary=types_pb2.DataType.Binary())
        )
        schema = types_pb2.DataType(struct=types_pb2.DataType.Struct(fields=[field]))
        return base_pb2.AnalyzePlanResponse(
            session_id=request.session_id,
            server_side_session_id="server",
            **(
                {"schema": base_pb2.AnalyzePlanResponse.Schema(schema=schema)}
                if request.HasField("schema")
                else {"ddl_parse": base_pb2.AnalyzePlanResponse.DDLParse(parsed=schema)}
            ),
        )

    def ExecutePlan(self, request: Any, context: Any) -> Iterator[Any]:  # noqa: N802
        del context
        self.ran += request.plan.HasField("root")  # the first plan of a session is a command

        def response(number: int, **part: Any) -> Any:
            return base_pb2.ExecutePlanResponse(
                session_id=request.session_id,
                server_side_session_id="server",
                operation_id=request.operation_id,
                response_id=str(number),
                **part,
            )

        if self._place == "accumulator":
            value = Expression.Literal(binary=self._content)
            metrics = base_pb2.ExecutePlanResponse.ObservedMetrics(
                name="__python_accumulator__", values=[value], keys=["any"]
            )
            yield response(0, observed_metrics=[metrics])
        if self._place == "type":
            udt = types_pb2.DataType.UDT(
                type="udt", python_class="__main__.Any", serialized_python_class=self._content.hex()
            )
            yield response(0, schema=types_pb2.DataType(udt=udt))
        batch = pa.record_batch({"landing": pa.array([self._content], pa.binary())})
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as writer:
            writer.write_batch(batch)
        arrow = base_pb2.ExecutePlanResponse.ArrowBatch(row_count=1, data=sink.getvalue().to_pybytes())
        yield response(1, arrow_batch=arrow)
        yield response(2, result_complete=base_pb2.ExecutePlanResponse.ResultComplete())

    def ReleaseExecute(self, request: Any, context: Any) -> Any:  # noqa: N802
        del context
        return base_pb2.ReleaseExecuteResponse(
            session_id=request.session_id, server_side_session_id="server", operation_id=request.operation_id
        )

    def ReleaseSession(self, request: Any, context: Any) -> Any:  # noqa: N802
        del context
        return base_pb2.ReleaseSessionResponse(session_id=request.session_id, server_side_session_id="server")


@contextmanager
def serving(servicer: HostileServer) -> Iterator[str]:
    """Serve, and yield the URL."""
    server = grpc.server(ThreadPoolExecutor(4))
    base_pb2_grpc.add_SparkConnectServiceServicer_to_server(servicer, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield f"sc://127.0.0.1:{port}"
    finally:
        server.stop(None).wait()


@pytest.mark.parametrize("place", ["manifest", "accumulator", "type"])
def test_a_pickle_from_the_server_is_not_executed(tmp_path: Path, place: str) -> None:
    bomb = tmp_path / "bomb"
    servicer = HostileServer(place, pickle.dumps(Bomb(bomb)))
    with serving(servicer) as url:
        run = subprocess.run(
            [sys.executable, "-c", RUN, str(tmp_path / "table")],
            env=os.environ | {"SPARK_REMOTE": url},
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
    assert servicer.ran == 1, run.stderr
    assert not bomb.exists()
    if place == "manifest":
        assert_mentions(run.stdout, "stream clicks: ", "invalid manifest")


def test_a_remote_server_is_warned_of_if_pyspark_unpickles_its_results(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.delattr("pyspark.accumulators.specialAccumulatorSer")
    connect._warn_if_unpickling(ConnectServer("sc://spark.example.com:15002/;token=secret"))
    (message,) = caplog.messages
    assert "sc://spark.example.com:15002" in message


@pytest.mark.parametrize(
    ("url", "is_old"), [("sc://spark.example.com:15002", False), ("sc://localhost:15002", True)]
)
def test_a_local_server_or_a_client_that_unpickles_nothing_is_not_warned_of(
    url: str, *, is_old: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    if is_old:
        monkeypatch.delattr("pyspark.accumulators.specialAccumulatorSer")
    connect._warn_if_unpickling(ConnectServer(url))
    assert caplog.messages == []
