"""The embedded stream: a small, faithful Kinesis endpoint in memory for demonstrations and tests."""

from kinesis_assets.emulator.app import LocalKinesis, serve

__all__ = ["LocalKinesis", "serve"]
