"""The role with which a stream and its tables are accessed."""

from __future__ import annotations

import re
from dataclasses import dataclass

from kinesis_assets.errors import InvalidInput

# The patterns of the API (AWS API reference, AssumeRole).
_ARN = re.compile(r"arn:aws[a-z0-9-]{0,20}:iam::[0-9]{12}:role/([!-~]{1,512}/)?[\w+=,.@-]{1,64}", re.ASCII)
_EXTERNAL_ID = re.compile(r"[\w+=,.@:/-]{2,1224}", re.ASCII)
_SESSION_NAME = re.compile(r"[\w+=,.@-]{2,64}", re.ASCII)

_LONGEST_NAME = 64
_NOT_IN_A_NAME = re.compile(r"[^\w+=,.@-]", re.ASCII)


@dataclass(frozen=True, slots=True)
class AssumedRole:
    """A role that every process assumes with credentials of its own. Can be pickled, and holds no secret.

    See `role_credentials.role_for`.

    Attributes:
        external_id: The external id that its trust policy requires; None if it requires none.
        profile_name: The profile that assumes it, as in boto3; None for the SDK's own chain.
        region_name: The region whose STS is called; None for that of the SDK's own chain.

    Raises:
        InvalidInput: The ARN, the name or the external id is invalid.
    """

    arn: str
    session_name: str
    external_id: str | None = None
    profile_name: str | None = None
    region_name: str | None = None

    def __post_init__(self) -> None:
        check_role_settings(self.arn, self.external_id, self.session_name)


def check_role_arn(arn: str | None) -> None:
    """Check the ARN of a role, if there is one. Raises `InvalidInput`."""
    if arn is not None and not _ARN.fullmatch(arn):
        raise InvalidInput(
            f"role_arn: invalid ARN {arn[:300]!r}; the form is arn:aws:iam::111122223333:role/clicks-reader"
        )


def check_external_id(external_id: str | None) -> None:
    """Check an external id, if there is one. Raises `InvalidInput`."""
    if external_id is not None and not _EXTERNAL_ID.fullmatch(external_id):
        raise InvalidInput(
            f"external_id: invalid id {external_id[:80]!r}; give 2 to 1,224 letters, digits or any of "
            "+ = , . @ : / _ -"
        )


def check_session_name(name: str | None) -> None:
    """Check the name of a role's sessions, if there is one. Raises `InvalidInput`."""
    if name is not None and not _SESSION_NAME.fullmatch(name):
        raise InvalidInput(
            f"session_name: invalid name {name[:80]!r}; give 2 to 64 letters, digits or any of + = , . @ _ -"
        )


def check_role_settings(arn: str | None, external_id: str | None, session_name: str | None) -> None:
    """Check each setting of a role, and that there is a role if there is another one."""
    check_role(arn, external_id, session_name)
    check_role_arn(arn)
    check_external_id(external_id)
    check_session_name(session_name)


def check_role(role_arn: object, external_id: object, session_name: object) -> None:
    """Check that settings of a role are given only with a role. Raises `InvalidInput`."""
    if role_arn is not None:
        return
    for name, value in (("external_id", external_id), ("session_name", session_name)):
        if value is not None:
            raise InvalidInput(f"{name}: only with role_arn; set role_arn, or remove it")


def default_session_name(stream: str, run_id: str | None = None) -> str:
    """Return the name of the sessions for a stream, in the characters and the length that AWS accepts."""
    name = f"kinesis-assets-{stream}"
    if run_id is not None:
        name = f"{stream[: max(0, _LONGEST_NAME - 1 - len(run_id))]}-{run_id}"
    return _NOT_IN_A_NAME.sub("-", name)[:_LONGEST_NAME]
