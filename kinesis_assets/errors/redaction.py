"""Removes credentials from texts that are shown."""

from __future__ import annotations

import re

MASK = "***"
"""The text that replaces a credential."""

_SECRETS = re.compile(
    # If AWS rejects a signature, it repeats the request's headers. This one is a credential.
    r"(?<=x-amz-security-token)[:=]\s*[^\s<>&'\"]+"
    r"|(?<=<token-\d>)[^<]+"  # S3 repeats a token that it rejects
    r"|(?<=//)[^\s<>'\"/]*:[^\s<>'\"@]*@",
    re.IGNORECASE,
)

_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


def mask_secrets(text: str) -> str:
    """Return a text without session tokens and passwords in URLs."""
    return _SECRETS.sub(MASK, text)


def without_secrets(text: str) -> str:
    """Return a message as one printable line, without session tokens and passwords in URLs."""
    line = mask_secrets(" ".join(_COLOURS.sub("", text).split()))
    return "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode() for letter in line
    )
