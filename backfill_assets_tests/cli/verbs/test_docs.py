"""``backfill docs``: the page that a message names, and the section of it."""

from __future__ import annotations

from backfill_assets.cli.verbs.docs import sections
from backfill_assets_tests.cli.command import Backfill


def test_a_page_and_a_section_are_printed(backfill: Backfill) -> None:
    whole, part = backfill("docs", "operations").output, backfill("docs", "operations", "Foreign writes").output
    assert whole.startswith("# Operations\n") and part in whole
    assert (
        part.startswith("### Foreign writes\n") and "DeltaTable.restore" in part and "What works by itself" not in part
    )
    assert backfill.json("docs", "operations", "Foreign writes")["text"].rstrip("\n") == part.rstrip("\n")


def test_pages_are_listed_with_their_titles(backfill: Backfill) -> None:
    assert "your-own-data" in backfill("docs").output
    assert backfill.json("docs")["pages"]["reference/rules"]


def test_what_is_not_there_is_refused_with_the_nearest(backfill: Backfill) -> None:
    assert "Did you mean operations?" in backfill("docs", "operation", exit_code=1).stderr
    assert "Did you mean Foreign writes?" in backfill("docs", "operations", "Foreign write", exit_code=1).stderr


def test_a_comment_in_code_is_no_heading() -> None:
    text = "# A\n```bash\n# not this\n```\n## B\nb\n# C\n"
    assert list(sections(text)) == ["A", "B", "C"] and sections(text)["A"].endswith("b\n")
