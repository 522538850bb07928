"""Links open pages and launchpads of the UI, with all that a person would otherwise have to write."""

from __future__ import annotations

from urllib.parse import parse_qs, urlsplit

import yaml

from backfill_assets.defs.campaigns.jobs import PLANNED
from backfill_assets.defs.campaigns.pages import EFFECT_TAG, WITHOUT_HELD_BACK_TAG, Pages, op_name
from backfill_assets.defs.private_dagster import PARTITION_NAME_TAG

PAGES = Pages("a_location")


def test_the_launchpad_that_starts_a_plan_is_filled_in() -> None:
    link = urlsplit(PAGES.start("plan-1"))
    assert link.path == "/locations/a_location/jobs/plan_a_campaign/playground/setup"
    (config,) = parse_qs(link.query)["config"]
    assert yaml.safe_load(config) == {"ops": {op_name(PLANNED): {"config": {"plan": "plan-1", "start": True}}}}


def test_the_launchpads_that_approve_and_undo_name_the_campaign_and_say_what_happens() -> None:
    for link in (PAGES.approve("campaign-1", "publishes 2 days"), PAGES.undo("campaign-1", "publishes 2 days")):
        found = parse_qs(urlsplit(link).query)
        tags = {found[f"tags[{n}][key]"][0]: found[f"tags[{n}][value]"][0] for n in (0, 1)}
        assert tags == {PARTITION_NAME_TAG: "campaign-1", EFFECT_TAG: "publishes 2 days"}
        assert " " not in link and "(" not in link and ")" not in link, "Markdown would end the link there"


def test_the_launchpad_of_an_approver_has_the_name() -> None:
    """And the tag that leaves out what is held back, if there is something."""
    found = parse_qs(urlsplit(PAGES.approve("c", "publishes", user="ana o", without_held_back=True)).query)
    tags = {found[f"tags[{n}][key]"][0]: found[f"tags[{n}][value]"][0] for n in range(4)}
    assert tags.pop(PARTITION_NAME_TAG) == "c" and tags.pop(EFFECT_TAG) == "publishes"
    assert tags == {"user": "ana o", WITHOUT_HELD_BACK_TAG: "true"}


def test_a_page_of_an_asset_shows_the_campaign() -> None:
    assert PAGES.asset(PLANNED) == "/assets/campaign/planned?view=overview"
    assert PAGES.asset(PLANNED, "campaign-1") == "/assets/campaign/planned?view=partitions&partition=campaign-1"
    assert PAGES.run("r1") == "/runs/r1"
