"""A client of a REST catalog that does not wait for it without end, and signs requests as other calls of AWS.

It is a module of its own because other catalogs load no client of HTTP.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from pyiceberg.catalog import BOTOCORE_SESSION
from pyiceberg.catalog.rest import SIGV4, RestCatalog
from pyiceberg.utils.config import Config, merge_config
from pyiceberg.utils.properties import property_as_bool

if TYPE_CHECKING:
    from collections.abc import Mapping

    from requests import Session

    from kinesis_assets.kinesis.settings import ClientSettings

TIMEOUTS = (10.0, 60.0)
"""The maximum seconds for a connection, and until the next bytes of a response. pyiceberg has no limits, so a
run would wait forever for a catalog that accepts a request and does not respond."""


def open_rest_catalog(name: str, properties: Mapping[str, str], aws: ClientSettings) -> RestCatalog:
    """Return a client of a REST catalog, as `load_catalog` of pyiceberg does with its configuration.

    Args:
        aws: How requests are signed, if the catalog requires the signatures of AWS.

    Raises:
        RoleNotAssumed: The role that signs them cannot be assumed.
    """
    configured = Config().get_catalog_config(name) or {}
    merged: dict[str, Any] = {**merge_config(configured, {**properties})}
    if property_as_bool(merged, SIGV4, default=False):
        from kinesis_assets.kinesis.sdk import sdk_session  # noqa: PLC0415  # only signatures need it

        merged[BOTOCORE_SESSION] = sdk_session(aws)
    return _RestCatalog(name, **merged)


class _RestCatalog(RestCatalog):
    """The client. Without the private method in a later release of pyiceberg, it has no timeouts."""

    def _config_headers(self, session: Session) -> None:
        """Configure a new session, before it is used for the first time, which may be to request a token."""
        session.request = partial(session.request, timeout=TIMEOUTS)  # type: ignore[method-assign]
        super()._config_headers(session)
