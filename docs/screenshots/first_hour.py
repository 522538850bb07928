"""``make first-hour``: what a new user does in the first hour, in Chromium; says what is not on the page.

A lakehouse of its own gets some days by ``backfill demo --with-the-bug``, and ``make dev``'s processes are started on
it. Then everything is clicked: the first page, a range, a campaign from its plan to its undoing. Each step asserts what
a person reads there, and prints how long it took. Pictures go to the folder that ``PICTURES`` names, if it is set.
"""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from demo_place import HOME, answered, backfill, empty_home, running
from playwright.sync_api import expect, sync_playwright
from take import TALL, Tour, launch
from take_campaign import APPROVE_JOB, JOB, PUBLISHED, UNDO_JOB, UNDONE, WAITS, Campaign

from backfill_assets.spark.connect_server import free_port

DAYS = os.environ.get("FIRST_HOUR_DAYS", "2017-03-01..2017-03-12")
FACT = "fact_sales_transactions"
REVENUE = "fact_daily_revenue"
CHECKS = ("revenue_agrees_with_fact", "keys_unique", "contract_holds", "fresh", "watchdog")
_FOLDER = os.environ.get("PICTURES")
_SETTLED = 120_000
_ENDED = ("COMPLETED_SUCCESS", "COMPLETED_FAILED", "CANCELED", "FAILED")
_RUNS = """query($backfill:String!){runsOrError(filter:{tags:[{key:"dagster/backfill",value:$backfill}]}){... on Runs{
results{eventConnection{events{... on MessageEvent{message}}}}}}}"""


class FirstHour:
    """One person at one browser, and what each thing took."""

    def __init__(self, tour: Tour, environment: dict[str, str]) -> None:
        self.tour, self.page, self.environment = tour, tour.page, environment
        self.campaign = Campaign(tour)
        self.clicked = 0.0
        """When the button of a range's dialog was pressed last."""

    def reads(self, *words: str | re.Pattern[str]) -> None:
        """Fails unless the page shows all of ``words``."""
        for each in words:
            expect(self.page.get_by_text(each).first).to_be_visible(timeout=_SETTLED)

    def holds(self, condition: bool, what: str) -> None:
        if not condition:
            raise SystemExit(f"Not so: {what}. The page was {self.page.url}.")

    def picture(self, name: str) -> None:
        if _FOLDER:
            self.tour.settle()
            self.page.screenshot(path=Path(_FOLDER) / f"{name}.png")

    def step(self, name: str, do: Callable[[], None]) -> None:
        started, self.campaign.seconds = time.monotonic(), 0.0
        do()
        clicked = f", of which {self.campaign.seconds:.1f} s from the last click on" if self.campaign.seconds else ""
        print(f"{name}: {time.monotonic() - started:.0f} s{clicked}", flush=True)
        self.picture(name.replace(" ", "-"))

    # ------------------------------------------------------------- what is clicked

    def first_page(self) -> None:
        self.tour.open("/assets/start_here?view=overview")
        self.reads("1. Launch a range.", "2. Let sensors repair.", "3. Materialize in CI.", "needs a person now")

    def lineage(self) -> None:
        self.page.get_by_role("link", name=f"The lineage of {FACT}").first.click()
        self.reads("Materialize all")

    def range_is_launched(self) -> None:
        """The same days by the current logic, without a campaign: each table changes at once."""
        made = self.launched()
        self.tour.wait_until(lambda: _status(self.tour, made) in _ENDED, "the range to be built")
        self.holds(_status(self.tour, made) == "COMPLETED_SUCCESS", f"the backfill {made} succeeded")

    def run_is_killed(self) -> None:
        """With -9, while it computes: a check that it did not come to is not shown as failed."""
        made = self.launched()
        self.tour.wait_until(lambda: bool(_process(self.tour, made)), "a run to say which process it is")
        os.kill(int(_process(self.tour, made)), signal.SIGKILL)
        self.tour.wait_until(lambda: _status(self.tour, made) in _ENDED, "the killed run to be noticed")
        self.tour.wait_until(self.says_not_run, "its checks to say that they were not run")
        self.holds(not self.page.get_by_text("Failed", exact=True).count(), "no check is shown as failed")

    def says_not_run(self) -> bool:
        """A warm run may have come to all checks but the last before it was killed."""
        for check in CHECKS:
            self.tour.open(f"/assets/{REVENUE}?view=checks&checkDetail={check}")
            if self.page.get_by_text(re.compile("not run in ")).count():
                return True
        return False

    def one_day_is_published(self) -> None:
        """Of the fact and all that is made of it; the campaign is undone before, so that there is something to do."""
        backfill("rollback", self.campaign.plan, "--yes", within=self.environment)
        made = self.launched(DAYS.partition("..")[0])
        self.tour.wait_until(lambda: bool(_process(self.tour, made)), "its run to start")
        print(f"from the click to the run's start: {time.monotonic() - self.clicked:.1f} s", flush=True)
        self.tour.wait_until(lambda: _status(self.tour, made) in _ENDED, "the day to be built")
        self.campaign.seconds = time.monotonic() - self.clicked
        self.holds(_status(self.tour, made) == "COMPLETED_SUCCESS", f"the backfill {made} succeeded")

    def launched(self, days: str = DAYS) -> str:
        """The backfill that the dialog made of ``days``."""
        self.tour.open("/assets/start_here?view=overview")
        self.lineage()
        self.page.get_by_text("Materialize all").first.click()
        self.tour.settle()
        self.picture("dialog")
        typed = self.page.get_by_placeholder("ex:")
        first, _, last = days.partition("..")
        typed.fill(f"[{first}...{last or first}]")
        typed.press("Enter")
        self.tour.settle()
        self.picture("dialog-with-days")
        self.clicked = time.monotonic()
        return launch(self.tour)

    def checks_are_right(self) -> None:
        self.tour.open(f"/assets/{REVENUE}?view=checks")
        self.reads(*CHECKS)
        self.holds(not self.page.get_by_text("Failed", exact=True).count(), "no check is shown as failed")

    def plan(self) -> None:
        self.campaign.open_launchpad()
        self.reads("target", "days")
        self.campaign.write(f"target: {FACT}", f"days: {DAYS}", "version: v2", 'expect: ["rows unchanged"]')
        self.campaign.plan = self.campaign.planned_by(self.campaign.launch_well(JOB))
        self.campaign.open()
        self.reads("found", "next", "to do", "Start it")

    def staged_and_compared(self) -> None:
        self.campaign.follow("Start it")
        self.campaign.launch_well(JOB, WAITS)
        self.campaign.open()
        self.reads(WAITS, f"backfill approve {self.campaign.plan}", "letter")

    def letter(self) -> None:
        self.campaign.open_letter()
        self.reads(re.compile("who may approve", re.IGNORECASE), re.compile("undo", re.IGNORECASE))
        self.holds(not self.page.get_by_text("Not staged yet").count(), "every planned day is accounted for")

    def approved(self) -> None:
        """From the letter, by its link."""
        self.page.get_by_role("link", name="Its page in the UI").first.click()
        self.campaign.follow("approve and publish")
        self.campaign.launch_well(APPROVE_JOB, PUBLISHED)

    def undone(self) -> None:
        self.campaign.open()
        self.reads("The notice is sent.")
        self.campaign.follow("undo it")
        self.campaign.launch_well(UNDO_JOB, UNDONE)
        self.campaign.open()
        self.reads(re.compile(UNDONE))

    # ------------------------------------------------------------- a plan as a file, that lists who may approve it

    def plan_with_approvers(self) -> None:
        """Written, planned and started in a terminal; the daemon stages it."""
        file = HOME / "rates.yaml"
        file.write_text(
            f"title: Rates of the right day\nreason: v1 took those of the day before.\ntarget: {FACT}\n"
            f"days: {DAYS}\nversion: v2\nexpectations: [rows unchanged]\napprovers: [ana, bela]\n"
        )
        said = backfill("plan", "-f", str(file), within=self.environment)
        self.campaign.plan = re.findall(r"plan-[0-9a-f]{16}", said)[-1]
        backfill("run", self.campaign.plan, "--daemon", within=self.environment)
        self.campaign.until(WAITS)
        self.campaign.open()
        self.reads("Who may approve: ana or bela.", "approve as ana", "approve as bela")

    def refused_without_a_name(self) -> None:
        self.campaign.follow("approve and publish")
        self.campaign.launch(APPROVE_JOB)
        self.reads(re.compile("cannot be approved by"))
        self.holds(not self.campaign.times_said(PUBLISHED), "nothing was published")

    def approved_by_name(self) -> None:
        self.campaign.open()
        self.campaign.follow("approve as bela")
        self.campaign.launch_well(APPROVE_JOB, PUBLISHED)
        self.campaign.open()
        self.reads("undo it")


