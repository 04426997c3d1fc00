"""Shared fixtures: the embedded stream with its faults, Spark, and a table."""

from __future__ import annotations

import json
import os
import sys
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import boto3
import pytest
from pyspark.sql import SparkSession

from kinesis_assets.errors import JavaUnavailable
from kinesis_assets.kinesis.client import ClientSettings
from kinesis_assets.local import LocalKinesis
from kinesis_assets.spark.java import require_java
from kinesis_assets.table.delta import PositionedTable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from kinesis_assets.local.app import App, Message, Receive, Scope, Send


@dataclass(frozen=True)
class Call:
    """One call that reached the endpoint; `shard_id` also where only an iterator tells it."""

    operation: str
    arguments: dict[str, Any]
    shard_id: str | None
    at: float


@dataclass(frozen=True)
class Answer:
    """What goes back to the caller."""

    status: int
    body: bytes

    @classmethod
    def error(cls, code: str, status: int = 400) -> Answer:
        return cls(status, json.dumps({"__type": code, "message": "as the test says"}).encode())

    def with_body(self, body: bytes) -> Answer:
        """The same answer with another body, whole or not."""
        return Answer(self.status, body)

    def but(self, **members: Any) -> Answer:
        """The same answer with some members of its body changed."""
        return Answer(self.status, json.dumps(json.loads(self.body) | members).encode())


@dataclass
class Faults:
    """A middleware around the endpoint that notes every call and bends what a test asks it to.

    The first rule that takes a call is used: `change(call, answer)` gives the answer instead, or None to
    leave the call to the next rule. `calls` holds what came since the test began.
    """

    calls: list[Call] = field(default_factory=list)
    _requests: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = field(default_factory=dict)
    _rules: list[tuple[str, Callable[[Call, Answer], Answer | None]]] = field(default_factory=list)
    _shard_of: dict[str, str] = field(default_factory=dict)

    def answer(
        self, operation: str, change: Callable[[Call, Answer], Answer | None], times: int | None = None
    ) -> None:
        """Let `change` see every answer of an operation; it changes at most `times` of them."""
        left = [times]

        def limited(call: Call, answer: Answer) -> Answer | None:
            if left[0] == 0:
                return None
            changed = change(call, answer)
            if changed is not None and left[0] is not None:
                left[0] -= 1
            return changed

        self._rules.append((operation, limited))

    def request(self, operation: str, change: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
        """Let every call of an operation reach the endpoint with changed arguments."""
        self._requests[operation] = change

    def page_size(self, records: int) -> None:
        """Let no page hold more records."""
        self.request("GetRecords", lambda arguments: {**arguments, "Limit": min(arguments["Limit"], records)})

    def count(self, operation: str, shard_id: str | None = None) -> int:
        """How often an operation was called, on a shard where one is named."""
        return sum(
            call.operation == operation and shard_id in (None, call.shard_id) for call in list(self.calls)
        )

    def clear(self) -> None:
        self.calls.clear()
        self._requests.clear()
        self._rules.clear()

    def around(self, app: App) -> App:
        """The ASGI application with the faults around it."""

        async def faulty(scope: Scope, receive: Receive, send: Send) -> None:
            content = b""
            more = True
            while more:
                message = await receive()
                content += message.get("body", b"")
                more = message.get("more_body", False)
            headers = dict(scope["headers"])
            operation = headers.get(b"x-amz-target", b"").decode().rpartition(".")[2]
            arguments: dict[str, Any] = {}
            if not operation.startswith("Put"):
                arguments = self._requests.get(operation, dict)(json.loads(content))
                content = json.dumps(arguments).encode()
            sent: list[Message] = []

            async def give() -> Message:
                return {"type": "http.request", "body": content}

            async def keep(message: Message) -> None:
                sent.append(message)

            await app(scope, give, keep)
            start, body = sent
            answer = self._bent(operation, arguments, Answer(start["status"], body["body"]))
            length = (b"content-length", str(len(answer.body)).encode())
            kept = [header for header in start["headers"] if header[0] != b"content-length"]
            await send({**start, "status": answer.status, "headers": [*kept, length]})
            await send({**body, "body": answer.body})

        return faulty

    def _bent(self, operation: str, arguments: dict[str, Any], answer: Answer) -> Answer:
        shard_id = arguments.get("ShardId") or self._shard_of.get(arguments.get("ShardIterator", ""))
        call = Call(operation, arguments, shard_id, time.monotonic())
        self.calls.append(call)
        for ruled, change in self._rules:
            changed = change(call, answer) if ruled == operation else None
            if changed is not None:
                answer = changed
                break
        if operation in ("GetShardIterator", "GetRecords") and shard_id is not None:
            try:
                told = json.loads(answer.body)
            except ValueError:
                return answer
            iterator = told.get("ShardIterator") or told.get("NextShardIterator")
            if iterator:
                self._shard_of[iterator] = shard_id
        return answer


class Clock:
    """A service's clock that stands still until a test moves it on."""

    def __init__(self) -> None:
        self.seconds = float(int(time.time()))

    def __call__(self) -> float:
        return self.seconds


@dataclass(frozen=True)
class Clocked:
    """An embedded stream with a clock to move, and how it is reached."""

    clock: Clock
    kinesis: Any
    settings: ClientSettings


def settings_of(local: LocalKinesis) -> ClientSettings:
    """How the package reaches an embedded stream."""
    return ClientSettings(region_name=local.region, endpoint_url=local.endpoint_url)


def boto3_of(local: LocalKinesis) -> Any:
    """A plain boto3 client of an embedded stream."""
    return boto3.client("kinesis", endpoint_url=local.endpoint_url, region_name=local.region)


_faults = Faults()


def pytest_sessionstart() -> None:
    """Say in one line what Spark's absence would say in many."""
    try:
        require_java()
    except JavaUnavailable as error:
        pytest.exit(str(error), returncode=1)


@pytest.fixture(scope="session", autouse=True)
def environment() -> Iterator[None]:
    """Credentials that mean nothing, and none of this machine's AWS settings; the same Python in Spark."""
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith("AWS_")]:
            patch.delenv(name)
        for name, value in {
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_REGION": "us-east-1",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_EC2_METADATA_DISABLED": "true",
            "AWS_CONFIG_FILE": os.devnull,
            "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_LOCAL_IP": "127.0.0.1",
        }.items():
            patch.setenv(name, value)
        yield


