"""An answer as a page."""

from __future__ import annotations

from dataclasses import replace

from backfill_assets.report.answer import Fact, Line
from backfill_assets.report.html import html
from backfill_assets_tests.report.example import ANSWER


def test_a_page_escapes_everything_but_its_charts() -> None:
    page = html(replace(ANSWER, parts=(*ANSWER.parts, Line("<script>"), Fact("list", ["one", "two"]))))
    assert (
        "&lt;script&gt;" in page and "<script" not in page and "<figure><figcaption>revenue</figcaption><svg>" in page
    )
    assert '<details id="why"><summary><h3>Why &lt;it&gt; is so</h3></summary>' in page
    assert "<dd><p>one</p><p>two</p></dd>" in page and '<span class="warn">stale</span>' in page
