"""The forms of a role's settings, and the names of its sessions."""

from __future__ import annotations

import pytest

from kinesis_assets.errors import InvalidInput
from kinesis_assets.kinesis.role import AssumedRole, default_session_name

RUN_ID = "8f0ce1a8-9d2a-4f0c-8a53-0a1b2c3d4e5f"


@pytest.mark.parametrize(
    "arn",
    [
        "arn:aws:iam::111122223333:role/reader",
        "arn:aws-cn:iam::111122223333:role/team/lake/reader",
        "arn:aws-us-gov:iam::111122223333:role/service-role/Reader+=,.@-1",
    ],
)
def test_the_arn_of_a_role_is_accepted(arn: str) -> None:
    assert AssumedRole(arn, "tests").arn == arn


@pytest.mark.parametrize(
    "arn",
    [
        "",
        "reader",
        "arn:aws:iam::111122223333:user/reader",
        "arn:aws:sts::111122223333:assumed-role/reader/session",
        "arn:aws:iam::111122223333:role/",
        "arn:aws:iam::111122223333:role/reader\n",
        "arn:aws:iam::111122223333:role/r\u00e9ader",
    ],
)
def test_what_is_no_arn_of_a_role_is_refused(arn: str) -> None:
    with pytest.raises(InvalidInput, match=r"^role_arn: invalid ARN .*arn:aws:iam::111122223333:role/"):
        AssumedRole(arn, "tests")


@pytest.mark.parametrize("stream", ["clicks", "c", "a.b_c-d", "x" * 128])
@pytest.mark.parametrize("run_id", [None, RUN_ID, "a run of/mine", "r" * 100])
def test_the_default_name_of_sessions_is_one_that_aws_accepts(stream: str, run_id: str | None) -> None:
    AssumedRole("arn:aws:iam::111122223333:role/reader", default_session_name(stream, run_id))


def test_the_default_name_of_sessions_has_the_whole_id_of_the_run() -> None:
    assert default_session_name("clicks", RUN_ID) == f"clicks-{RUN_ID}"
    assert default_session_name("x" * 128, RUN_ID) == f"{'x' * 27}-{RUN_ID}"
    assert default_session_name("clicks") == "kinesis-assets-clicks"