def _process(tour: Tour, made: str) -> str:
    """The process that the first run of a backfill says to be, once it does; else nothing."""
    runs = tour.asked(_RUNS, backfill=made)["runsOrError"]["results"]
    events = [event for run in runs for event in run["eventConnection"]["events"]]
    said = (re.search(r"\(pid: (\d+)\)", event.get("message", "")) for event in events)
    return next((found[1] for found in said if found), "")


def _status(tour: Tour, made: str) -> str:
    return next(each["status"] for each in tour.backfills() if each["id"] == made)


@contextmanager
def dev(environment: dict[str, str]) -> Iterator[str]:
    """The address of the UI of ``make dev``'s processes."""
    port = free_port()
    with running("dev", ["-m", "backfill_assets.cli", "dev", str(port)], environment):
        answered(f"http://127.0.0.1:{port}/server_info")
        yield f"http://127.0.0.1:{port}"


def main() -> None:
    environment = empty_home()
    started = time.monotonic()
    backfill("demo", "--with-the-bug", "--days", DAYS, within=environment)
    print(f"demo with the bug: {time.monotonic() - started:.0f} s", flush=True)
    started = time.monotonic()
    with sync_playwright() as playwright, dev(environment) as address:
        browser = playwright.chromium.launch(
            executable_path=os.environ.get("CHROMIUM", "/usr/bin/chromium"), args=["--no-sandbox"]
        )
        hour = FirstHour(Tour(browser.new_page(viewport=TALL), address), environment)
        hour.page.set_default_timeout(60_000)
        hour.tour.wait_for_daemon()
        print(f"the UI is useful: {time.monotonic() - started:.0f} s", flush=True)
        for name in (
            *("first_page", "checks_are_right", "plan", "staged_and_compared", "letter", "approved", "undone"),
            *("plan_with_approvers", "refused_without_a_name", "approved_by_name"),
            *("run_is_killed", "range_is_launched", "one_day_is_published", "checks_are_right"),
        ):
            hour.step(name.replace("_", " "), getattr(hour, name))
        browser.close()
    print(f"Played in {HOME}.")


if __name__ == "__main__":
    main()
