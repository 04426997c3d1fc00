"""The embedded stream: a small, faithful Kinesis endpoint in memory, for demos and tests."""

from kinesis_assets.local.server import LocalKinesis, serve

__all__ = ["LocalKinesis", "serve"]
