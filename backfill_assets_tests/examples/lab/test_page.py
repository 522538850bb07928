"""The pages: how one is written, and those that are committed."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from backfill_assets.examples.lab.counts import hazard_texts
from backfill_assets.examples.lab.page import DOUBLED, LOST, MISSING, RIGHT, chart, page, parts
from backfill_assets_tests.examples.lab.played import PLAYED, TEXT, WORKED

NAMES = tuple(hazard_texts())
WRITTEN_BY = "<!-- Written by `make lab` from a run of the lab. -->"
FOLDER = Path(__file__).parents[3] / "docs" / "lab"
CAREFUL = "What a careful plain way solves"
SECTIONS = (
    "What happens",
    "What was counted",
    "Why it goes wrong",
    CAREFUL,
    "Why it does not with this project",
    "See it yourself",
)


def test_a_page_has_what_happens_the_counts_and_why() -> None:
    written = page(PLAYED)
    assert tuple(re.findall(r"^## (.+)$", written, re.MULTILINE)) == tuple(each for each in SECTIONS if each != CAREFUL)
    assert "- **plain job**: 30 rows missing, 10 rows doubled." in written
    assert "| rows missing | 30 | 0 |" in written and "- this project: Seen." in written
    assert written.count(f"```console\nbackfill lab {TEXT.name}\n```") == 1


def test_prose_is_wrapped_and_items_are_indented() -> None:
    lines = page(WORKED).splitlines()
    assert max(len(line) for line in lines if not line.startswith(("|", "!", "<"))) <= 120
    assert "1. Rows land." in "\n".join(lines) and any(
        line.startswith(("   land. Rows", "   Rows land.")) for line in lines
    )


def _counts(written: str, name: str) -> list[int]:
    (row,) = re.findall(rf"^\| {name} \| (.+) \|$", written, re.MULTILINE)
    return [int(cell.replace(",", "")) for cell in row.split(" | ")]


@pytest.mark.parametrize("name", NAMES)
def test_a_committed_page_shows_its_hazard(name: str) -> None:
    """Each plain way goes wrong, and this project does not, on the same events."""
    written = (FOLDER / f"{name}.md").read_text()
    assert WRITTEN_BY in written and f"\nbackfill lab {name}\n" in written
    assert tuple(re.findall(r"^## (.+)$", written, re.MULTILINE)) == SECTIONS
    (columns,) = re.findall(r"^\|  \| (.+) \|$", written, re.MULTILINE)
    wrong = [_counts(written, "rows missing"), _counts(written, "rows doubled")]
    if "| of these for nothing |" in written:
        wrong.append(_counts(written, "of these for nothing"))
    for way, counts in zip(columns.split(" | "), zip(*wrong, strict=True), strict=True):
        assert (sum(counts) == 0) is way.startswith(("this project", "MERGE by key")), way
    assert len(set(_counts(written, "events sent"))) == 1
    assert f"]({name}.svg)" in written
    drawn = "".join(ET.parse(FOLDER / f"{name}.svg").getroot().itertext())  # noqa: S314 - our own
    for way, outcome in re.findall(r"^- \*\*(.+)\*\*: (.+)\.$", written, re.MULTILINE):
        assert f"{way}: {outcome}" in drawn


def test_the_lab_has_no_other_pages() -> None:
    """A hazard that is renamed leaves none behind."""
    expected = {f"{name}.{suffix}" for name in NAMES for suffix in ("md", "svg")}
    assert {path.name for path in FOLDER.iterdir()} == expected


_SVG = "{http://www.w3.org/2000/svg}"


def test_bars_are_in_proportion_to_rows() -> None:
    assert [list(parts(way).items()) for way in PLAYED.ways] == [
        [(RIGHT, 70), (MISSING, 30), (DOUBLED, 10)],
        [(RIGHT, 100)],
    ]
    assert parts(WORKED.ways[0]) == {RIGHT: 50, LOST: 45}, "days, where work is counted"
    drawn = [part.attrib for part in ET.fromstring(chart(PLAYED)).iter(f"{_SVG}rect") if len(part)]  # noqa: S314 - our own
    widths = [float(part["width"]) for part in drawn]
    for count, width in zip((70, 30, 10, 100), widths, strict=True):
        assert width == pytest.approx(count * sum(widths[:3]) / 110, abs=0.2)
    assert float(drawn[1]["x"]) == pytest.approx(float(drawn[0]["x"]) + widths[0], abs=0.2)


def test_it_is_well_formed_and_names_are_escaped() -> None:
    picture = chart(PLAYED)
    assert "<writers>" not in picture and "script" not in picture
    drawn = ET.fromstring(picture)  # noqa: S314 - our own
    texts = [" ".join("".join(text.itertext()).split()) for text in drawn.iter(f"{_SVG}text")]
    assert "plain job: 30 rows missing, 10 rows doubled" in texts and "this project: every event once" in texts
    width = float(drawn.attrib["width"])
    for part in drawn.iter(f"{_SVG}rect"):
        assert float(part.attrib.get("x", 0)) + float(part.attrib["width"]) <= width
