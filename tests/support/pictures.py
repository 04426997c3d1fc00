"""Small pictures of web pages."""

from __future__ import annotations

from io import BytesIO
from typing import TYPE_CHECKING

from PIL import Image

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import FloatRect, Page


def take_picture(page: Page, path: Path, *, clip: FloatRect | None = None) -> None:
    """Write a PNG of a page with a palette of at most 256 colors.

    Args:
        page: The page.
        path: The file.
        clip: The part of the page; by default, all that is visible.
    """
    shot = Image.open(BytesIO(page.screenshot(clip=clip, animations="disabled", caret="hide")))
    small = shot.convert("RGB").quantize(256, dither=Image.Dither.NONE)
    small.save(path, optimize=True)
