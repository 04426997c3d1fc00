"""Small pictures of web pages."""

from __future__ import annotations

from io import BytesIO
from typing import TYPE_CHECKING

from PIL import Image

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Locator, Page

_MARGIN = 4


def take_picture(page: Page, path: Path, *parts: Locator) -> None:
    """Write a PNG of a page with a palette.

    Args:
        path: The file.
        parts: The parts of the page that the picture shows, with a margin; by default, all that is visible.
    """
    page.mouse.move(0, 0)  # nothing is highlighted
    picture = Image.open(BytesIO(page.screenshot(animations="disabled", caret="hide"))).convert("RGB")
    if parts:
        picture = picture.crop(_box_of(picture, *parts))
    picture.quantize(256, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE).save(path, optimize=True)


def _box_of(picture: Image.Image, *parts: Locator) -> tuple[int, int, int, int]:
    boxes = [box for part in parts if (box := part.bounding_box()) is not None]
    left, top = min(box["x"] for box in boxes), min(box["y"] for box in boxes)
    right, bottom = (
        max(box["x"] + box["width"] for box in boxes),
        max(box["y"] + box["height"] for box in boxes),
    )
    return (
        max(int(left) - _MARGIN, 0),
        max(int(top) - _MARGIN, 0),
        min(int(right) + _MARGIN, picture.width),
        min(int(bottom) + _MARGIN, picture.height),
    )
