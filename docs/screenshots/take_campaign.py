"""``make screenshots`` too: a campaign by clicking, from its plan to its undoing, for ``docs/campaign.md``.

History is built by the old logic first, in a folder of its own. What a person clicks is clicked here; what the daemon
does is waited for.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping
from typing import Any

from demo_place import REPOSITORY, backfill, daemon, landed_home, webserver
from playwright.sync_api import sync_playwright
from take import PICTURES, TALL, Tour

DAYS, RATED_DAYS, FIRST_DAY = "2017-03-01..2017-03-09", "2017-03-02..2017-03-09", "2017-03-01"
"""The old logic takes the rate of the day before: it has none for the first day."""
FACT = "fact_sales_transactions"
_MADE = """query($path:[String!]!){assetNodeOrError(assetKey:{path:$path}){... on AssetNode{
assetMaterializations(limit:9){partition}}}}"""


def built_by_the_old_logic() -> dict[str, str]:
    environment = landed_home(DAYS)
    bronze = ("bronze_sales", "bronze_fx_rates", "bronze_products")
    backfill("run", *bronze, "--upstream", "--days", DAYS, within=environment)
    backfill("run", FACT, "--downstream", "--days", FIRST_DAY, within=environment)
    backfill("run", FACT, "--downstream", "--version", "v1", "--days", RATED_DAYS, within=environment)
    return environment


class Campaign:
    """What a person does with one campaign."""

    def __init__(self, tour: Tour) -> None:
        self.tour, self.page = tour, tour.page
        self.plan = ""
        self.seconds = 0.0
        """From the last click on a launch to what it was to bring about; looked at once a second."""

    @property
    def partition(self) -> str:
        return self.plan.replace("plan-", "campaign-")

    def write(self, *lines: str) -> None:
        """What the launchpad of ``campaign/planned`` is given."""
        self.tour.open("/assets/campaign/planned?view=overview")
        self.page.get_by_role("button", name="Materialize").first.click()
        self.tour.settle()
        self.page.locator(".CodeMirror").first.click()
        self.page.keyboard.press("Control+a")
        indented = [f"      {line}" for line in lines]
        self.page.keyboard.insert_text("\n".join(["ops:", "  campaign__planned:", "    config:", *indented]))
        self.tour.settle()

    def press_materialize(self) -> None:
        made = self.made("campaign/planned")
        self.page.get_by_role("dialog").get_by_role("button", name="Materialize").click()
        self.until("campaign/planned", made + 1)

    def follow(self, link: str) -> None:
        """A link of the page opens a launchpad that is filled in."""
        self.page.get_by_role("link", name=link).first.click()
        self.page.get_by_role("button", name="Launch Run").wait_for()
        self.tour.settle()

    def press_launch(self, asset: str) -> None:
        made, clicked = self.made(asset), time.monotonic()
        self.page.get_by_role("button", name="Launch Run").click()
        self.until(asset, made + 1)
        self.seconds = time.monotonic() - clicked

    def open_letter(self) -> None:
        """From the page of ``campaign/validated``."""
        letter = self.page.locator(f'a[href$="/{self.plan}"], a[href$="{self.plan}.difference.html"]').first
        self.page.goto(str(letter.get_attribute("href")))

    def made(self, asset: str) -> int:
        node: Mapping[str, Any] = self.tour.asked(_MADE, path=asset.split("/"))["assetNodeOrError"]
        return len(node.get("assetMaterializations", ()))

    def until(self, asset: str, times: int = 1) -> None:
        self.tour.wait_until(lambda: self.made(asset) >= times, f"{asset} to be materialized")


def plan(at: Campaign) -> None:
    at.tour.open("/assets/campaign/planned?view=overview")
    at.page.get_by_role("button", name="Materialize").first.click()
    at.tour.settle()
    at.tour.picture("campaign-1-ask")
    expected = 'expect: ["weekends unchanged", "rows unchanged"]'
    at.write(f"target: {FACT}", f"days: {RATED_DAYS}", "version: v2", expected)
    at.press_materialize()
    at.tour.open("/assets/campaign/planned?view=overview")
    at.plan = at.page.get_by_text(re.compile("^plan-[0-9a-f]{16}$")).first.inner_text()
    at.tour.picture("campaign-2-plan")


def start(at: Campaign) -> None:
    at.follow("Start it")
    at.press_launch("campaign/planned")
    at.until("campaign/validated")


def difference(at: Campaign) -> None:
    at.tour.open(f"/assets/campaign/validated?view=partitions&partition={at.partition}")
    at.tour.picture("campaign-6-difference")
    at.open_letter()
    at.tour.picture("campaign-10-letter")
    at.tour.open(f"/assets/campaign/validated?view=partitions&partition={at.partition}")


def approve(at: Campaign) -> None:
    at.follow("approve and publish")
    at.tour.picture("campaign-7-approve")
    at.press_launch("campaign/cut_over")


def undo(at: Campaign) -> None:
    at.until("campaign/completion_told")
    at.tour.open(f"/assets/campaign/completion_told?view=partitions&partition={at.partition}")
    at.follow("undo it")
    at.press_launch("campaign/rolled_back")
    at.tour.open(f"/assets/campaign/rolled_back?view=partitions&partition={at.partition}")
    at.tour.picture("campaign-9-undone")


def main() -> None:
    environment = built_by_the_old_logic()
    with sync_playwright() as playwright, webserver(environment) as address, daemon(environment):
        browser = playwright.chromium.launch(
            executable_path=os.environ.get("CHROMIUM", "/usr/bin/chromium"), args=["--no-sandbox"]
        )
        at = Campaign(Tour(browser.new_page(viewport=TALL), address))
        at.page.set_default_timeout(60_000)
        at.tour.wait_for_daemon()
        at.tour.open("/asset-groups")
        at.page.get_by_text("Hide navigation").click()  # the browser remembers it
        for scene in (plan, start, difference, approve, undo):
            scene(at)
        browser.close()
    print(f"The pictures are in {PICTURES.relative_to(REPOSITORY)}.")


if __name__ == "__main__":
    main()
