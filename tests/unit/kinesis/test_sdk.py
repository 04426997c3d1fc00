"""Clients of the SDK share its loaded data files."""

from __future__ import annotations

import json

import pytest
from botocore.loaders import JSONFileLoader, create_loader

from kinesis_assets.kinesis.client import StreamClient
from kinesis_assets.kinesis.sdk import _loader
from kinesis_assets.kinesis.settings import ClientSettings


@pytest.fixture
def sdk_clients():
    """Share no client of the SDK."""


def test_a_second_client_reads_no_data_files_of_the_sdk(monkeypatch):
    settings = ClientSettings("us-east-1", "http://127.0.0.1:1")
    StreamClient("first", settings)
    read = []
    load = JSONFileLoader.load_file
    monkeypatch.setattr(JSONFileLoader, "load_file", lambda *args: read.append(args) or load(*args))
    StreamClient("second", settings)
    assert not read


def test_a_second_client_does_not_change_the_shared_loader():
    settings = ClientSettings("us-east-1", "http://127.0.0.1:1")
    paths = [len(_loader(None).search_paths) for _ in range(3) if StreamClient("orders", settings)]
    assert len(set(paths)) == 1


def test_data_files_of_aws_data_path_are_used(tmp_path, monkeypatch):
    own = tmp_path / "kinesis" / "2013-12-02"
    own.mkdir(parents=True)
    model = create_loader().load_service_model("kinesis", "service-2")
    model["metadata"] |= {"targetPrefix": "Own"}
    (own / "service-2.json").write_text(json.dumps(model))

    def prefix():
        client = StreamClient("orders", ClientSettings("us-east-1", "http://127.0.0.1:1"))
        return client._client.meta.service_model.metadata["targetPrefix"]

    before = prefix()
    monkeypatch.setenv("AWS_DATA_PATH", str(tmp_path))
    assert [before, prefix()] == ["Kinesis_20131202", "Own"]
