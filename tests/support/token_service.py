"""A token service, and a record of who signs requests."""

from __future__ import annotations

import math
import re
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime

EXTERNAL_ID = "external-id-of-the-tests"
BASE_SECRET = "SECRET/of+the/base"  # noqa: S105  # a made-up secret that must not leak
BASE_KEY = "AKIABASE"
ROLE = "arn:aws:iam::123456789012:role/reader"

CONFIG = f"""
[profile base]
aws_access_key_id = {BASE_KEY}
aws_secret_access_key = {BASE_SECRET}

[profile reader]
role_arn = {ROLE}
source_profile = base
external_id = {EXTERNAL_ID}
"""

CALLER = "arn:aws:sts::123456789012:assumed-role/reader/session-of-the-tests"
"""As whom AWS sees who has assumed the role."""

_ASSUMED = """<AssumeRoleResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><AssumeRoleResult>
<AssumedRoleUser><Arn>{caller}</Arn><AssumedRoleId>A:s</AssumedRoleId></AssumedRoleUser><Credentials>
<AccessKeyId>{key}</AccessKeyId><SecretAccessKey>{secret}</SecretAccessKey>
<SessionToken>{token}</SessionToken>
<Expiration>{expiration}</Expiration></Credentials></AssumeRoleResult></AssumeRoleResponse>"""
_ERROR = "<ErrorResponse><Error><Code>{code}</Code><Message>{key}</Message></Error></ErrorResponse>"


def signing_key(authorization: str | None) -> str | None:
    """Return the access key that signed a request, or None."""
    found = re.search("Credential=([^/]+)/", authorization or "")
    return found[1] if found else None


@dataclass
class TokenService:
    """A token service that returns credentials which expire within seconds, given the external id.

    Attributes:
        life: Seconds until credentials expire.
        expirations: The time when each access key expires, by this machine's clock.
        tokens: Every session token that was returned.
        requests: The arguments of each request.
        throttled: The number of next requests that are throttled.
        refuses: Whether requests are refused.
    """

    url: str = ""
    life: int = 2
    expirations: dict[str, float] = field(default_factory=dict)
    tokens: list[str] = field(default_factory=list)
    requests: list[dict[str, str]] = field(default_factory=list)
    throttled: int = 0
    refuses: bool = False

    def respond(self, key: str | None, arguments: dict[str, str]) -> tuple[int, str]:
        self.requests.append(arguments)
        if self.throttled:
            self.throttled -= 1
            return 400, _ERROR.format(code="Throttling", key="Rate exceeded")
        wanted = {"Action": "AssumeRole", "RoleArn": ROLE, "ExternalId": EXTERNAL_ID}
        if self.refuses or key != BASE_KEY or not wanted.items() <= arguments.items():
            return 403, _ERROR.format(code="AccessDenied", key=f"{key} is not authorized")
        number = len(self.expirations)
        end = math.ceil(time.time()) + self.life  # whole seconds, rounded up
        key = f"ASIA{number:06d}"
        self.expirations[key] = end
        self.tokens.append(f"SESSIONTOKEN{number:06d}/+==")
        return 200, _ASSUMED.format(
            caller=CALLER,
            key=key,
            secret=f"SECRET{number:06d}",
            token=self.tokens[-1],
            expiration=datetime.fromtimestamp(end, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        )


@dataclass
class SignedRequests:
    """The signatures of the requests to a stream or a store.

    Attributes:
        url: The URL of the stream or the store.
        keys: The access key of each request in order; None for an unsigned one.
        token: The session token of the last request.
    """

    url: str = ""
    keys: list[str | None] = field(default_factory=list)
    token: str | None = None
