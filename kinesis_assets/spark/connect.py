"""Sessions on Spark Connect.

A server that does not respond is reported within two minutes; Spark's own client would retry for ten minutes.
"""

from __future__ import annotations

import logging
import os
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from kinesis_assets.errors import InvalidInput, LandingFailed
from kinesis_assets.spark.local_settings import ARCHIVES, CODE, MANAGED, PY_FILES, PYTHON
from kinesis_assets.spark.packages import add_package, code_hash
from kinesis_assets.spark.pyspark_internals import (
    limit_retries,
    pyspark_version,
    restricts_unpickling,
    server_setting,
    session_with_token,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql import SparkSession

SECONDS_TO_ANSWER = 120.0
"""Time limit for the response of a server. A refused connection is reported at once."""

RETRIES = 4
"""Retries of a call to a server on this machine, over a few seconds. Such a server is not restarted
meanwhile."""

_LOCAL_HOSTS = ("localhost", "127.0.0.1")

_NOT_OF_SERVERS = frozenset({"spark.master", "spark.remote", MANAGED, PYTHON, ARCHIVES, PY_FILES})

_MODULES = (".zip", ".egg", ".py")
"""The types of files whose modules executors import."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ConnectServer:
    """A Spark Connect server.

    Attributes:
        url: Its URL, as in SPARK_REMOTE.
        token: Returns the current token, which each call carries in the header of the proxies of AWS; None if
            the server needs none, or the URL contains it.
    """

    url: str
    token: Callable[[], str] | None = None

    def __repr__(self) -> str:
        return f"ConnectServer({self.address!r})"  # a traceback or a log may show it

    @property
    def is_on_this_machine(self) -> bool:
        """Whether the server is on this machine."""
        return urlsplit(self.url).hostname in _LOCAL_HOSTS

    @property
    def address(self) -> str:
        """The URL without its parameters, one of which may be a token."""
        return self.url.split(";", maxsplit=1)[0].rstrip("/")


def remote_url(spark_config: Mapping[str, Any]) -> str | None:
    """Return the URL of the Spark Connect server to attach to; None if Spark is started on this machine."""
    return spark_config.get("spark.remote") or os.environ.get("SPARK_REMOTE") or None


def uses_connect(spark_config: Mapping[str, Any]) -> bool:
    """Return whether the session is on a Spark Connect server."""
    return MANAGED in spark_config or remote_url(spark_config) is not None


def has_package(url: str) -> bool:
    """Return whether the Python workers of a server have the code of this run.

    Raises `LandingFailed` if the server does not respond within `SECONDS_TO_ANSWER`.
    """
    return server_code_version(url, SECONDS_TO_ANSWER) == code_hash()


def server_code_version(url: str, seconds: float) -> str:
    """Return the version of this package's code on a server, see `code_hash`; empty if the server has none.

    Raises `LandingFailed` if it does not respond in time.
    """
    server = ConnectServer(url)
    if server.is_on_this_machine:
        os.environ.setdefault("no_grpc_proxy", ",".join(_LOCAL_HOSTS))
    try:
        return server_setting(url, CODE, seconds)
    except ConnectionError as error:
        raise LandingFailed(
            f"no Spark Connect server responds at {server.address}, which SPARK_REMOTE or spark.remote names "
            f"({error}); start it again (`kinesis-assets spark` starts one here), or unset the URL"
        ) from error


def attach(server: ConnectServer, spark_config: Mapping[str, Any]) -> SparkSession:
    """Create a session on a server; `spark.master` and `spark.remote` in the settings are ignored.

    Raises:
        InvalidInput: A file in `spark.archives` or `spark.submit.pyFiles` is not on this machine, or a module
            is not of a type that executors import.
        LandingFailed: The server does not respond.
    """
    archives, modules = files_to_upload(spark_config)
    needs_package = server.token is not None or not has_package(server.url)  # a service of AWS never has it
    _warn_if_unpickling(server)
    with warnings.catch_warnings():
        # Spark warns of settings that apply only when a server starts, such as spark.ui.enabled.
        warnings.filterwarnings("ignore", r"(?s).*CANNOT_MODIFY_CONFIG", UserWarning)
        session = _create(server, settings_of_server(spark_config))
    if server.is_on_this_machine:
        limit_retries(session, RETRIES)
    if needs_package:
        add_package(session)
    if archives:
        session.addArtifacts(*archives, archive=True)
    if modules:
        session.addArtifacts(*modules, pyfile=True)
    if python := spark_config.get(PYTHON):
        session.conf.set("spark.sql.execution.pyspark.python", python)
    return session


def settings_of_server(spark_config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings that a server takes. Others are not for it, or `attach` sends it what they name."""
    return {name: value for name, value in spark_config.items() if name not in _NOT_OF_SERVERS}


def _create(server: ConnectServer, settings: dict[str, Any]) -> SparkSession:
    from pyspark.sql import SparkSession  # noqa: PLC0415

    if server.token is not None:
        return session_with_token(server.url, server.token, settings)
    return SparkSession.builder.remote(server.url).config(map=settings).create()


def files_to_upload(spark_config: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """Return the archives and the files with Python modules that the client uploads for a session.

    Raises:
        InvalidInput: A file is not on this machine, or a module is not of a type that executors import.
    """
    archives, modules = _files(spark_config, ARCHIVES), _files(spark_config, PY_FILES)
    for module in modules:
        if not module.endswith(_MODULES):
            raise InvalidInput(
                f"{module}, which {PY_FILES} names, cannot be sent to executors. Give a file with one of the "
                f"suffixes {', '.join(_MODULES)}"
            )
    return archives, modules


def _files(spark_config: Mapping[str, Any], name: str) -> list[str]:
    """Return the files in a setting for the client to upload, because a server ignores its own setting."""
    files = [file for file in str(spark_config.get(name) or "").split(",") if file]
    for file in files:
        path = file.partition("#")[0]
        if not Path(path).is_file():
            names = f"{name} or python_environment names" if name == ARCHIVES else f"{name} names"
            raise InvalidInput(
                f"{path}, which {names}, is no file on this machine. Copy it here: with Spark Connect, the "
                "client uploads it"
            )
    return files


def _warn_if_unpickling(server: ConnectServer) -> None:
    """Log a warning if PySpark's client unpickles what a server on another machine returns."""
    if not server.is_on_this_machine and not restricts_unpickling():
        _log.warning(
            "PySpark %s unpickles what a Spark Connect server returns: whoever controls %s can run code in "
            "this process. Install PySpark 4.3 or newer",
            pyspark_version(),
            server.address,
        )
