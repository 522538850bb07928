"""``make screenshots`` too: the page of a timeline, for ``docs/timelines.md``.

Four days are built, and by an older version of the logic again on a timeline; a sensor shows it.
"""

from __future__ import annotations

import os

from demo_place import REPOSITORY, backfill, daemon, landed_home, webserver
from playwright.sync_api import ViewportSize, sync_playwright
from take import PICTURES, Tour

DAYS = "2017-03-01..2017-03-04"
FACT, NAME, ASSET = "fact_sales_transactions", "with-v1", "timelines"
PAGE: ViewportSize = {"width": 1280, "height": 1080}
_MADE = """query($path:[String!]!){assetNodeOrError(assetKey:{path:$path}){... on AssetNode{
assetMaterializations(limit:9){partition}}}}"""


def build(environment: dict[str, str]) -> None:
    """What a person types before there is something to see."""
    backfill("run", "+fact_daily_revenue", "--days", DAYS, within=environment)
    backfill("timeline", "create", NAME, within=environment)
    backfill("timeline", "keep", NAME, "--for", "90", within=environment)
    backfill("run", FACT, "--version", "v1", "--days", DAYS, "--on", NAME, within=environment)
    backfill("run", "fact_daily_revenue", "--days", DAYS, "--on", NAME, within=environment)


def is_shown(tour: Tour) -> bool:
    found = tour.asked(_MADE, path=[ASSET])["assetNodeOrError"].get("assetMaterializations", [])
    return any(each["partition"] == NAME for each in found)


def main() -> None:
    environment = landed_home(DAYS)
    build(environment)
    with sync_playwright() as playwright, webserver(environment) as address, daemon(environment):
        browser = playwright.chromium.launch(
            executable_path=os.environ.get("CHROMIUM", "/usr/bin/chromium"), args=["--no-sandbox"]
        )
        tour = Tour(browser.new_page(viewport=PAGE), address)
        tour.page.set_default_timeout(60_000)
        tour.wait_for_daemon()
        tour.open("/asset-groups")
        tour.page.get_by_text("Hide navigation").click()  # the browser remembers it
        tour.wait_until(lambda: is_shown(tour), "the sensor to show the timeline")
        tour.open(f"/assets/{ASSET}?view=partitions&partition={NAME}")
        tour.picture("timelines-1-page")
        browser.close()
    print(f"The picture is in {PICTURES.relative_to(REPOSITORY)}.")


if __name__ == "__main__":
    main()
