"""A Spark Connect server, as its URL names it."""

from __future__ import annotations

from kinesis_assets.spark.server import ConnectServer


def test_a_token_in_the_url_is_not_in_the_representation():
    server = ConnectServer("sc://spark.example.com:15002/;use_ssl=true;token=secret")
    assert repr(server) == "ConnectServer('sc://spark.example.com:15002')"
