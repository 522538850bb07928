"""The chart is in proportion, and is a picture without scripts."""

from __future__ import annotations

from xml.etree import ElementTree as ET

from backfill_assets.examples.lab.chart import DOUBLED, LOST, MISSING, RIGHT, bars, chart
from backfill_assets_tests.examples.lab.played import PLAYED, WORKED

_SVG = "{http://www.w3.org/2000/svg}"


def test_bars_are_in_proportion_to_rows() -> None:
    plain, safe = bars(PLAYED)
    assert [(part.name, part.count) for part in plain.parts] == [(RIGHT, 70), (MISSING, 30), (DOUBLED, 10)]
    assert [(part.name, part.count) for part in safe.parts] == [(RIGHT, 100)]
    pixels = {part.width / part.count for bar in (plain, safe) for part in bar.parts}
    assert max(pixels) - min(pixels) < 0.01
    assert plain.parts[1].x == plain.parts[0].x + plain.parts[0].width


def test_where_work_is_counted_bars_are_days() -> None:
    one_job, _ = bars(WORKED)
    assert [(part.name, part.count) for part in one_job.parts] == [(RIGHT, 50), (LOST, 45)]


def test_it_is_well_formed_and_names_are_escaped() -> None:
    picture = chart(PLAYED)
    assert "<writers>" not in picture and "script" not in picture
    drawn = ET.fromstring(picture)  # noqa: S314 - our own
    texts = [" ".join("".join(text.itertext()).split()) for text in drawn.iter(f"{_SVG}text")]
    assert "plain job: 30 rows missing, 10 rows doubled" in texts and "this project: every event once" in texts
    width = float(drawn.attrib["width"])
    for part in drawn.iter(f"{_SVG}rect"):
        assert float(part.attrib.get("x", 0)) + float(part.attrib["width"]) <= width
