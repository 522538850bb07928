"""An answer in Dagster's UI and in pull requests."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from backfill_assets.report.answer import Answer, Grid, Line, Tone
from backfill_assets.report.markdown import markdown, with_commands
from backfill_assets_tests.report.example import ANSWER, FIRST


def test_markdown_is_read_literally() -> None:
    """Facts are a list, tables are tables, sections are one level deeper."""
    found = markdown(replace(ANSWER, parts=(*ANSWER.parts, Line("a|b *c*", Tone.BAD))))
    assert "## State\n\n- **rows**: 12,345\n- **read**: 3.0 MiB\n\nIt is stale. `backfill run fact`" in found
    assert "| fact | stale | 12,345 |" in found and "### Why &lt;it> is so\n\nIt rises." in found
    assert r"**a\|b \*c\***" in found and "- `backfill plan fact`" in found and "[its page](/assets/fact)" in found


def test_a_long_table_in_markdown_says_what_it_leaves_out() -> None:
    table = Grid("days", ("day",), [(FIRST + timedelta(days=n),) for n in range(53)])
    assert "| 2017-04-19 |\n\nand 3 more rows" in markdown(Answer(parts=(table,)))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (
            "look (backfill show); if right, backfill incident close",
            "look (`backfill show`); if right, `backfill incident close`",
        ),
        (
            "backfill raw restore --dry-run says what is lacking",
            "`backfill raw restore --dry-run` says what is lacking",
        ),
        (
            "backfill run fact+ --days 2017-03-01..2017-03-02, then look",
            "`backfill run fact+ --days 2017-03-01..2017-03-02`, then look",
        ),
        ("no backfill puts *it* right", "no backfill puts \\*it\\* right"),
    ],
)
def test_commands_in_a_sentence_are_code(text: str, shown: str) -> None:
    """From where a clause begins to the first plain word after the verb."""
    assert with_commands(text) == shown
