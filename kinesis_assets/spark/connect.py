"""Sessions on Spark Connect.

A server that does not answer is told at once, where Spark's own client would try for ten minutes.
"""

from __future__ import annotations

import logging
import os
import warnings
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
from uuid import uuid4

from kinesis_assets.errors import LandingFailed
from kinesis_assets.spark.code_version import CODE, code_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

SECONDS_TO_ANSWER = 20.0

RETRIES = 4
"""Of a call to a server on this machine, over some seconds: it does not go away and come back."""

_HERE = ("localhost", "127.0.0.1")

_log = logging.getLogger(__name__)


def remote_of(spark_config: Mapping[str, Any]) -> str | None:
    """The URL of the Spark Connect server that a session attaches to; None if Spark is started here."""
    return spark_config.get("spark.remote") or os.environ.get("SPARK_REMOTE") or None


def require_answer(url: str) -> None:
    """See that a server answers, within `SECONDS_TO_ANSWER`, and was started with the code that stands here.

    Raises:
        LandingFailed: It does not, or was not.
    """
    there, here = ask(url, SECONDS_TO_ANSWER), code_of()
    if there and there != here:
        raise LandingFailed(
            f"the Spark server at {_place(url)} was started with other code of kinesis_assets than this "
            f"run's (there {there}, here {here}), and its tasks would run that; end it and start it again "
            "(`kinesis-assets spark`, or `kinesis-assets dev` where that keeps it)"
        )


def ask(url: str, seconds: float) -> str:
    """Which code of this package a server was started with, as `code_of` names it; empty if it does not tell.

    Raises:
        LandingFailed: It does not answer within so many seconds.
    """
    import grpc  # type: ignore[import-untyped]  # noqa: PLC0415  # here and below: half a second that only those pay who use it
    from pyspark.errors import PySparkException  # noqa: PLC0415
    from pyspark.sql.connect.client import DefaultChannelBuilder  # noqa: PLC0415
    from pyspark.sql.connect.proto import base_pb2, base_pb2_grpc  # noqa: PLC0415

    if urlsplit(url).hostname in _HERE:
        os.environ.setdefault("no_grpc_proxy", ",".join(_HERE))
    try:
        builder = DefaultChannelBuilder(url)
        user = base_pb2.UserContext(user_id="kinesis-assets")
        asking = base_pb2.ConfigRequest(
            session_id=str(uuid4()),
            user_context=user,
            operation=base_pb2.ConfigRequest.Operation(
                get_option=base_pb2.ConfigRequest.GetOption(keys=[CODE])
            ),
        )
        leaving = base_pb2.ReleaseSessionRequest(session_id=asking.session_id, user_context=user)
        with builder.toChannel() as channel:
            server = base_pb2_grpc.SparkConnectServiceStub(channel)  # type: ignore[no-untyped-call]
            headers = tuple(builder.metadata())
            answer = server.Config(asking, timeout=seconds, metadata=headers)
            server.ReleaseSession(leaving, timeout=seconds, metadata=headers)
    except (grpc.RpcError, PySparkException, ValueError) as error:
        said = error.details() if isinstance(error, grpc.Call) else str(error)
        raise LandingFailed(
            f"no Spark Connect server answers at {_place(url)}, which SPARK_REMOTE or spark.remote names "
            f"({said}); start it again (`kinesis-assets spark` is one on this machine), or name none"
        ) from error
    return "".join(pair.value for pair in answer.pairs)


def _place(url: str) -> str:
    """Where a server is; the URL itself may have a token in it."""
    return url.split(";", maxsplit=1)[0].rstrip("/")


def attach(url: str, spark_config: Mapping[str, Any]) -> SparkSession:
    """A new session on a server; `spark.master` in its settings is for where there is no server."""
    from pyspark.sql import SparkSession  # noqa: PLC0415
    from pyspark.sql.connect.client.retries import DefaultPolicy  # noqa: PLC0415

    _warn_if_the_server_can_run_code_here(url)
    builder = SparkSession.builder.remote(url)
    for name, value in spark_config.items():
        if name not in {"spark.master", "spark.remote"}:
            builder = builder.config(name, value)
    with warnings.catch_warnings():
        # Of settings that only the server's own start could have set, as spark.ui.enabled.
        warnings.filterwarnings("ignore", r"(?s).*CANNOT_MODIFY_CONFIG", UserWarning)
        session = builder.create()
    if urlsplit(url).hostname in _HERE:
        session.client.set_retry_policies([DefaultPolicy(max_retries=RETRIES)])
    return session


def _warn_if_the_server_can_run_code_here(url: str) -> None:
    """Log that PySpark's client unpickles whatever a server of another machine returns, where it does.

    Source: https://github.com/apache/spark/pull/58798 (SPARK-59508, in PySpark 4.3)
    """
    import pyspark  # noqa: PLC0415  # as above
    from pyspark import accumulators  # noqa: PLC0415

    restricted = hasattr(accumulators, "specialAccumulatorSer")
    if not restricted and urlsplit(url).hostname not in _HERE:
        _log.warning(
            "PySpark %s unpickles what a Spark Connect server returns: whoever controls %s can run code in "
            "this process. Install PySpark 4.3 or newer",
            pyspark.__version__,
            _place(url),
        )
