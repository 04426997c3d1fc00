"""A client of a REST catalog that does not wait for it without end.

It is a module of its own because other catalogs load no client of HTTP.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, cast

from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.utils.config import Config, merge_config

if TYPE_CHECKING:
    from collections.abc import Mapping

    from requests import Session

TIMEOUTS = (10.0, 60.0)
"""The maximum seconds for a connection, and until the next bytes of a response. pyiceberg has no limits, so a
run would wait forever for a catalog that accepts a request and does not respond."""


def open_rest_catalog(name: str, properties: Mapping[str, str]) -> RestCatalog:
    """Return a client of a REST catalog, as `load_catalog` of pyiceberg does with its configuration."""
    configured = Config().get_catalog_config(name) or {}
    return _RestCatalog(name, **cast("dict[str, str]", merge_config(configured, {**properties})))


class _RestCatalog(RestCatalog):
    """The client. Without the private method in a later release of pyiceberg, it has no timeouts."""

    def _config_headers(self, session: Session) -> None:
        """Configure a new session, before it is used for the first time, which may be to request a token."""
        session.request = partial(session.request, timeout=TIMEOUTS)  # type: ignore[method-assign]
        super()._config_headers(session)
