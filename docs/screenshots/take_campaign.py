"""``make screenshots`` too: a campaign by clicking, from its plan to its undoing, for ``docs/campaign.md``.

History is built by the old logic first, in a folder of its own. What a person clicks is clicked here; what a run or the
daemon does is waited for.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from typing import Any

from demo_place import REPOSITORY, backfill, daemon, landed_home, webserver
from playwright.sync_api import sync_playwright
from take import PICTURES, TALL, Tour

from backfill_assets.campaign.standing import is_page_of
from backfill_assets.ui_addresses import asset_page

DAYS, RATED_DAYS, FIRST_DAY = "2017-03-01..2017-03-09", "2017-03-02..2017-03-09", "2017-03-01"
"""The old logic takes the rate of the day before: it has none for the first day."""
FACT = "fact_sales_transactions"
ASSET, JOB, APPROVE_JOB, UNDO_JOB = "campaign", "campaign", "approve_campaign", "undo_campaign"
JOB_PAGE = f"/locations/backfill_assets/jobs/{JOB}"
WAITS, PUBLISHED, TOLD, UNDONE = (
    "It waits for approval",
    "Published: ",
    "The notice is sent",
    "are as before",
)
"""What the page says when everything is compared, when it is published, when that was told, and when it is undone."""
_CAMPAIGN_TAG = "backfill/campaign"
_ENDED = ("SUCCESS", "FAILURE", "CANCELED")
_ENTRIES = "metadataEntries{label ... on MarkdownMetadataEntry{mdStr}}"
_PAGES = f"""query{{assetNodeOrError(assetKey:{{path:["{ASSET}"]}}){{... on AssetNode{{partitionKeys}}}}}}"""
_SAID = f"""query{{assetOrError(assetKey:{{path:["{ASSET}"]}}){{... on Asset{{assetEventHistory(
limit:100 eventTypeSelectors:[MATERIALIZATION,OBSERVATION]){{results{{
... on MaterializationEvent{{{_ENTRIES}}} ... on ObservationEvent{{{_ENTRIES}}}}}}}}}}}}}"""
_RUNS = """query($job:String!){runsOrError(filter:{pipelineName:$job}){... on Runs{
results{id status tags{key value}}}}}"""


def built_by_the_old_logic() -> dict[str, str]:
    environment = landed_home(DAYS)
    bronze = ("bronze_sales", "bronze_fx_rates", "bronze_products")
    backfill("run", *(f"+{table}" for table in bronze), "--days", DAYS, within=environment)
    backfill("run", f"{FACT}+", "--days", FIRST_DAY, within=environment)
    backfill("run", f"{FACT}+", "--version", "v1", "--days", RATED_DAYS, within=environment)
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
        """Its name is another one with each state."""
        pages: list[str] = self.tour.asked(_PAGES)["assetNodeOrError"]["partitionKeys"]
        return next(each for each in pages if is_page_of(each, self.plan.replace("plan-", "campaign-")))

    def open(self) -> None:
        """Its page."""
        self.tour.open(asset_page(ASSET, self.partition))

    # ------------------------------------------------------------- the launchpad

    def open_launchpad(self) -> None:
        """That of the job that plans, from the page of the job."""
        self.tour.open(JOB_PAGE)
        self.page.get_by_role("tab", name="Launchpad").click()
        self.page.get_by_role("button", name="Launch Run").wait_for()
        self.tour.settle()

    def write(self, *lines: str) -> None:
        """What the launchpad is given."""
        self.page.locator(".CodeMirror").first.click()
        self.page.keyboard.press("Control+a")
        indented = [f"      {line}" for line in lines]
        self.page.keyboard.insert_text("\n".join(["ops:", "  carry_on:", "    config:", *indented]))
        self.tour.settle()

    def follow(self, link: str) -> None:
        """A link of the page opens a launchpad that is filled in."""
        self.page.get_by_role("link", name=link).first.click()
        self.page.get_by_role("button", name="Launch Run").wait_for()
        self.tour.settle()

    def launch(self, job: str, words: str = "") -> str:
        """Press the button, wait until the page has ``words`` that it did not have, then for the run's end; its id."""
        before, times, clicked = {run["id"] for run in self.runs(job)}, self.times_said(words), time.monotonic()
        self.page.get_by_role("button", name="Launch Run").click()
        self.tour.wait_until(lambda: any(run["id"] not in before for run in self.runs(job)), f"a run of {job}")
        made = next(run["id"] for run in self.runs(job) if run["id"] not in before)
        if words:
            self.tour.wait_until(
                lambda: self.times_said(words) > times or self.status(job, made) == "FAILURE", f"{words!r} on its page"
            )
            self.seconds = time.monotonic() - clicked
        self.tour.wait_until(lambda: self.status(job, made) in _ENDED, f"the run {made} to end")
        return made

    def launch_well(self, job: str, words: str = "") -> str:
        """As ``launch``, of a run that has to succeed."""
        made = self.launch(job, words)
        if self.status(job, made) != "SUCCESS":
            raise SystemExit(f"The run {made} of {job} failed: {self.tour.address}/runs/{made}")
        return made

    # ------------------------------------------------------------- what Dagster has of it

    def runs(self, job: str) -> list[dict[str, Any]]:
        """Newest first."""
        found: list[dict[str, Any]] = self.tour.asked(_RUNS, job=job)["runsOrError"]["results"]
        return found

    def status(self, job: str, made: str) -> str:
        return str(next(run["status"] for run in self.runs(job) if run["id"] == made))

    def planned_by(self, made: str) -> str:
        """The plan that a run has made, by its tag."""
        (run,) = (run for run in self.runs(JOB) if run["id"] == made)
        (name,) = (tag["value"] for tag in run["tags"] if tag["key"] == _CAMPAIGN_TAG)
        return str(name).replace("campaign-", "plan-")

    def said(self) -> Iterator[str]:
        """All that was ever on the pages of campaigns, entry by entry: of a state that is over the page is gone."""
        found = self.tour.asked(_SAID)["assetOrError"]
        for event in found.get("assetEventHistory", {}).get("results", ()):
            yield from (str(entry.get("mdStr", "")) for entry in event.get("metadataEntries", ()))

    def times_said(self, words: str) -> int:
        return sum(words in text for text in self.said()) if words and self.plan else 0

    def until(self, words: str, times: int = 1) -> None:
        self.tour.wait_until(lambda: self.times_said(words) >= times, f"{words!r} on the page of {self.partition}")

    def open_letter(self) -> None:
        """From its page."""
        letter = self.page.locator(f'a[href$="/{self.plan}"], a[href$="{self.plan}.difference.html"]').first
        self.page.goto(str(letter.get_attribute("href")))


def plan(at: Campaign) -> None:
    at.open_launchpad()
    at.tour.picture("campaign-1-ask")
    expected = 'expect: ["weekends unchanged", "rows unchanged"]'
    at.write(f"target: {FACT}", f"days: {RATED_DAYS}", "version: v2", expected)
    at.plan = at.planned_by(at.launch_well(JOB))
    at.open()
    at.tour.picture("campaign-2-plan")


def start(at: Campaign) -> None:
    at.follow("Start it")
    at.launch_well(JOB, WAITS)


def difference(at: Campaign) -> None:
    at.open()
    at.tour.picture("campaign-6-difference")


def approve(at: Campaign) -> None:
    at.open()
    at.follow("approve and publish")
    at.tour.picture("campaign-7-approve")
    at.launch_well(APPROVE_JOB, PUBLISHED)


def undo(at: Campaign) -> None:
    at.open()
    at.follow("undo it")
    at.launch_well(UNDO_JOB, UNDONE)
    at.open()
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
