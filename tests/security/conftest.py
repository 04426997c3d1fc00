"""Fixtures of the credentials: a token service, a stream that looks at who signs, a store that notes it."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs

import boto3
import pytest

from kinesis_assets.kinesis.reading import call_pacing, retry_policy
from kinesis_assets.testing import LocalKinesis

from token_service import CONFIG, Signers, Sts, signer  # isort: skip  # this folder's own

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kinesis_assets.testing import Faults


def _serving(answer: Any) -> Any:
    """An HTTP server in a thread; `answer` is given the headers and the body of each request."""

    class Handler(BaseHTTPRequestHandler):
        def _answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            status, told = answer(self.headers, body)
            self.send_response(status)
            self.send_header("Content-Length", "0" if self.command == "HEAD" else str(len(told)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(told.encode())

        do_GET = do_HEAD = do_POST = do_PUT = _answer  # noqa: N815  # http.server's names

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


@pytest.fixture
def sts() -> Iterator[Sts]:
    """The token service."""
    service = Sts()

    def answer(headers: Any, body: bytes) -> tuple[int, str]:
        arguments = {name: values[0] for name, values in parse_qs(body.decode()).items()}
        return service.answer(signer(headers.get("Authorization")), arguments)

    server = _serving(answer)
    service.url = f"http://127.0.0.1:{server.server_port}"
    yield service
    server.shutdown()
    server.server_close()


@pytest.fixture
def store() -> Iterator[Signers]:
    """A store that refuses every request, as S3 refuses a wrong signature: with all that was signed."""
    signers = Signers()

    def answer(headers: Any, _body: bytes) -> tuple[int, str]:
        signers.keys.append(signer(headers.get("Authorization")))
        signers.token = headers.get("X-Amz-Security-Token")
        signed = f"GET\n/lake\nx-amz-security-token:{signers.token}\n"
        told = "<Error><Code>SignatureDoesNotMatch</Code><Message>It does not match</Message>"
        return 403, f"{told}<CanonicalRequest>{signed}</CanonicalRequest></Error>"

    server = _serving(answer)
    signers.url = f"http://127.0.0.1:{server.server_port}"
    yield signers
    server.shutdown()
    server.server_close()


@pytest.fixture
def signed(sts: Sts, faults: Faults) -> Iterator[Signers]:
    """An embedded stream that notes who signs, and refuses keys that have ended; `faults` bends it too."""
    signers = Signers()

    def noting(app: Any) -> Any:
        async def noted(scope: Any, receive: Any, send: Any) -> None:
            headers = {name.decode(): value.decode() for name, value in scope["headers"]}
            key = signer(headers.get("authorization"))
            signers.keys.append(key)
            signers.token = headers.get("x-amz-security-token")
            if time.time() < sts.ends.get(key or "", float("inf")):
                await app(scope, receive, send)
                return
            body = json.dumps({"__type": "ExpiredTokenException", "message": f"{key} has ended"}).encode()
            await send({"type": "http.response.start", "status": 400, "headers": []})
            await send({"type": "http.response.body", "body": body})

        return noted

    with LocalKinesis(wrap=lambda app: noting(faults.around(app))) as local:
        signers.url = local.endpoint_url
        yield signers


@pytest.fixture
def signed_kinesis(signed: Signers) -> Any:
    """A plain client of that stream."""
    return boto3.client("kinesis", endpoint_url=signed.url)


@pytest.fixture
def by_role(sts: Sts, tmp_path: Path) -> dict[str, str]:
    """The environment of a process that has the profile `reader`, and no other credentials."""
    config = tmp_path / "aws-config"
    config.write_text(CONFIG)
    ours = {
        "AWS_CONFIG_FILE": str(config),
        "AWS_ENDPOINT_URL_STS": sts.url,
        "PYTHONUNBUFFERED": "1",
        "PYSPARK_PYTHON": sys.executable,
    }
    static = {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "DAGSTER_HOME"}
    return {name: value for name, value in os.environ.items() if name not in static} | ours


@pytest.fixture
def no_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits for a page's turn, nor long to try again."""
    monkeypatch.setattr(call_pacing, "SECONDS_BETWEEN_CALLS", 0.0)
    monkeypatch.setattr(retry_policy, "_LONGEST_WAIT", 0.01)
