"""Sessions on Spark Connect.

A server that does not respond is reported within seconds; Spark's own client would retry for ten minutes.
"""

from __future__ import annotations

import logging
import os
import warnings
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from kinesis_assets.errors import LandingFailed
from kinesis_assets.spark.code_version import CODE_SETTING, code_hash
from kinesis_assets.spark.pyspark_internals import (
    limit_retries,
    pyspark_version,
    restricts_unpickling,
    server_setting,
)

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
    if urlsplit(url).hostname in _LOCAL_HOSTS:
        os.environ.setdefault("no_grpc_proxy", ",".join(_LOCAL_HOSTS))
    try:
        return server_setting(url, CODE_SETTING, seconds)
    except ConnectionError as error:
        raise LandingFailed(
            f"no Spark Connect server responds at {_without_token(url)}, which SPARK_REMOTE or spark.remote "
            f"names ({error}); start it again (`kinesis-assets spark` starts one here), or unset the URL"
        ) from error


def _without_token(url: str) -> str:
    """Return a server's URL without its parameters, one of which may be a token."""
    return url.split(";", maxsplit=1)[0].rstrip("/")


def attach(url: str, spark_config: Mapping[str, Any]) -> SparkSession:
    """Create a session on a server; `spark.master` and `spark.remote` in the settings are ignored."""
    from pyspark.sql import SparkSession  # noqa: PLC0415

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
        limit_retries(session, RETRIES)
    return session


def _warn_if_unpickling(url: str) -> None:
    """Log a warning if PySpark's client unpickles what a server on another machine returns."""
    if urlsplit(url).hostname not in _LOCAL_HOSTS and not restricts_unpickling():
        _log.warning(
            "PySpark %s unpickles what a Spark Connect server returns: whoever controls %s can run code in "
            "this process. Install PySpark 4.3 or newer",
            pyspark_version(),
            _without_token(url),
        )
