"""The credentials of an assumed role. All libraries of a process share them.

No library assumes a role in the same way: delta-rs knows no external id, and Arrow no profile. So the AWS SDK
for Python assumes it for all of them, with the credentials that it finds by its own chain.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

import botocore.session
from botocore.config import Config
from botocore.credentials import RefreshableCredentials
from botocore.exceptions import BotoCoreError, ClientError

from kinesis_assets.errors import RoleNotAssumed
from kinesis_assets.kinesis.clock import MACHINE_CLOCK
from kinesis_assets.kinesis.role import AssumedRole, default_session_name
from kinesis_assets.kinesis.transport.sdk_internals import parser_error

if TYPE_CHECKING:
    from collections.abc import Callable

    from kinesis_assets.kinesis.clock import Clock
    from kinesis_assets.kinesis.stream import StreamAddress

_LIFE = 3600
"""Seconds for which credentials are requested. Every role allows an hour, and a chained role no more."""

_REFRESHED = 3000
"""Seconds before their expiry from which credentials are refreshed. An open file or table keeps those with
which it was opened, so it can be used for at least this long."""

_REQUIRED = 900
"""Seconds before their expiry from which a failed refresh is an error."""

_SHARED = 5.0
"""Seconds for which no call repeats a failed refresh. A commit tries for longer, so it can still succeed."""

ATTEMPTS = 6
"""The maximum number of attempts of a call to STS."""

_TIMEOUT = 4.0
"""Seconds for a connection to STS, and for its response. A tick of the sensor waits, and ends in a minute."""

_DENIED = frozenset({"AccessDenied", "AccessDeniedException"})


class _SharedCredentials(RefreshableCredentials):  # type: ignore[misc]  # botocore has no types
    """The SDK's credentials, of which all calls share a failed refresh for a while.

    Otherwise each of the calls that waited for it would call STS again, one after another, and log the error.

    Attributes:
        failure: Returns the error of a refresh that failed shortly before, or None.
    """

    failure: Callable[[], RoleNotAssumed | None]

    def refresh_needed(self, refresh_in: float | None = None) -> bool:
        """Return whether the next use refreshes them. Raises `RoleNotAssumed` if it must and just failed."""
        if not super().refresh_needed(refresh_in):
            return False
        failure = self.failure()
        if failure is not None and super().refresh_needed(_REQUIRED):
            raise failure
        return failure is None


class RoleCredentials:
    """The credentials of a role, which are refreshed before they expire. It can be used by several threads.

    It has the method of a provider of credentials in botocore's sessions.

    Attributes:
        caller: The ARN of the session as which AWS sees the caller.

    Raises:
        RoleNotAssumed: The role cannot be assumed.
    """

    def __init__(self, role: AssumedRole, clock: Clock = MACHINE_CLOCK) -> None:
        self._role = role
        self._clock = clock
        self._failure: Callable[[], RoleNotAssumed] | None = None
        self._failed_at = 0.0
        self.caller = role.arn
        self._credentials = _SharedCredentials.create_from_metadata(
            self._assume(),
            refresh_using=self._refresh,
            method="assume-role",
            advisory_timeout=_REFRESHED,
            mandatory_timeout=_REQUIRED,
        )
        self._credentials.failure = self._recent_failure

    def load_credentials(self) -> RefreshableCredentials:
        """Return the SDK's credentials, which refresh themselves."""
        return self._credentials

    def current(self) -> Any:
        """Return the access key, the secret key and the session token of now, as the SDK's tuple.

        Raises `RoleNotAssumed` if the role can no longer be assumed.
        """
        return self._credentials.get_frozen_credentials()

    def _refresh(self) -> dict[str, str]:
        try:
            found = self._assume()
        except RoleNotAssumed as error:
            self._failed_at = self._clock.monotonic()
            # Not the error itself: it keeps its frames alive, and each raise would add others.
            self._failure = partial(RoleNotAssumed, error.reason, advice=error.advice)
            raise
        self._failure = None
        return found

    def _recent_failure(self) -> RoleNotAssumed | None:
        failure = self._failure
        if failure is None or self._clock.monotonic() >= self._failed_at + _SHARED:
            return None
        return failure()

    def _assume(self) -> dict[str, str]:
        role = self._role
        arguments: dict[str, Any] = {
            "RoleArn": role.arn,
            "RoleSessionName": role.session_name,
            "DurationSeconds": _LIFE,
        }
        if role.external_id is not None:
            arguments["ExternalId"] = role.external_id
        # The SDK's errors are not chained: for a rejected signature they may repeat a session token.
        try:
            response = sts_client(role.profile_name, role.region_name).assume_role(**arguments)
        except ClientError as error:
            raise _denied(role, error) from None
        except (BotoCoreError, parser_error(), ValueError) as error:  # ValueError: an invalid endpoint
            raise _not_assumed(
                role,
                str(error),
                "Check the network, and the region, the profile and the credentials of the process, then run "
                "again",
            ) from None
        given = response.get("Credentials", {})
        try:
            found = {
                "access_key": given["AccessKeyId"],
                "secret_key": given["SecretAccessKey"],
                "token": given["SessionToken"],
                "expiry_time": given["Expiration"].isoformat(),
            }
        except KeyError as missing:
            raise _not_assumed(role, f"STS returned no {missing}", "Check the endpoint of STS") from None
        if given["Expiration"] <= datetime.now(UTC):
            raise _not_assumed(
                role,
                f"by this machine's clock its credentials expired at {found['expiry_time']}",
                "Set the clock by NTP",
            )
        self.caller = response.get("AssumedRoleUser", {}).get("Arn", role.arn)
        return found


