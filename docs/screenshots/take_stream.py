"""``make screenshots`` too: the page of a stream while it runs, for ``docs/stream.md``.

Sales land by the second in a folder of their own, and a click starts the stream.
"""

from __future__ import annotations

import os
from typing import Any

from demo_place import REPOSITORY, daemon, empty_home, running, webserver
from playwright.sync_api import ViewportSize, sync_playwright
from take import PICTURES, TALL, Tour

ASSET = "stream_sales"
LONG: ViewportSize = {"width": 1280, "height": 1500}
POINTS = 3
"""So many points with the state live are in its plots when the picture is taken: one a minute."""
_MADE = """query($path:[String!]!){assetNodeOrError(assetKey:{path:$path}){... on AssetNode{
assetMaterializations(limit:99){runId metadataEntries{label ... on TextMetadataEntry{text}}}}}}"""
_RUN = "query($run:ID!){runOrError(runId:$run){... on Run{status}}}"
_TERMINATE = "mutation($run:String!){terminateRun(runId:$run){__typename}}"
_ENDED = ("SUCCESS", "FAILURE", "CANCELED")


def materializations(tour: Tour) -> list[dict[str, Any]]:
    """Newest first."""
    found: list[dict[str, Any]] = tour.asked(_MADE, path=[ASSET])["assetNodeOrError"].get("assetMaterializations", [])
    return found


def start(tour: Tour) -> None:
    tour.open(f"/assets/{ASSET}?view=overview")
    tour.page.get_by_role("button", name="Materialize").first.click()
    tour.settle()


def live_points(tour: Tour) -> int:
    entries = [entry for each in materializations(tour) for entry in each["metadataEntries"]]
    return sum((entry["label"], entry.get("text")) == ("state", "live") for entry in entries)


def picture(tour: Tour) -> None:
    """The metadata and its plots: what is above them on the page is folded."""
    tour.page.set_viewport_size(LONG)
    tour.open(f"/assets/{ASSET}?view=overview")
    for section in ("Status", "Description"):
        tour.page.get_by_text(section, exact=True).first.click()
    tour.picture("stream-1-live")
    tour.page.get_by_role("button", name="Plots").or_(tour.page.get_by_text("Plots", exact=True)).first.click()
    tour.settle()
    tour.picture("stream-2-plots")


def stop(tour: Tour) -> None:
    """Terminating its run is how a person stops it."""
    run = materializations(tour)[0]["runId"]
    tour.asked(_TERMINATE, run=run)
    tour.wait_until(lambda: tour.asked(_RUN, run=run)["runOrError"]["status"] in _ENDED, "the stream to stop")


def main() -> None:
    environment = empty_home()
    live = ["-m", "backfill_assets.cli", "sample", "live", "--events-per-second", "50"]
    with sync_playwright() as playwright, webserver(environment) as address, daemon(environment):
        browser = playwright.chromium.launch(
            executable_path=os.environ.get("CHROMIUM", "/usr/bin/chromium"), args=["--no-sandbox"]
        )
        tour = Tour(browser.new_page(viewport=TALL), address)
        tour.page.set_default_timeout(60_000)
        tour.wait_for_daemon()
        tour.open("/asset-groups")
        tour.page.get_by_text("Hide navigation").click()  # the browser remembers it
        start(tour)
        with running("live", live, environment):
            tour.wait_until(lambda: live_points(tour) >= POINTS, f"{POINTS} points of the live stream")
            picture(tour)
        stop(tour)
        browser.close()
    print(f"The pictures are in {PICTURES.relative_to(REPOSITORY)}.")


if __name__ == "__main__":
    main()
