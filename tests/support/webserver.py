"""A client of the GraphQL API of Dagster's web server."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from typing import Any

from benchmarks.harness.waiting import SECONDS


class Webserver:
    """A web server on loopback."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"

    def query(self, text: str, **variables: object) -> dict[str, Any]:
        """Return the data of a query or a mutation."""
        body = json.dumps({"query": text, "variables": variables}).encode()
        request = urllib.request.Request(  # noqa: S310  # a web server on loopback
            f"{self.url}/graphql", body, {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=SECONDS) as response:  # noqa: S310
            content = json.loads(response.read())
        assert "errors" not in content, content
        data: dict[str, Any] = content["data"]
        return data

    def version(self) -> dict[str, Any] | None:
        """Return the server's version, or None until it responds."""
        try:
            return self.query("{version}")
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            return None
