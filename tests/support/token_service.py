"""A token service, and who signed what."""

from __future__ import annotations

import math
import re
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime

EXTERNAL_ID = "external-id-of-the-tests"
BASE_SECRET = "SECRET/of+the/base"  # noqa: S105  # means nothing, but must be found nowhere
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

_ASSUMED = """<AssumeRoleResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><AssumeRoleResult>
<AssumedRoleUser><Arn>{role}</Arn><AssumedRoleId>A:s</AssumedRoleId></AssumedRoleUser><Credentials>
<AccessKeyId>{key}</AccessKeyId><SecretAccessKey>{secret}</SecretAccessKey>
<SessionToken>{token}</SessionToken>
<Expiration>{expiration}</Expiration></Credentials></AssumeRoleResult></AssumeRoleResponse>"""
_DENIED = "<ErrorResponse><Error><Code>AccessDenied</Code><Message>{key}</Message></Error></ErrorResponse>"


def signer(authorization: str | None) -> str | None:
    """The access key that signed a request; None if none did."""
    found = re.search("Credential=([^/]+)/", authorization or "")
    return found[1] if found else None


@dataclass
class Sts:
    """A token service over HTTP: who brings the external id gets credentials that end within seconds.

    Attributes:
        url: Where it is.
        life: Seconds that credentials live.
        ends: When each access key ends, by the system's clock.
        tokens: Every session token handed out.
    """

    url: str = ""
    life: int = 2
    ends: dict[str, float] = field(default_factory=dict)
    tokens: list[str] = field(default_factory=list)

    def answer(self, key: str | None, arguments: dict[str, str]) -> tuple[int, str]:
        wanted = {"Action": "AssumeRole", "RoleArn": ROLE, "ExternalId": EXTERNAL_ID}
        if key != BASE_KEY or not wanted.items() <= arguments.items():
            return 403, _DENIED.format(key=key)
        number = len(self.ends)
        end = math.ceil(time.time()) + self.life  # whole seconds, and no less than so many from now
        key = f"ASIA{number:06d}"
        self.ends[key] = end
        self.tokens.append(f"SESSIONTOKEN{number:06d}/+==")
        return 200, _ASSUMED.format(
            role=ROLE,
            key=key,
            secret=f"SECRET{number:06d}",
            token=self.tokens[-1],
            expiration=datetime.fromtimestamp(end, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        )


@dataclass
class Signers:
    """Who signed the requests of a stream or a store.

    Attributes:
        url: Where that is.
        keys: The access keys, in the order of the requests; None for an unsigned one.
        token: The session token of the last request.
    """

    url: str = ""
    keys: list[str | None] = field(default_factory=list)
    token: str | None = None
