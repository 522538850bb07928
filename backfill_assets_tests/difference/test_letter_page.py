"""The letter can be read: by everyone, on a screen and on paper, and without the colours."""

from __future__ import annotations

import itertools
import re
from datetime import timedelta
from functools import cache
from html.parser import HTMLParser
from pathlib import Path

import pytest

from backfill_assets import report
from backfill_assets.difference.letter import DeclaredOfTables, difference_answer
from backfill_assets.difference.verdict import Difference
from backfill_assets.report.html import html
from backfill_assets_tests.difference.compared_month import (
    MARCH,
    NASTY,
    a_day,
    a_sample,
    by,
    canary,
    difference,
    month,
    terms_of,
)

pytestmark = pytest.mark.data
_STYLE = re.search(r"<style>(.*?)</style>", (Path(report.__file__).parent / "answer.html").read_text(), re.DOTALL)
STYLE = _STYLE[1] if _STYLE else ""
_TEXT, _SHAPE = 4.5, 3.0
"""The least contrasts of WCAG 2, level AA: of text, and of what a chart is made of."""


def a_page(found: Difference, **more: object) -> str:
    return html(difference_answer(found, DeclaredOfTables(), terms_of(found, **more), drawn=True))


@cache
def full() -> Difference:
    """Tables that change, that stay, that wait, and of one period; with all that a table can have."""
    groups = (by("department", ("MEAT", 3), ("DELI", 0)),)
    one = month(0, table="report_monthly_close", cadence="monthly", days=[a_day(MARCH.first, "99")])
    tables = (
        month(22, groups, sample=a_sample(3)),
        month(0, table="same"),
        canary().model_copy(update={"table": "canary"}),
        one,
    )
    return difference(*tables, expected=("weekends unchanged", "revenue_eur < 2%"))


@cache
def full_page() -> str:
    return a_page(full())


