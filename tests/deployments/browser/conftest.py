"""The orders example in a browser: the system's Chromium, and a deployment for all tests of a module."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect, sync_playwright

from benchmarks.harness.waiting import SECONDS
from support.dagster_pages import DagsterPages
from support.orders_deployment import REVENUE, SHARDS, deployed
from support.pictures import take_picture
from support.skipping import give_up

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import dagster as dg
    from playwright.sync_api import Browser, Locator, Page

    from support.orders_deployment import OrdersDeployment

DOCS = Path(__file__).parents[3] / "docs"
VIEW = {"width": 1400, "height": 900}


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """The system's Chromium, without a window. While it runs, this thread can run no other event loop."""
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if program is None:
        give_up("Chromium is not on the PATH")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def shards() -> Sequence[str]:
    """The shards of the stream of a module's deployment."""
    return SHARDS


@pytest.fixture(scope="module")
def last_table() -> dg.AssetKey:
    """The last table that a module's deployment has materialized."""
    return REVENUE


@pytest.fixture(scope="module")
def running_shop(
    environment: None,
    browser: Browser,
    shards: Sequence[str],
    last_table: dg.AssetKey,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[OrdersDeployment]:
    """The deployment of a module's tests."""
    del environment, browser  # without a browser, nothing is started
    with deployed(tmp_path_factory.mktemp("shop"), shards, last_table) as shop:
        yield shop


@pytest.fixture
def shop(running_shop: OrdersDeployment) -> Iterator[OrdersDeployment]:
    """The deployment, in which nothing runs and nothing fails."""
    yield running_shop
    running_shop.faults.clear()
    running_shop.wait_until_idle()


@pytest.fixture
def page(browser: Browser, tmp_path: Path) -> Iterator[Page]:
    """A new tab. What it waits for has minutes to appear. The folder of a failed test has a picture."""
    milliseconds = SECONDS * 1000
    expect.set_options(timeout=milliseconds)
    context = browser.new_context(viewport=VIEW, locale="en-US", timezone_id="UTC")
    context.set_default_timeout(milliseconds)
    page = context.new_page()
    yield page
    page.screenshot(path=tmp_path / "page.png")
    context.close()


@pytest.fixture
def pages(page: Page, shop: OrdersDeployment) -> DagsterPages:
    """The pages of the deployment."""
    return DagsterPages(page, shop.web.url)


@pytest.fixture
def picture(page: Page, tmp_path: Path) -> Callable[..., None]:
    """Takes a picture of parts of the page. `make pictures` writes it to docs/."""
    folder = DOCS if os.environ.get("PICTURES") else tmp_path

    def take(name: str, *parts: Locator) -> None:
        take_picture(page, folder / f"{name}.png", *parts)

    return take
