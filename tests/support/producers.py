"""A producer for a process of its own, which does not import pytest."""

from __future__ import annotations

import os
from itertools import count

import boto3


def put_from_another_process(endpoint_url, region):
    """Put batches until several reshards have happened.

    Returns:
        Shard id, sequence number and data of each acknowledged record.
    """
    client = boto3.client(
        "kinesis",
        endpoint_url=endpoint_url,
        region_name=region,
        aws_access_key_id="any",
        aws_secret_access_key="any",  # noqa: S106  # the emulator verifies no signature
    )
    acknowledged = []
    for batch in count():
        data = [b"%d/%d/%d" % (os.getpid(), batch, i) for i in range(100)]
        entries = [{"Data": each, "PartitionKey": each.decode()} for each in data]
        response = client.put_records(StreamName="stream", Records=entries)
        acknowledged += [
            (entry["ShardId"], entry["SequenceNumber"], each)
            for entry, each in zip(response["Records"], data, strict=True)
        ]
        if batch >= 20 and len({shard_id for shard_id, _, _ in acknowledged}) >= 20:
            break
    return acknowledged
