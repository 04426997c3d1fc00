"""The streams of an account, each with its own assets, defined in one YAML.

Its state is the list of these streams, as they were when it was last refreshed.
"""

from __future__ import annotations

import hashlib
import json
import logging
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

import dagster as dg
import msgspec
from dagster.components import DefsStateConfig
from pydantic import PrivateAttr

from kinesis_assets.dagster.build import build_kinesis_stream
from kinesis_assets.dagster.components.yaml_component import (
    STREAM_DEFINITIONS,
    SettingsScaffolder,
    YamlComponent,
    stream_roles,
)
from kinesis_assets.dagster.dagster_internals import stored_state
from kinesis_assets.dagster.settings.account_settings import AccountSettings, table_of
from kinesis_assets.dagster.settings.settings_base import naming
from kinesis_assets.dagster.settings.stream_settings import SharedSettings
from kinesis_assets.dagster.stream_names import StreamNames
from kinesis_assets.errors import InvalidInput, StreamsNotListed
from kinesis_assets.kinesis.settings import ClientSettings
from kinesis_assets.table.store.storage import TableFolder

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from kinesis_assets.dagster.components.yaml_component import KinesisAssetProps
    from kinesis_assets.kinesis.account import ListedStream


REFRESH = "run `dg utils refresh-defs-state`"


class KnownStream(msgspec.Struct, frozen=True, omit_defaults=True):
    """A stream that was listed.

    Attributes:
        missing_since: The first list without the stream, UTC; None if it is in the last one.
    """

    name: str
    arn: str
    missing_since: datetime | None = None


class AccountState(msgspec.Struct, frozen=True):
    """Every stream that was ever listed with the same settings."""

    streams: list[KnownStream]

    @classmethod
    def parse(cls, stored: bytes | None) -> AccountState:
        """Read what `encode` returned.

        Raises:
            StreamsNotListed: There is no state, or it cannot be read.
        """
        if stored is None:
            raise StreamsNotListed(f"the streams of the account were not listed yet; {REFRESH}")
        try:
            return msgspec.json.decode(stored, type=cls)
        except msgspec.MsgspecError as error:
            raise StreamsNotListed(
                f"the list of the account's streams is damaged ({error}); {REFRESH}"
            ) from None

    def encode(self) -> bytes:
        """Return the state as JSON."""
        return msgspec.json.encode(self)


def refreshed(before: AccountState | None, listed: Iterable[ListedStream], now: datetime) -> AccountState:
    """Return the state after a new list. A stream that is missing in it stays in the state.

    Args:
        listed: The streams that the service has now and that match the settings.

    Raises:
        StreamsNotListed: The list contradicts the previous state.
    """
    known = {} if before is None else {stream.name: stream for stream in before.streams}
    present = {stream.name: KnownStream(stream.name, stream.arn) for stream in listed}
    if not present:
        raise StreamsNotListed(
            "no stream of the account matches stream_names and stream_tags; check the region and the "
            "credentials"
        )
    for name, stream in present.items():
        if name in known and known[name].arn != stream.arn:
            raise StreamsNotListed(
                f"stream {name} was {known[name].arn} and is now {stream.arn}; check the region and the "
                "credentials, or remove the stored list"
            )
    missing = [
        msgspec.structs.replace(stream, missing_since=stream.missing_since or now)
        for name, stream in known.items()
        if name not in present
    ]
    return AccountState(sorted([*present.values(), *missing], key=lambda stream: stream.name))


_log = logging.getLogger(__name__)

_LISTED_WITH = ("region_name", "endpoint_url", "profile_name", "stream_names", "stream_tags")
"""The settings on which the list of streams depends."""

_SESSIONS = "list"
"""The suffix of the session name of the role that lists the streams."""


class AccountScaffolder(SettingsScaffolder):
    """`dg scaffold defs kinesis_assets.KinesisAccountComponent`."""

    settings = AccountSettings


