"""``make letter``: the letter of eight real days, as the README and ``docs/campaign.md`` show it.

Rates of the day before are replaced by those of the day itself: planned and staged in a terminal, without Dagster.
"""

from __future__ import annotations

import json
import os

from demo_place import HOME
from playwright.sync_api import sync_playwright
from take import TALL, Tour
from take_campaign import FACT, RATED_DAYS, backfill, built_by_the_old_logic

EXPECTED = ("weekends unchanged", "rows unchanged")


def main() -> None:
    environment = built_by_the_old_logic()
    expected = [word for each in EXPECTED for word in ("--expect", each)]
    planned = backfill("plan", FACT, "--days", RATED_DAYS, "--version", "v2", *expected, "--json", within=environment)
    plan, letter = json.loads(planned)["plan"], HOME / "letter.html"
    backfill("run", plan, within=environment)
    backfill("diff", plan, "--html", str(letter), within=environment)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=os.environ.get("CHROMIUM", "/usr/bin/chromium"), args=["--no-sandbox"]
        )
        tour = Tour(browser.new_page(viewport=TALL), letter.as_uri())
        tour.page.goto(tour.address)
        tour.picture("letter")
        browser.close()


if __name__ == "__main__":
    main()
