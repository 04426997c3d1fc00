"""A fault layer that carries out PutRecords only in part."""

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
    """Let some records of PutRecords fail; see `Faults.partial_puts`."""

    async def failed(call: Call, downstream: Downstream) -> Answer:
        shard_ids = shards_of(call.operation, call.arguments, downstream.account)
        candidates = [index for index, each in enumerate(shard_ids) if shard_id in (None, each)]
        failing = candidates[every - 1 :: every]
        return await put_except(call, downstream, failing, code) if failing else await downstream(call)

    return failed


async def put_except(call: Call, downstream: Downstream, failing: Collection[int], code: str) -> Answer:
    """Put the records of a PutRecords call except those at some indexes, which fail with an error code.

    Source: https://docs.aws.amazon.com/kinesis/latest/APIReference/API_PutRecords.html
    """
    entries = call.arguments["Records"]
    kept = [entry for index, entry in enumerate(entries) if index not in failing]
    answer = Answer(HTTPStatus.OK, json.dumps({"Records": []}).encode())  # the service refuses empty requests
    if kept:
        answer = await downstream(replace(call, arguments={**call.arguments, "Records": kept}))
        if answer.status != HTTPStatus.OK:
            return answer
    put = iter(answer.members["Records"])
    failed = {"ErrorCode": code, "ErrorMessage": "not the service: a fault of kinesis_assets.testing"}
    outcomes = [failed if index in failing else next(put) for index in range(len(entries))]
    count = sum("ErrorCode" in outcome for outcome in outcomes)  # the shards' limits may add failures
    return answer.but(FailedRecordCount=count, Records=outcomes)