@dg.scaffold_with(AccountScaffolder)
class KinesisAccountComponent(AccountSettings, YamlComponent, dg.StateBackedComponent):
    """Ingest all streams of an account that match a name pattern or a tag, each into its own table."""

    _before: AccountState | None = PrivateAttr(default=None)
    _missing_since: dict[str, datetime] = PrivateAttr(default_factory=dict)

    produces = STREAM_DEFINITIONS

    @property
    def defs_state_config(self) -> DefsStateConfig:
        """Where the list of streams is stored: separately for each of the settings on which it depends."""
        values = [getattr(self, name) for name in _LISTED_WITH]
        if self.role_arn is not None:  # without a role, the key is that of earlier releases
            values.append(self.role_arn)
        listed_with = json.dumps(values, default=list, sort_keys=True)
        digest = hashlib.sha256(listed_with.encode()).hexdigest()[:12]
        key = f"KinesisAccountComponent[{self.region_name or 'default'}-{digest}]"
        return DefsStateConfig.from_args(self.defs_state, default_key=key)

    async def refresh_state(self, project_root: Path) -> str:
        """List the streams, and store them with those that were listed before."""
        stored = stored_state(self.defs_state_config, project_root)
        self._before = None if stored is None else AccountState.parse(stored)
        return await super().refresh_state(project_root)

    def write_state_to_path(self, state_path: Path) -> None:
        """List the streams and write the state."""
        state = refreshed(self._before, self._listed(), datetime.now(UTC))
        for stream in self._with_assets(state.streams):
            if stream.missing_since is not None:
                _log.warning(
                    "Stream %s has not been listed, or has not had the tags, since %s. Its assets stay until "
                    "`exclude` names it.",
                    stream.name,
                    stream.missing_since.isoformat(timespec="seconds"),
                )
        written = state_path.with_name(f"{state_path.name}.new")
        written.write_bytes(state.encode())
        written.replace(state_path)  # a process that dies does not damage the state

    def build_defs_from_state(
        self, context: dg.ComponentLoadContext, state_path: Path | None
    ) -> dg.Definitions:
        """Build the definitions of each stream."""
        state = AccountState.parse(None if state_path is None else state_path.read_bytes())
        streams = list(self._with_assets(state.streams))
        if not streams:
            raise InvalidInput("exclude: no stream is left; exclude fewer")
        if unknown := sorted(self.streams.keys() - {stream.name for stream in streams}):
            raise InvalidInput(
                f"streams: the account has no stream {unknown[0]} with assets; correct or remove the name, "
                f"or, if the stream is new, {REFRESH}"
            )
        self._missing_since = {
            stream.name: stream.missing_since for stream in streams if stream.missing_since is not None
        }
        settings = {stream.name: self._settings_of(stream) for stream in streams}
        _refuse_shared_tables(settings)
        return dg.Definitions.merge(
            *(self._definitions_of(context, name, each) for name, each in settings.items())
        )

    def get_asset_spec(self, props: KinesisAssetProps) -> dg.AssetSpec:
        """Return the spec of an asset. That of a stream says since when it has been missing in the list."""
        spec = super().get_asset_spec(props)
        since = self._missing_since.get(props.stream)
        if since is None or props.role != "stream":
            return spec
        missing = f"It has not been in the account's list since {since.isoformat(timespec='seconds')}."
        return spec.replace_attributes(description=f"{spec.description} {missing}")

    def _listed(self) -> Iterator[ListedStream]:
        """Yield the streams that exist, have one of the names and have the tags."""
        from kinesis_assets.kinesis.account import AccountClient  # noqa: PLC0415  # only a refresh lists streams

        client = AccountClient(
            ClientSettings(
                self.region_name, self.endpoint_url, self.profile_name, role=self.role_for(_SESSIONS)
            )
        )
        for stream in client.list_streams():
            if not stream.deleting and _matches(stream.name, self.stream_names):
                tags = client.tags(stream) if self.stream_tags else {}
                if self.stream_tags.items() <= tags.items():
                    yield stream

    def _with_assets(self, streams: Iterable[KnownStream]) -> Iterator[KnownStream]:
        return (stream for stream in streams if not _matches(stream.name, self.exclude))

    def _settings_of(self, stream: KnownStream) -> dict[str, Any]:
        # The ARN has the region, and calls with it cannot reach a stream of the same name in another account.
        settings = self.of(SharedSettings) | {"stream": stream.arn, "region_name": None}
        own: Any = self.streams.get(stream.name)
        settings |= {} if own is None else own.model_dump(exclude_unset=True)
        return {"table": table_of(self.table, stream.name)} | settings

    def _definitions_of(
        self, context: dg.ComponentLoadContext, name: str, settings: dict[str, Any]
    ) -> dg.Definitions:
        with naming(f"streams: {name}"):
            definitions = build_kinesis_stream(**settings)
        names = StreamNames.of(name, settings["key_prefix"])
        return self.customized(context, name, stream_roles(names), definitions)


def _matches(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _refuse_shared_tables(settings: dict[str, dict[str, Any]]) -> None:
    owners: dict[str, str] = {}
    for name, each in settings.items():
        with naming(f"streams: {name}"):
            place = TableFolder.at(each["table"]).place
        owner = owners.setdefault(place, name)
        if owner != name:
            raise InvalidInput(
                f"streams: {owner} and {name} have the same table, {each['table']}; set another table for "
                "one of them"
            )
