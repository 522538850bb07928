"""``make screenshots``: walks through the Dagster UI in Chromium, and takes the pictures of ``docs/start.md``.

Everything it starts, it stops; everything it makes but the pictures lies in the demo's own folder.
"""

from __future__ import annotations

import io
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

from demo_place import BAD_DAY, REPOSITORY, daemon, deliver_corrections, fresh_home, webserver
from PIL import Image
from playwright.sync_api import Page, ViewportSize, sync_playwright

PICTURES = Path(__file__).parent
GOOD_DAYS = "[2017-03-01...2017-03-06]"
RANGE_WITH_BAD_DAY = "[2017-03-06...2017-03-07]"
SELECTION = 'tag:"daily"="sales"'
WIDE: ViewportSize = {"width": 1280, "height": 800}
TALL: ViewportSize = {"width": 1280, "height": 980}
_COLOURS = 200
_PATIENCE = 900.0
_RELOADED = 60.0
_ENDED = ("COMPLETED_SUCCESS", "COMPLETED_FAILED", "COMPLETED", "FAILED", "CANCELED")
_BACKFILLS = "{partitionBackfillsOrError{... on PartitionBackfills{results{id status title}}}}"
_RUNS = """query($backfill:String!){runsOrError(filter:{tags:[{key:"dagster/backfill",value:$backfill}]}){... on Runs{
results{id}}}}"""
_DAEMON = '{instance{daemonHealth{daemonStatus(daemonType:"BACKFILL"){healthy}}}}'
_PUBLISHED = """query($day:String!){assetNodeOrError(assetKey:{path:["fact_daily_revenue"]}){... on AssetNode{
latestMaterializationByPartition(partitions:[$day]){runId}}}}"""


class Tour:
    """One browser window on one Dagster UI."""

    def __init__(self, page: Page, address: str) -> None:
        self.page, self.address = page, address

    def open(self, path: str) -> None:
        self.page.goto(f"{self.address}{path}")
        self.settle()

    def settle(self, seconds: float = 3.0) -> None:
        """The UI asks its server again and again: there is no moment when nothing is under way."""
        self.page.wait_for_timeout(seconds * 1000)

    def picture(self, name: str, height: int | None = None) -> None:
        """What the page shows, all of it or down to ``height``."""
        self.page.mouse.move(5, 795)
        self.settle(1.0)
        with Image.open(io.BytesIO(self.page.screenshot())) as whole:
            shot = whole.crop((0, 0, whole.width, height or whole.height))
            shot.convert("RGB").quantize(_COLOURS, dither=Image.Dither.NONE).save(
                PICTURES / f"{name}.png", optimize=True
            )
        print(f"{name}.png", flush=True)

    def asked(self, query: str, **variables: str | list[str]) -> dict[str, Any]:
        """While a code location is loaded again, as when new days have landed, nothing is known of its assets."""
        until = time.monotonic() + _RELOADED
        while True:
            answer = self.page.request.post(
                f"{self.address}/graphql", data={"query": query, "variables": variables}, timeout=60_000
            ).json()
            if found := answer.get("data"):
                return dict(found)
            if time.monotonic() > until:
                raise SystemExit(f"The UI has no answer: {answer.get('errors')}")
            time.sleep(1)

    def backfills(self) -> list[dict[str, str]]:
        """Newest first."""
        found: list[dict[str, str]] = self.asked(_BACKFILLS)["partitionBackfillsOrError"]["results"]
        return found

    def wait_for_daemon(self) -> None:
        self.wait_until(self._daemon_runs, "the daemon to begin")

    def _daemon_runs(self) -> bool:
        return bool(self.asked(_DAEMON)["instance"]["daemonHealth"]["daemonStatus"]["healthy"])

    def wait_until(self, true: Callable[[], bool], what: str) -> None:
        until = time.monotonic() + _PATIENCE
        while not true():
            if time.monotonic() > until:
                raise SystemExit(f"Waited {_PATIENCE:.0f} seconds for {what}.")
            time.sleep(1)


def select_daily_tables(tour: Tour) -> None:
    """Lineage, the filter typed as a person does, with room for the graph."""
    page = tour.page
    tour.open("/asset-groups")
    page.locator(".CodeMirror").first.click()
    page.keyboard.type(SELECTION)
    page.keyboard.press("Enter")
    tour.settle()


