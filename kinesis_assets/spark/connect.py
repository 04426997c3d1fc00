"""Sessions on Spark Connect.

A server that does not respond is reported within seconds; Spark's own client would retry for ten minutes.
"""

from __future__ import annotations

import logging
import os
import warnings
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
from uuid import uuid4

from kinesis_assets.errors import LandingFailed
from kinesis_assets.spark.code_version import CODE_SETTING, code_hash

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

SECONDS_TO_ANSWER = 20.0

RETRIES = 4
"""Retries of a call to a server on this machine, over a few seconds. Such a server is not restarted
meanwhile."""

_LOCAL_HOSTS = ("localhost", "127.0.0.1")

_log = logging.getLogger(__name__)


def remote_url(spark_config: Mapping[str, Any]) -> str | None:
    """Return the URL of the Spark Connect server to attach to; None if Spark is started on this machine."""
    return spark_config.get("spark.remote") or os.environ.get("SPARK_REMOTE") or None


def require_answer(url: str) -> None:
    """Check that a server responds within `SECONDS_TO_ANSWER` and runs the same code of this package.

    Raises:
        LandingFailed: It does not.
    """
    theirs, ours = server_code_version(url, SECONDS_TO_ANSWER), code_hash()
    if theirs and theirs != ours:
        raise LandingFailed(
            f"the Spark server at {_without_token(url)} runs other code of kinesis_assets than this run "
            f"(server {theirs}, run {ours}); stop the server and start it again (`kinesis-assets spark`, or "
            "`kinesis-assets dev` if that started it)"
        )


def server_code_version(url: str, seconds: float) -> str:
    """Return the version of this package's code on a server, see `code_hash`; empty if the server has none.

    Args:
        url: The server's URL.
        seconds: Time limit for the response.

    Raises:
        LandingFailed: It does not respond in time.
    """
    import grpc  # type: ignore[import-untyped]  # noqa: PLC0415  # here and below: takes 0.5 s that only Spark Connect needs
    from pyspark.errors import PySparkException  # noqa: PLC0415
    from pyspark.sql.connect.client import DefaultChannelBuilder  # noqa: PLC0415
    from pyspark.sql.connect.proto import base_pb2, base_pb2_grpc  # noqa: PLC0415

    if urlsplit(url).hostname in _LOCAL_HOSTS:
        os.environ.setdefault("no_grpc_proxy", ",".join(_LOCAL_HOSTS))
    try:
        builder = DefaultChannelBuilder(url)
        user = base_pb2.UserContext(user_id="kinesis-assets")
        request = base_pb2.ConfigRequest(
            session_id=str(uuid4()),
            user_context=user,
            operation=base_pb2.ConfigRequest.Operation(
                get_option=base_pb2.ConfigRequest.GetOption(keys=[CODE_SETTING])
            ),
        )
        release = base_pb2.ReleaseSessionRequest(session_id=request.session_id, user_context=user)
        with builder.toChannel() as channel:
            server = base_pb2_grpc.SparkConnectServiceStub(channel)  # type: ignore[no-untyped-call]
            headers = tuple(builder.metadata())
            response = server.Config(request, timeout=seconds, metadata=headers)
            server.ReleaseSession(release, timeout=seconds, metadata=headers)
    except (grpc.RpcError, PySparkException, ValueError) as error:
        details = error.details() if isinstance(error, grpc.Call) else str(error)
        raise LandingFailed(
            f"no Spark Connect server responds at {_without_token(url)}, which SPARK_REMOTE or spark.remote "
            f"names ({details}); start it again (`kinesis-assets spark` starts one here), or unset the URL"
        ) from error
    return "".join(pair.value for pair in response.pairs)


def _without_token(url: str) -> str:
    """Return a server's URL without its parameters, one of which may be a token."""
    return url.split(";", maxsplit=1)[0].rstrip("/")


def attach(url: str, spark_config: Mapping[str, Any]) -> SparkSession:
    """Create a session on a server; `spark.master` and `spark.remote` in the settings are ignored."""
    from pyspark.sql import SparkSession  # noqa: PLC0415
    from pyspark.sql.connect.client.retries import DefaultPolicy  # noqa: PLC0415

    _warn_if_unpickling(url)
    builder = SparkSession.builder.remote(url)
    for name, value in spark_config.items():
        if name not in {"spark.master", "spark.remote"}:
            builder = builder.config(name, value)
    with warnings.catch_warnings():
        # Spark warns of settings that apply only when a server starts, such as spark.ui.enabled.
        warnings.filterwarnings("ignore", r"(?s).*CANNOT_MODIFY_CONFIG", UserWarning)
        session = builder.create()
    if urlsplit(url).hostname in _LOCAL_HOSTS:
        session.client.set_retry_policies([DefaultPolicy(max_retries=RETRIES)])
    return session


def _warn_if_unpickling(url: str) -> None:
    """Log a warning if PySpark's client unpickles what a server on another machine returns.

    Source: https://github.com/apache/spark/pull/58798 (SPARK-59508, in PySpark 4.3)
    """
    import pyspark  # noqa: PLC0415  # as in `server_code_version`
    from pyspark import accumulators  # noqa: PLC0415

    restricted = hasattr(accumulators, "specialAccumulatorSer")
    if not restricted and urlsplit(url).hostname not in _LOCAL_HOSTS:
        _log.warning(
            "PySpark %s unpickles what a Spark Connect server returns: whoever controls %s can run code in "
            "this process. Install PySpark 4.3 or newer",
            pyspark.__version__,
            _without_token(url),
        )
