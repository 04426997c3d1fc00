"""Registries with the API of Confluent's Schema Registry: the address of one, or a folder in its place."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from kinesis_assets.errors import InvalidInput

if TYPE_CHECKING:
    from pathlib import Path

_FILES = {".avsc": "AVRO", ".json": "JSON", ".proto": "PROTOBUF"}
"""The data formats of files by their suffixes."""


def read_folder(folder: Path) -> dict[int, tuple[str, str]]:
    """Return the data formats and definitions of a folder, in files with the names of their ids, as 17.avsc.

    Raises:
        InvalidInput: A file cannot be read, or it has another name, or there is none.
    """
    schemas: dict[int, tuple[str, str]] = {}
    try:
        for path in sorted(folder.iterdir()):
            if path.suffix not in _FILES or not path.stem.isdecimal() or int(path.stem) in schemas:
                raise InvalidInput(
                    f"{path} is no schema, or a second one of an id; a schema has the name of its "
                    f"id and one of the suffixes {', '.join(_FILES)}, as 17.avsc, so rename or move the file"
                )
            schemas[int(path.stem)] = _FILES[path.suffix], path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"the folder {folder} cannot be read: {error}; correct its path") from error
    if not schemas:
        raise InvalidInput(f"the folder {folder} has no schemas; add files such as 17.avsc")
    return schemas


def check_connection(url: str, username: str | None, password: str | None) -> None:
    """Raise `InvalidInput` if the connection to a registry is not valid."""
    try:
        parts = urlsplit(url)
        is_valid = parts.scheme in ("http", "https") and bool(parts.hostname) and "," not in url
    except ValueError:
        is_valid = False
    if not is_valid or parts.username is not None:
        raise InvalidInput(
            "url: invalid address of a registry; give one as https://registry.example:8081, and a user with "
            "username and password"
        )
    if (username is None) != (password is None):
        raise InvalidInput("username and password: only together; give both, or remove one")
    if username is not None and ":" in username:
        raise InvalidInput("username: it has a colon, which HTTP basic authentication does not allow")
