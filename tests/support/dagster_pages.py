"""What a person does in Dagster's web pages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from playwright.sync_api import Page, expect

if TYPE_CHECKING:
    from collections.abc import Sequence

    from playwright.sync_api import Locator


@dataclass(frozen=True)
class DagsterPages:
    """The pages of a web server, in one tab of a browser.

    Attributes:
        page: The tab.
        url: The URL of the web server.
    """

    page: Page
    url: str

    def hide_navigation(self) -> None:
        """Hide the names in the navigation, so that there is more space for the rest of each page."""
        self.page.goto(self.url)
        self.page.get_by_role("button", name="Hide navigation").click()

    def open_lineage(self, asset: str) -> Locator:
        """Open the lineage of all assets, and return the graph that has an asset."""
        self.page.goto(f"{self.url}/asset-groups")
        return self.page.locator("svg").filter(has_text=asset)

    def open_asset(self, key: Sequence[str], tab: str) -> None:
        """Open a tab of an asset's page."""
        self.page.goto(f"{self.url}/assets/{'/'.join(key)}")
        self.page.get_by_role("tab", name=tab, exact=True).click()

    def materialize(self, partition: str | None = None) -> None:
        """Materialize a partition of the asset whose page is open; by default, all."""
        self.page.get_by_role("button", name="Materialize…").click()
        dialog = self.page.get_by_role("dialog").filter(has_text="Launch runs to materialize")
        if partition is None:
            dialog.get_by_role("button", name="All", exact=True).click()
        else:
            dialog.get_by_text("Select a partition or create one").click()
            in_menu = dialog.get_by_role("menuitem", name=partition)
            in_menu.click()
            dialog.get_by_text(
                "Launch runs to materialize"
            ).click()  # closes the menu, which may cover buttons
            expect(in_menu).to_have_count(0)
        launch = "Launch backfill" if partition is None else "Launch 1 run"
        dialog.get_by_role("button", name=launch).click()
        expect(dialog).to_be_hidden()

    def events(self) -> list[Locator]:
        """Return the rows of the list of events of the asset whose page is open, newest first."""
        rows = self.page.locator("[data-index]")
        expect(rows.first).to_be_visible()
        return rows.all()

    def metadata(self, name: str) -> Locator:
        """Return the row of a metadata key on the page that is open."""
        key = self.page.get_by_text(name, exact=True)
        return self.page.get_by_role("row").filter(has=key)

    def plot(self, name: str) -> Locator:
        """Return the plot of a number of an asset's events, with its name."""
        title, canvas = self.page.get_by_text(name, exact=True), self.page.locator("canvas")
        return self.page.locator("div").filter(has=title).filter(has=canvas).last

    def open_run(self, run_id: str) -> None:
        """Open the page of a run."""
        self.page.goto(f"{self.url}/runs/{run_id}")

    def expect_run_status(self, status: str) -> None:
        """Wait until the page of a run shows a status."""
        expect(self.page.get_by_text(status, exact=True).first).to_be_visible()

    def open_job(self, job: str) -> None:
        """Open the launchpad of a job."""
        self.page.goto(self.url)
        self.page.get_by_role("link", name="Jobs").click()
        self.page.get_by_role("link", name=job).first.click()
        self.page.get_by_role("tab", name="Launchpad").click()

    def launch_job(self, config: str) -> str:
        """Launch a run from the launchpad that is open, and return its id. Its page opens."""
        editor = self.page.locator(".CodeMirror").first
        editor.click()
        self.page.keyboard.press("ControlOrMeta+A")
        self.page.keyboard.insert_text(config)
        self.page.get_by_role("button", name="Launch Run").click()
        self.page.wait_for_url("**/runs/*")
        return self.page.url.rpartition("/")[2]
