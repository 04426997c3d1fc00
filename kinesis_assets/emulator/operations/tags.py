"""The operations on tags: those of streams, and the newer ones of streams and consumers.

Source: https://docs.aws.amazon.com/streams/latest/dev/tagging.html
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from msgspec import Meta

from kinesis_assets.emulator.operations.fan_out import consumer_by_arn
from kinesis_assets.emulator.requests import Request, StreamRequest
from kinesis_assets.emulator.shapes import MAX_TAGS, Member, ResourceARN, TagKey, Tags, check_tags

if TYPE_CHECKING:
    from kinesis_assets.emulator.account import Account

TagLimit = Annotated[int, Meta(ge=1, le=50)]
TagKeys = Annotated[list[TagKey], Meta(min_length=1, max_length=50)]


class Tag(Member):
    """A tag."""

    key: str
    value: str


class ListTagsForStreamOutput(Member):
    """A page of tags."""

    tags: list[Tag]
    has_more_tags: bool


class AddTagsToStream(StreamRequest, kw_only=True):
    """Add tags to a stream, or replace the values of tags."""

    tags: Tags

    def execute(self, account: Account) -> None:
        _add(self.stream(account).tags, self.tags)


class RemoveTagsFromStream(StreamRequest, kw_only=True):
    """Remove tags from a stream. Keys that it does not have are ignored."""

    tag_keys: TagKeys

    def execute(self, account: Account) -> None:
        _remove(self.stream(account).tags, self.tag_keys)


class ListTagsForStream(StreamRequest, kw_only=True):
    """List the tags of a stream by key, one page at a time."""

    exclusive_start_tag_key: TagKey | None = None
    limit: TagLimit | None = None

    def execute(self, account: Account) -> ListTagsForStreamOutput:
        tags = self.stream(account).tags
        keys = [key for key in sorted(tags) if key > (self.exclusive_start_tag_key or "")]
        page = keys[: self.limit or MAX_TAGS]
        return ListTagsForStreamOutput([Tag(key, tags[key]) for key in page], len(keys) > len(page))


class ListTagsForResourceOutput(Member):
    """All tags of a stream or consumer."""

    tags: list[Tag]


class ResourceRequest(Request, kw_only=True):
    """A request for a stream or a consumer."""

    resource_arn: ResourceARN

    def tags_of(self, account: Account) -> dict[str, str]:
        """Return the tags of the resource by key."""
        operation = type(self).__name__
        if "/consumer/" in self.resource_arn:
            return consumer_by_arn(account, self.resource_arn, operation)[1].tags
        return account.stream(None, self.resource_arn, operation).tags


class TagResource(ResourceRequest, kw_only=True):
    """Add tags to a stream or consumer, or replace the values of tags."""

    tags: Tags

    def execute(self, account: Account) -> None:
        _add(self.tags_of(account), self.tags)


class UntagResource(ResourceRequest, kw_only=True):
    """Remove tags from a stream or consumer. Keys that it does not have are ignored."""

    tag_keys: TagKeys

    def execute(self, account: Account) -> None:
        _remove(self.tags_of(account), self.tag_keys)


class ListTagsForResource(ResourceRequest):
    """List the tags of a stream or consumer by key."""

    def execute(self, account: Account) -> ListTagsForResourceOutput:
        tags = self.tags_of(account)
        return ListTagsForResourceOutput([Tag(key, tags[key]) for key in sorted(tags)])


def _add(tags: dict[str, str], added: dict[str, str]) -> None:
    check_tags(tags | added)
    tags |= added


def _remove(tags: dict[str, str], keys: list[str]) -> None:
    for key in keys:
        tags.pop(key, None)