class Outline(HTMLParser):
    """Headings in their order, tables without a caption, pictures without words, and the words on the page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.levels: list[int] = []
        self.tables = self.captions = 0
        self.words: list[str] = []
        self._hidden = 0
        self.unnamed: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        if re.fullmatch("h[1-6]", tag):
            self.levels.append(int(tag[1]))
        self.tables += tag == "table"
        self.captions += tag == "caption"
        self._hidden += tag == "style"
        if tag == "svg" and "aria-hidden" not in found and not (found.get("role") == "img" and found.get("aria-label")):
            self.unnamed.append(str(found))

    def handle_endtag(self, tag: str) -> None:
        self._hidden -= tag == "style"

    def handle_data(self, data: str) -> None:
        self.words += [] if self._hidden else data.split()

    @property
    def text(self) -> str:
        return " ".join(self.words)


# ------------------------------------------------------------------ contrast


def colours() -> dict[str, str]:
    return dict(re.findall(r"--([a-z]+): (#[0-9a-f]{6});", STYLE))


def luminance(colour: str) -> float:
    channels = (int(colour[n : n + 2], 16) / 255 for n in (1, 3, 5))
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def used(properties: str) -> set[str]:
    """The names of the colours that one of ``properties`` has anywhere on the page."""
    return set(re.findall(rf"(?<![\w-])(?:{properties}):[^;}}]*?var\(--([a-z]+)\)", STYLE))


def test_contrast_is_computed_as_the_standard_has_it() -> None:
    assert contrast("#ffffff", "#000000") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01), "which just fails"


def test_every_text_stands_out_from_every_ground() -> None:
    """Each colour that text has, on each ground that the page has, whichever of them meet."""
    known, grounds, texts = colours(), used("background"), used("color") | {"quiet"}
    assert grounds == {"page", "paper", "tint"} and {"ink", "quiet", "link", "good", "bad"} <= texts
    low = {
        (text, ground): round(contrast(known[text], known[ground]), 2)
        for text in texts
        for ground in grounds
        if contrast(known[text], known[ground]) < _TEXT
    }
    assert not low
    assert not re.findall(r"(?<!-)\bcolor: *#", STYLE), "every colour has a name, and is computed here"


def test_what_a_chart_is_made_of_stands_out() -> None:
    """Lines, and the outlines and fills of bars; the grid and the ground of a pattern carry nothing."""
    shapes = (used("fill") | used("stroke")) - {"rule", "paper", "tint"}
    assert {"before", "after", "good", "bad", "same", "changed"} <= shapes
    known = colours()
    assert not {name for name in shapes if contrast(known[name], known["paper"]) < _SHAPE}


def test_no_ground_is_dark() -> None:
    """Printers leave grounds out, and white letters with them."""
    assert all(luminance(colours()[name]) > 0.8 for name in used("background"))


# ------------------------------------------------------------------ structure


@pytest.mark.parametrize("found", [full(), difference()], ids=["full", "empty"])
def test_headings_are_in_order_tables_have_captions_and_pictures_have_words(found: Difference) -> None:
    """One first heading; no level is left out on the way down."""
    outline = Outline(full_page() if found is full() else a_page(found))
    assert outline.levels[0] == 1 and outline.levels.count(1) == 1
    assert all(after <= before + 1 for before, after in itertools.pairwise(outline.levels)), outline.levels
    assert outline.tables == outline.captions and not outline.unnamed
    assert outline.tables > 5 or found is not full()


def test_what_a_colour_says_is_said_by_a_word() -> None:
    """Verdicts have a word; changes have a sign; sides have their columns; kinds of rows have patterns."""
    text = Outline(full_page()).text
    assert "revenue_eur < 2% met" in text and "weekends unchanged not met report 2017-03-04" in text
    assert "-12.54 -0.40 %" in text
    assert '<span class="bad">1.20</span></td><td><span class="good">1.25</span>' in full_page()
    fills = dict(re.findall(r"\.bar\.(unchanged|changed|added|removed) \{ fill: ([^;]+);", STYLE))
    assert len(set(fills.values())) == 4 and sum("url(#" in fill for fill in fills.values()) == 2


def test_on_paper_the_detail_is_open_and_links_are_written_out() -> None:
    (paper,) = re.findall(r"@media print \{(.*)\n\}", STYLE, re.DOTALL)
    assert "details::details-content { content-visibility: visible; block-size: auto; }" in paper
    assert 'a[href^="http"]::after { content: " (" attr(href) ")"' in paper
    assert ":root { background: var(--paper)" in paper


def test_the_page_shows_values_as_text_and_needs_no_network() -> None:
    """Everything is in the file, and no value is code."""
    table = month(3, (by("department", (NASTY, 2), ("MEAT", 0)),), table="report", sample=a_sample(2, NASTY))
    page = a_page(difference(table, expected=("revenue_eur < 0.5% a day",)))
    assert "<script" not in page and "&lt;script&gt;" in page
    assert "src=" not in page and "@import" not in page and "href=" not in page
    assert set(re.findall(r"url\(([^)]*)\)", page)) == {"#stripes-down", "#stripes-changed"}
    assert '<span class="bad">not met</span>' in page and "(personal, differs)" in page
    assert page.count('<svg class="chart"') == 3


def test_a_page_without_changes_has_no_charts_and_a_large_one_stays_small() -> None:
    """It grows with the days, not with the rows."""
    same = a_page(difference(month(0), month(0, table="other", days=[])))
    assert "Nothing changes." in same and '<svg class="chart' not in same and len(same) < 16_000
    assert same.index("which days") < same.index("<h2>What it was made of</h2>") < same.index("as of entry")
    assert len(full_page()) < 120_000
    days = [a_day(MARCH.first + timedelta(n), "99") for n in range(30)]
    few, many = (len(a_page(difference(month(0, days=days[:n])))) for n in (2, 30))
    assert many - few < 40_000


def test_a_letter_links_to_where_it_is_decided() -> None:
    """To nothing where no UI is known."""
    page = "http://127.0.0.1:3000/assets/campaign?view=partitions&partition=campaign-x"
    assert f'<a href="{page.replace("&", "&amp;")}">' in a_page(difference(month(1)), page=page)
    assert "in the UI" not in a_page(difference(month(1)))
