"""The operations on the tags of streams."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from msgspec import Meta

from kinesis_assets.emulator.errors import InvalidArgumentException
from kinesis_assets.emulator.requests import StreamRequest
from kinesis_assets.emulator.shapes import Member, TagKey, Tags

if TYPE_CHECKING:
    from kinesis_assets.emulator.account import Account

MAX_TAGS = 50
"""The quota of tags of a stream: https://docs.aws.amazon.com/streams/latest/dev/tagging.html"""

TagLimit = Annotated[int, Meta(ge=1, le=50)]


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
        """Set the tags immediately."""
        stream = self.stream(account)
        if len(stream.tags | self.tags) > MAX_TAGS:
            raise InvalidArgumentException(f"Stream {stream.name} would have more than {MAX_TAGS} tags.")
        stream.tags |= self.tags


class RemoveTagsFromStream(StreamRequest, kw_only=True):
    """Remove tags from a stream. Keys that it does not have are ignored."""

    tag_keys: Annotated[list[TagKey], Meta(min_length=1, max_length=50)]

    def execute(self, account: Account) -> None:
        """Remove the tags immediately."""
        stream = self.stream(account)
        for key in self.tag_keys:
            stream.tags.pop(key, None)


class ListTagsForStream(StreamRequest, kw_only=True):
    """List the tags of a stream by key, one page at a time."""

    exclusive_start_tag_key: TagKey | None = None
    limit: TagLimit | None = None

    def execute(self, account: Account) -> ListTagsForStreamOutput:
        """Return the page that follows the key."""
        tags = self.stream(account).tags
        keys = [key for key in sorted(tags) if key > (self.exclusive_start_tag_key or "")]
        page = keys[: self.limit or MAX_TAGS]
        return ListTagsForStreamOutput([Tag(key, tags[key]) for key in page], len(keys) > len(page))
