"""A PutRecords that is carried out in part."""

from __future__ import annotations

import json
from dataclasses import replace
from http import HTTPStatus
from typing import TYPE_CHECKING

from kinesis_assets.testing.messages import Answer
from kinesis_assets.testing.routing import shards_of

if TYPE_CHECKING:
    from collections.abc import Collection

    from kinesis_assets.testing.fault_chain import Downstream, Layer
    from kinesis_assets.testing.messages import Call


def fail_some(every: int, code: str, shard_id: str | None) -> Layer:
    """Fail some records of PutRecords; see `Faults.partial_puts`."""

    async def failed(call: Call, downstream: Downstream) -> Answer:
        shard_ids = shards_of(call.operation, call.arguments, downstream.account)
        candidates = [place for place, each in enumerate(shard_ids) if shard_id in (None, each)]
        failing = candidates[every - 1 :: every]
        return await put_except(call, downstream, failing, code) if failing else await downstream(call)

    return failed


async def put_except(call: Call, downstream: Downstream, failing: Collection[int], code: str) -> Answer:
    """Put the records of a PutRecords but those at some places (from 0), which are answered with a code.

    Source: https://docs.aws.amazon.com/kinesis/latest/APIReference/API_PutRecords.html
    """
    entries = call.arguments["Records"]
    kept = [entry for place, entry in enumerate(entries) if place not in failing]
    answer = Answer(HTTPStatus.OK, json.dumps({"Records": []}).encode())  # the service takes no empty request
    if kept:
        answer = await downstream(replace(call, arguments={**call.arguments, "Records": kept}))
        if answer.status != HTTPStatus.OK:
            return answer
    put = iter(answer.members["Records"])
    failed = {"ErrorCode": code, "ErrorMessage": "not the service: a fault of kinesis_assets.testing"}
    outcomes = [failed if place in failing else next(put) for place in range(len(entries))]
    count = sum("ErrorCode" in outcome for outcome in outcomes)  # the shards' limits may have had theirs
    return answer.but(FailedRecordCount=count, Records=outcomes)
