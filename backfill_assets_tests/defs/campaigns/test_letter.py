"""The step that compares links to the letter, where a browser can open it."""

from __future__ import annotations

from backfill_assets.defs.campaigns.letter import letter_link
from backfill_assets.lakehouse.campaign_journal import STEPS, CampaignStep

PAGE = {"report": "/data/lake house/_plans/plan-x.difference.html"}
VALIDATE = CampaignStep.VALIDATE


def test_the_letter_is_linked_where_it_is_served() -> None:
    """A browser opens no file from a page of the network."""
    (found,) = letter_link(VALIDATE, PAGE, "plan-x", "http://127.0.0.1:3001").values()
    assert found.value == "http://127.0.0.1:3001/plan-x"


def test_without_a_server_the_file_is_named() -> None:
    """As an address: of a file, or of an object in a bucket."""
    (found,) = letter_link(VALIDATE, PAGE, "plan-x", "").values()
    assert found.value == "file:///data/lake%20house/_plans/plan-x.difference.html"
    (found,) = letter_link(VALIDATE, {"report": "s3://lake/_plans/x.html"}, "plan-x", "").values()
    assert found.value == "s3://lake/_plans/x.html"


def test_no_other_step_links_to_it() -> None:
    """Nor does this one when it kept none."""
    others = [step for step in STEPS if step is not VALIDATE]
    assert not any(letter_link(step, PAGE, "plan-x", "") for step in others)
    assert letter_link(VALIDATE, {}, "plan-x", "http://127.0.0.1:3001") == {}