@pytest.fixture(scope="session")
def local_kinesis(environment: None) -> Iterator[LocalKinesis]:
    """The embedded stream, shared by the session: tests name their own streams."""
    del environment
    with LocalKinesis(wrap=_faults.around) as local:
        yield local


@pytest.fixture
def faults(local_kinesis: LocalKinesis) -> Iterator[Faults]:
    """What bends the embedded stream's answers, and notes its calls; clean for each test."""
    del local_kinesis
    _faults.clear()
    yield _faults
    _faults.clear()


@pytest.fixture(scope="session")
def settings(local_kinesis: LocalKinesis) -> ClientSettings:
    """How the package reaches the shared embedded stream."""
    return settings_of(local_kinesis)


@pytest.fixture
def clocked(environment: None, faults: Faults) -> Iterator[Clocked]:
    """An embedded stream of the test's own, whose clock the test moves; `faults` bends it too."""
    del environment
    clock = Clock()
    with LocalKinesis(now=clock, wrap=faults.around) as local:
        yield Clocked(clock, boto3_of(local), settings_of(local))


@pytest.fixture(scope="session")
def kinesis(local_kinesis: LocalKinesis) -> Any:
    """A plain boto3 client of the shared embedded stream."""
    return boto3_of(local_kinesis)


@pytest.fixture
def stream() -> str:
    """A stream name of the test's own; the test creates it."""
    return f"stream-{uuid4().hex[:12]}"


@pytest.fixture
def table(tmp_path: Path) -> PositionedTable:
    """A table of the test's own; the first freeze creates it."""
    return PositionedTable(str(tmp_path / "table"))


@pytest.fixture(scope="session")
def spark(environment: None) -> Iterator[SparkSession]:
    """A classic local session; two tasks at once, and a failed one is tried four times."""
    del environment
    session = (
        SparkSession.builder.master("local[2,4]")
        .appName("kinesis_assets tests")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.log.level", "ERROR")
        .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
        .config("spark.ui.showConsoleProgress", "false")
        .getOrCreate()
    )
    yield session
    session.stop()