def graph(tour: Tour) -> None:
    tour.open("/asset-groups")
    tour.page.get_by_text("Hide navigation").click()  # the browser remembers it
    select_daily_tables(tour)
    # What the page itself puts into its address when groups are clicked; opened anew, it fits them into the window.
    opened = ",".join(f"global@global:{group}" for group in ("raw", "fact", "reports"))
    tour.page.goto(f"{tour.page.url.split('?')[0]}?expanded={quote(opened, safe='')}")
    tour.settle(5.0)
    tour.picture("1-graph")


def choose_days(tour: Tour, days: str) -> None:
    select_daily_tables(tour)
    page = tour.page
    page.get_by_text("Materialize all").first.click()
    typed = page.get_by_placeholder("ex:")
    everything = page.get_by_text("Show all partitions")
    typed.or_(everything).first.wait_for()
    if everything.count():  # so many that the dialog offers the newest ones
        everything.click()
    typed.fill(days)
    typed.press("Enter")
    tour.settle(2.0)


def launch(tour: Tour) -> str:
    """Press the dialog's button; returns the id of the backfill that this made."""
    before = {each["id"] for each in tour.backfills()}
    tour.page.get_by_role("button", name="Launch backfill").click()
    tour.wait_until(lambda: any(each["id"] not in before for each in tour.backfills()), "the backfill to be launched")
    return next(each["id"] for each in tour.backfills() if each["id"] not in before)


def follow(tour: Tour, backfill: str) -> None:
    tour.wait_until(lambda: _status(tour, backfill) in _ENDED, f"the backfill {backfill} to end")
    tour.open(f"/runs/b/{backfill}")


def _status(tour: Tour, backfill: str) -> str:
    return next(each["status"] for each in tour.backfills() if each["id"] == backfill)


def good_days(tour: Tour) -> None:
    choose_days(tour, GOOD_DAYS)
    tour.picture("4-launch")
    backfill = launch(tour)
    tour.page.set_viewport_size(TALL)
    follow(tour, backfill)
    tour.picture("6-done")
    tour.page.set_viewport_size(WIDE)


def bad_day(tour: Tour) -> None:
    choose_days(tour, RANGE_WITH_BAD_DAY)
    backfill = launch(tour)
    follow(tour, backfill)
    failed_gate(tour, backfill)


def failed_gate(tour: Tour, backfill: str) -> None:
    run = tour.asked(_RUNS, backfill=backfill)["runsOrError"]["results"][0]["id"]
    tour.open(f"/runs/{run}?logs=type%3ASTEP_FAILURE")
    tour.picture("8-failed-run", height=540)  # below it, a stack trace names the machine's folders
    tour.open("/assets/bronze_sales?view=checks&checkDetail=few_rejected")
    tour.page.get_by_text("Execution history").click()
    tour.settle()
    tour.picture("9-failed-gate")


def fixed(tour: Tour) -> None:
    """Nothing is clicked: sensors find the corrected file, and build what is computed from it."""
    deliver_corrections()
    tour.wait_until(lambda: _published(tour), f"{BAD_DAY} to be published")
    tour.wait_until(lambda: all(each["status"] in _ENDED for each in tour.backfills()), "the last backfill to end")


def _published(tour: Tour) -> bool:
    node = tour.asked(_PUBLISHED, day=BAD_DAY)["assetNodeOrError"]
    return any(node["latestMaterializationByPartition"])


def one_day(tour: Tour) -> None:
    tour.open(f"/assets/fact_daily_revenue?view=partitions&partition={BAD_DAY}")
    tour.picture("11-partition")
    tour.page.mouse.move(900, 600)
    tour.page.mouse.wheel(0, 600)
    tour.picture("12-quality")


def main() -> None:
    environment = fresh_home()
    with sync_playwright() as playwright, webserver(environment) as address:
        browser = playwright.chromium.launch(
            executable_path=os.environ.get("CHROMIUM", "/usr/bin/chromium"), args=["--no-sandbox"]
        )
        tour = Tour(browser.new_page(viewport=WIDE), address)
        tour.page.set_default_timeout(60_000)
        graph(tour)
        with daemon(environment):
            tour.wait_for_daemon()
            for scene in (good_days, bad_day, fixed, one_day):
                scene(tour)
        browser.close()
    print(f"The pictures are in {PICTURES.relative_to(REPOSITORY)}.")


if __name__ == "__main__":
    main()
