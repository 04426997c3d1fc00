"""Sessions on Spark Connect.

A server that does not respond is reported within seconds; Spark's own client would retry for ten minutes.
"""

from __future__ import annotations

import logging
import os
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from kinesis_assets.errors import InvalidInput, LandingFailed
from kinesis_assets.spark.code_version import code_hash
from kinesis_assets.spark.package_archive import add_package
from kinesis_assets.spark.pyspark_internals import (
    limit_retries,
    pyspark_version,
    restricts_unpickling,
    server_setting,
)
from kinesis_assets.spark.setting_names import ARCHIVES, CODE, PYTHON

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


def has_package(url: str) -> bool:
    """Return whether the Python workers of a server have the code of this run.

    Raises:
        LandingFailed: The server does not respond within `SECONDS_TO_ANSWER`.
    """
    return server_code_version(url, SECONDS_TO_ANSWER) == code_hash()


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
        return server_setting(url, CODE, seconds)
    except ConnectionError as error:
        raise LandingFailed(
            f"no Spark Connect server responds at {_without_token(url)}, which SPARK_REMOTE or spark.remote "
            f"names ({error}); start it again (`kinesis-assets spark` starts one here), or unset the URL"
        ) from error


def _without_token(url: str) -> str:
    """Return a server's URL without its parameters, one of which may be a token."""
    return url.split(";", maxsplit=1)[0].rstrip("/")


def attach(url: str, spark_config: Mapping[str, Any]) -> SparkSession:
    """Create a session on a server; `spark.master` and `spark.remote` in the settings are ignored.

    Raises:
        InvalidInput: An archive in `spark.archives` is not a file on this machine.
        LandingFailed: The server does not respond.
    """
    from pyspark.sql import SparkSession  # noqa: PLC0415

    archives = _archives(spark_config)
    needs_package = not has_package(url)
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
    if needs_package:
        add_package(session)
    if archives:
        session.addArtifacts(*archives, archive=True)
    if python := spark_config.get(PYTHON):
        session.conf.set("spark.sql.execution.pyspark.python", python)
    return session


def _archives(spark_config: Mapping[str, Any]) -> list[str]:
    """Return the archives for the client to upload, because a server ignores its `spark.archives`.

    Raises:
        InvalidInput: One of them is not a file on this machine.
    """
    archives = [name for name in str(spark_config.get(ARCHIVES) or "").split(",") if name]
    for archive in archives:
        if not Path(archive.partition("#")[0]).is_file():
            raise InvalidInput(
                f"{archive.partition('#')[0]}, which spark.archives or python_environment names, is no file "
                "on this machine. Copy it here: with Spark Connect, the client uploads it"
            )
    return archives


def _warn_if_unpickling(url: str) -> None:
    """Log a warning if PySpark's client unpickles what a server on another machine returns."""
    if urlsplit(url).hostname not in _LOCAL_HOSTS and not restricts_unpickling():
        _log.warning(
            "PySpark %s unpickles what a Spark Connect server returns: whoever controls %s can run code in "
            "this process. Install PySpark 4.3 or newer",
            pyspark_version(),
            _without_token(url),
        )