@lru_cache(maxsize=256)
def credentials_of(role: AssumedRole) -> RoleCredentials:
    """Return the credentials of a role, which this process keeps."""
    return RoleCredentials(role)


def role_for(
    address: StreamAddress,
    arn: str,
    *,
    external_id: str | None,
    session_name: str | None,
    profile_name: str | None,
    region_name: str | None,
    run_id: str | None = None,
) -> AssumedRole:
    """Return a role with the region of its stream, so that other machines call the same STS."""
    session_name = session_name or default_session_name(address.name, run_id)
    region_name = address.region_name(region_name) or _default_region(profile_name)
    return AssumedRole(arn, session_name, external_id, profile_name, region_name)


def _default_region(profile_name: str | None) -> str | None:
    """Return the region of the SDK's own chain; None if it has none."""
    # Unlike the other SDKs, Python's reads only AWS_DEFAULT_REGION.
    if region := os.environ.get("AWS_REGION"):
        return region
    try:
        session = botocore.session.Session(profile=profile_name)
        found: str | None = session.get_config_variable("region")
    except BotoCoreError:  # no such profile; whoever uses it reports that
        return None
    return found


@lru_cache(maxsize=16)
def sts_client(profile_name: str | None, region_name: str | None) -> Any:
    """Return a client of STS with the credentials of the SDK's own chain, which this process keeps.

    It makes a bounded number of attempts, also if it is throttled.
    """
    session = botocore.session.Session(profile=profile_name)
    retries = {"mode": "standard", "total_max_attempts": ATTEMPTS}
    config = Config(retries=retries, connect_timeout=_TIMEOUT, read_timeout=_TIMEOUT)
    region_name = region_name or os.environ.get("AWS_REGION")
    return session.create_client("sts", region_name=region_name, config=config)


def _denied(role: AssumedRole, error: ClientError) -> RoleNotAssumed:
    detail = error.response.get("Error", {})  # a proxy's response may have none
    code, message = detail.get("Code", "Unknown"), detail.get("Message", "")
    todo = "Run again when the cause is resolved"
    if code in _DENIED:
        external_id = "a trust policy may require an external_id"
        if role.external_id is not None:
            external_id = "the external_id must be the one that it requires"
        todo = (
            "The role's trust policy must allow this caller, and the caller's own policy sts:AssumeRole; "
            f"{external_id}"
        )
    return _not_assumed(role, f"AssumeRole failed with {code}: {message}", todo)


def _not_assumed(role: AssumedRole, reason: str, advice: str) -> RoleNotAssumed:
    return RoleNotAssumed(f"role {role.arn} cannot be assumed: {reason}", advice=advice)
