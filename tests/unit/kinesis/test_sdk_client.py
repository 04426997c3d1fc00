"""What the clients of the SDK share."""

from __future__ import annotations

import json

from botocore.loaders import JSONFileLoader, create_loader

from kinesis_assets.kinesis.client import StreamClient
from kinesis_assets.kinesis.sdk_client import _loader
from kinesis_assets.kinesis.settings import ClientSettings


def test_a_further_client_reads_none_of_the_sdks_data_files(monkeypatch):
    settings = ClientSettings("us-east-1", "http://127.0.0.1:1")
    StreamClient("first", settings)
    read = []
    load = JSONFileLoader.load_file
    monkeypatch.setattr(JSONFileLoader, "load_file", lambda *args: read.append(args) or load(*args))
    StreamClient("second", settings)
    assert not read


def test_a_further_client_leaves_nothing_behind_in_what_they_share():
    settings = ClientSettings("us-east-1", "http://127.0.0.1:1")
    paths = [len(_loader(None).search_paths) for _ in range(3) if StreamClient("orders", settings)]
    assert len(set(paths)) == 1


def test_the_sdks_data_may_be_ones_own(tmp_path, monkeypatch):
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
