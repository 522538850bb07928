"""The letter can be read: by everyone, on a screen and on paper, and without the colours."""

from __future__ import annotations

import itertools
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from backfill_assets.difference import page
from backfill_assets.difference.kept import Difference
from backfill_assets.difference.letter import LetterTerms
from backfill_assets.difference.page import difference_page
from backfill_assets.examples.catalog import CATALOG
from backfill_assets_tests.difference.compared_month import MARCH, a_day, a_sample, by, canary, difference, month

pytestmark = pytest.mark.data
_STYLE = re.search(r"<style>(.*?)</style>", (Path(page.__file__).parent / "page.html").read_text(), re.DOTALL)
STYLE = _STYLE[1] if _STYLE else ""
_TEXT, _SHAPE = 4.5, 3.0
"""The least contrasts of WCAG 2, level AA: of text, and of what a chart is made of."""


def terms_of(found: Difference, **more: object) -> LetterTerms:
    known = {"plan": found.plan, "campaign": found.plan.replace("plan-", "campaign-"), "window_days": 30}
    return LetterTerms(**{**known, "who": "Anyone but ana.", **more})  # type: ignore[arg-type]


def a_page(found: Difference, **more: object) -> str:
    return difference_page(CATALOG, found, [("source verified", "8..20 s", "12 s")], terms_of(found, **more))


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


class Outline(HTMLParser):
    """Headings in their order, tables without a caption, pictures without words, and the words on the page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.levels: list[int] = []
        self.tables = self.captions = 0
        self.ids: set[str] = set()
        self.links: list[str] = []
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
        self.ids |= {value} if (value := found.get("id")) else set()
        self.links += [value] if tag == "a" and (value := found.get("href")) else []
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


@pytest.mark.parametrize("found", [full(), difference(month(0)), difference()])
def test_headings_are_in_order(found: Difference) -> None:
    """One first heading; no level is left out on the way down."""
    levels = Outline(a_page(found)).levels
    assert levels[0] == 1 and levels.count(1) == 1
    assert all(after <= before + 1 for before, after in itertools.pairwise(levels)), levels


def test_tables_have_captions_and_pictures_have_words() -> None:
    outline = Outline(a_page(full()))
    assert outline.tables == outline.captions > 5 and not outline.unnamed


def test_links_within_the_page_lead_somewhere() -> None:
    """Each table of the letter leads to its detail."""
    outline = Outline(a_page(full()))
    assert outline.links and {link.removeprefix("#") for link in outline.links} <= outline.ids


def test_what_a_colour_says_is_said_by_a_word() -> None:
    """Verdicts have a sign and a word; changes have a sign; sides have their columns; kinds of rows have patterns."""
    text = Outline(a_page(full())).text
    assert "✓ met revenue_eur < 2%" in text and "✗ not met weekends unchanged: report 2017-03-04" in text
    assert "-12.54 -0.40 %" in text
    assert "<del>1.20</del></td><td><ins>1.25</ins>" in a_page(full())
    fills = dict(re.findall(r"\.bar\.(unchanged|changed|added|removed) \{ fill: ([^;]+);", STYLE))
    assert len(set(fills.values())) == 4 and sum("url(#" in fill for fill in fills.values()) == 2


def test_on_paper_the_detail_is_open_and_links_are_written_out() -> None:
    (paper,) = re.findall(r"@media print \{(.*)\n\}", STYLE, re.DOTALL)
    assert "details::details-content { content-visibility: visible; block-size: auto; }" in paper
    assert 'a[href^="http"]::after { content: " (" attr(href) ")"' in paper
    assert ":root { background: var(--paper)" in paper


# ------------------------------------------------------------------ words


def test_the_letter_says_how_to_decide_and_how_to_undo() -> None:
    """Each command in full, on one line."""
    found = difference(month(1), expected=("revenue_eur < 1%",))
    html = a_page(found, title="Rates of the right day", reason="v1 took those of the day before")
    text = Outline(html).text
    assert "Rates of the right day: v1 took those of the day before" in text
    assert "Who may approve Anyone but ana." in text
    for command in ("approve {}", "campaign {} --abandon", "rollback {}"):
        assert f"<code>backfill {command.format(found.plan)}</code>" in html
    assert "This is possible for 30 days after it is published." in text
    assert text.index("Revenue falls by 0.57 EUR (-0.018 %)") < text.index("Which days") < text.index("Detail by table")


def test_a_letter_about_days_that_are_held_back_says_how_to_leave_them_out() -> None:
    found = difference(month(0, days=[a_day(MARCH.first, "99"), a_day(MARCH.last, "100", "held back")]))
    html = a_page(found)
    assert f"<code>backfill approve {found.plan} --without-held-back</code>" in html
    assert "without the days that are held back" in html and "<code>without_held_back: true</code>" in html


def test_a_letter_about_what_is_not_as_expected_cannot_be_approved() -> None:
    found = difference(month(1), expected=("rows unchanged", "everything unchanged"))
    html = a_page(found)
    assert "It cannot be approved: it is not as expected." in html and "backfill approve" not in html
    assert "--abandon" in html


def test_a_letter_about_what_is_decided_asks_for_nothing() -> None:
    """What is published can be undone; what was rolled back cannot."""
    published = a_page(difference(month(1)), outcome="It was published on 2017-06-02.", published=True)
    assert "It was published on 2017-06-02." in published and "backfill approve" not in published
    assert "backfill rollback" in published
    back = a_page(difference(month(1)), outcome="It was rolled back.")
    assert "backfill rollback" not in back and "backfill approve" not in back


def test_a_letter_links_to_where_it_is_decided() -> None:
    """To be approved while it waits, and to be undone once it is published; to nothing where no UI is known."""
    page = "http://127.0.0.1:3000/assets/campaign?view=partitions&partition=campaign-x"
    html = a_page(difference(month(1)), page=page)
    approving, _, undoing = html.partition("<dt>To turn it down</dt>")
    assert f'<a href="{page.replace("&", "&amp;")}">' in approving and "in the UI" not in undoing
    published = a_page(difference(month(1)), page=page, outcome="It was published.", published=True)
    assert "in the UI" in published.partition("<dt>To undo</dt>")[2]
    assert "in the UI" not in a_page(difference(month(1)))


def test_a_comparison_of_two_states_asks_no_one_for_approval() -> None:
    found = difference(month(1)).model_copy(update={"plan": "", "left": "main", "right": "with-v2"})
    html = difference_page(CATALOG, found)
    assert "Before is main, after is with-v2." in html
    assert not re.search(r"approve|abandon|rollback|As expected", html)


def test_sums_say_which_days_they_are_of() -> None:
    """All of a campaign that is done; of a canary those that are staged."""
    assert "Sums of 31 days" in a_page(difference(month(1)))
    assert "Sums of the 2 of 31 days that are staged" in a_page(difference(canary()))


def test_the_page_is_small() -> None:
    """A quarter of a table that changes every day, charts included."""
    assert len(a_page(full())) < 120_000
