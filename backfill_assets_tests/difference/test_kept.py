"""A difference in one sentence, in Markdown and as a page: the numbers it was made of, and nothing that is not text."""

from __future__ import annotations

import json
import re
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pytest

from backfill_assets.days import DayRange
from backfill_assets.difference.charts import sums_chart
from backfill_assets.difference.kept import Difference, difference_of
from backfill_assets.difference.page import difference_page
from backfill_assets.difference.records import (
    Cell,
    ChangedRow,
    DayCompared,
    DayIs,
    GroupCompared,
    GroupsCompared,
    RowCounts,
    Sums,
    TableCompared,
)
from backfill_assets.difference.sentences import table_sentence
from backfill_assets.difference.text import count_row, difference_markdown, notes, sum_rows
from backfill_assets.plan.expectations import Expectation
from backfill_assets.plan.records import Plan, PlanRequest, StepTime

MARCH = DayRange.parse("2017-03-01..2017-03-31")
NASTY = "</script><script>alert('x')</script>|`*"
MADE = datetime(2017, 6, 1, 12, tzinfo=UTC)


def a_day(day: date, after: str, how: DayIs = "compared") -> DayCompared:
    """100 in main."""
    rows = RowCounts(changed=3, unchanged=2) if after != "100" else RowCounts(unchanged=5)
    return DayCompared(
        day=day, how=how, rows=rows, sums={"revenue_eur": Sums(before=Decimal(100), after=Decimal(after))}
    )


def month(changed: int, groups: tuple[GroupsCompared, ...] = (), **more: object) -> TableCompared:
    """March with ``changed`` days that lose 0.57."""
    days = [a_day(day, "99.43" if n < changed else "100") for n, day in enumerate(MARCH)]
    known = {"table": "report", "measures": ("revenue_eur",), "days": days, "groups": groups, **more}
    return TableCompared.model_validate(known)


def by(column: str, *values: tuple[str | None, int]) -> GroupsCompared:
    sums = {"revenue_eur": Sums(before=Decimal(100), after=Decimal("99.43"))}
    most = tuple(GroupCompared(value=value, rows=RowCounts(changed=n, unchanged=1), sums=sums) for value, n in values)
    return GroupsCompared(column=column, groups=len(most), differing=sum(n > 0 for _, n in values), most=most)


def difference(*tables: TableCompared, expected: tuple[str, ...] = ()) -> Difference:
    plan = Plan(
        asked=PlanRequest(target="report", days=str(MARCH)),
        steps=(),
        expectations=tuple(map(Expectation.parse, expected)),
        made_at=MADE,
    )
    return difference_of(plan, tables, log_entry=7, made_at=MADE)


def test_one_sentence_for_a_manager() -> None:
    """Period, measure, days and groups."""
    found = month(22, (by("department", ("GROCERY", 2), ("MEAT", 1)),))
    assert table_sentence(found) == "March 2017: revenue eur -0.40 %, 22 of 31 days, all departments."


@pytest.mark.parametrize(
    ("groups", "told"),
    [
        (by("currency", ("USD", 2), ("EUR", 0)), "currency USD"),
        (by("currency", ("USD", 2), (None, 1), ("EUR", 0)), "currencies (none) and USD"),
        (by("store_id", *((str(n), int(n < 5)) for n in range(9))), "5 of 9 stores"),
    ],
)
def test_groups_in_the_sentence(groups: GroupsCompared, told: str) -> None:
    """Few by name, all as all, others by their number."""
    assert table_sentence(month(1, (groups,))) == f"March 2017: revenue eur -0.018 %, 1 of 31 days, {told}."


def test_sentences_without_a_change_of_a_sum() -> None:
    """Nothing at all; days that were held back; rows that differ in another column."""
    assert table_sentence(month(0)) == "March 2017: nothing changes on 31 days."
    held = (*month(0).days[:2], a_day(MARCH.last, "100", "held back"))
    assert table_sentence(month(0, days=held)) == "March 2017: nothing changes on 3 days, 1 day held back."
    moved = a_day(MARCH.first, "100").model_copy(update={"rows": RowCounts(changed=1)})
    assert table_sentence(month(0, days=[moved])) == "2017-03-01: 1 row changes although no sum does, 1 of 1 day."


def test_a_canary_is_called_a_canary() -> None:
    """Days that are not staged yet are in no sum, share, count or verdict, and the sentence says how many they are."""
    waiting = tuple(a_day(day, "100", "not staged") for day in MARCH if day.day > 2)
    canary = month(0, days=(a_day(MARCH.first, "99.43"), a_day(date(2017, 3, 2), "100"), *waiting))
    assert table_sentence(canary) == "March 2017: revenue eur -0.28 %, 1 of 2 days, 29 days not staged."
    assert count_row(canary)[1:9] == ("31", "1", "0", "29", "0", "0", "3", "7")
    assert notes(canary) == ["Not staged yet: 29 days. No sum or count here includes them."]
    assert [each.held for each in difference(canary, expected=("revenue_eur < 0.1%",)).verdicts] == [False]
    assert table_sentence(month(0, days=waiting)) == "March 2017: nothing is staged yet."


def test_an_unmeasured_total_is_unknown_and_breaks_what_is_expected_of_it() -> None:
    """It was declared after a day was published that stays as it is: no sum with that day is shown."""
    unknown = a_day(MARCH.last, "100", "held back").model_copy(update={"sums": {"revenue_eur": None}})
    found = month(0, days=(a_day(MARCH.first, "99.43"), unknown))
    assert found.total("revenue_eur").change is None and found.total("rows").change is not None
    assert table_sentence(found) == "March 2017: revenue eur unknown, 1 of 2 days, 1 day held back."
    assert sum_rows(found)[1] == ("report", "revenue_eur", "unknown", "unknown", "unknown")
    seen = difference(found, expected=("revenue_eur < 1000", "revenue_eur < 5% a day"))
    together, by_day = seen.verdicts
    assert [(each.day, each.observed) for each in together.deviations] == [(None, "unknown")]
    assert [(each.day, each.observed) for each in by_day.deviations] == [(MARCH.last, "unknown")]
    assert json.loads(seen.to_json())["tables"][0]["days"][1]["sums"] == {"revenue_eur": None}
    assert "unknown" in difference_markdown(seen)


@pytest.mark.data
def test_a_chart_has_no_point_where_a_total_is_unknown() -> None:
    """And the page says so in words."""
    from bokeh.models import ColumnDataSource

    unknown = a_day(MARCH.last, "100", "held back").model_copy(update={"sums": {"revenue_eur": None}})
    found = month(0, days=(a_day(MARCH.first, "99.43"), unknown))
    assert "unknown" in difference_page(difference(found))
    (source,) = sums_chart(found, "revenue_eur").select({"type": ColumnDataSource})
    assert isinstance(source, ColumnDataSource)
    assert source.data["before"] == [100.0]


def test_the_whole_campaign_is_reported_by_the_table_that_was_asked_for() -> None:
    """Unless it does not change and another one does."""
    other = month(2, table="other")
    assert difference(other, month(22)).sentence == (
        "report, March 2017: revenue eur -0.40 %, 22 of 31 days. 2 of 2 tables change."
    )
    assert difference(other, month(0), expected=("rows unchanged",)).sentence == (
        "other, March 2017: revenue eur -0.037 %, 2 of 31 days. 1 of 2 tables change. It is as expected."
    )
    broken = difference(month(22), expected=("rows unchanged", "revenue_eur < 0.5% a day"))
    assert broken.sentence.endswith("1 of 2 expectations is broken.")
    assert len(broken.broken[0].deviations) == 22


def test_a_difference_goes_to_json_and_back() -> None:
    """Others read it without Spark; decimals stay exact."""
    found = difference(month(2, (by("store_id", (None, 1)),), sample=a_sample(2)), expected=("weekends unchanged",))
    assert Difference.from_json(found.to_json()) == found
    assert json.loads(found.to_json())["tables"][0]["days"][0]["sums"]["revenue_eur"]["after"] == "99.43"


def test_an_old_plan_keeps_its_id() -> None:
    """The id of a plan without expectations is a hash of what it was before there were any; with them it is another."""
    plan = Plan(asked=PlanRequest(target="report", days=str(MARCH)), steps=(), made_at=MADE)
    text = json.loads(plan.to_json())
    del text["expectations"]
    assert Plan.from_json(json.dumps(text), id=plan.id) == plan
    timed = plan.model_copy(update={"times": (StepTime(step="validated", low=1.0, high=2.0),)})
    assert timed.id == plan.id and Plan.from_json(timed.to_json(), id=plan.id) == timed, "it is the same plan"
    expected = plan.model_copy(update={"expectations": (Expectation.parse("rows unchanged"),)})
    assert expected.id != plan.id
    assert Plan.from_json(expected.to_json(), id=expected.id) == expected


def a_sample(rows: int, value: str = "1.25") -> tuple[ChangedRow, ...]:
    cells = (Cell(column="rate", before="1.20", after=value), Cell(column="rate_day", before=None, after="2017-03-01"))
    return tuple(
        ChangedRow(day=MARCH.first, key={"id": f"row-{n}"}, cells=cells, withheld=("household_token",))
        for n in range(rows)
    )


def test_markdown_shows_values_as_text() -> None:
    """For any value in a row: no tag, no column of its own."""
    table = month(3, (by("department", (NASTY, 2)),), sample=a_sample(1, NASTY))
    page = difference_markdown(difference(table, expected=("weekends unchanged",)))
    assert "<script" not in page
    assert "| held |" in page and "| 2017-03-01 | id row-0 | household_token | (personal, differs) |" in page
    rows = [re.sub(r"\\\|", "", line) for line in page.splitlines() if line.startswith("|")]
    assert {line.count("|") for line in rows} <= {4, 6, 7, 10, 11}


@pytest.mark.data
def test_the_page_shows_values_as_text_and_needs_no_network() -> None:
    """Everything is in the file, and no value is code."""
    table = month(3, (by("department", (NASTY, 2), ("MEAT", 0)),), table="report", sample=a_sample(2, NASTY))
    page = difference_page(difference(table, expected=("revenue_eur < 0.5% a day",)))
    assert "alert('x')</script>" not in page and "&lt;script&gt;" in page
    tags = re.sub(r"(<script[^>]*>).*?</script>", r"\1", page, flags=re.DOTALL)
    assert "src=" not in tags and "href=" not in tags and "url(" not in tags
    assert "chart report/" not in page, "every chart found its place"
    assert '<span class="broken">broken</span>' in page and "(personal, differs)" in page
    assert page.count('data-root-id="') == 3


@pytest.mark.data
def test_the_page_has_what_each_step_was_estimated_to_take_and_took() -> None:
    """A table of its own, below the difference."""
    page = difference_page(difference(month(0)), [("source verified", "8..20 s", "12 s")])
    assert "<h2>Time</h2>" in page and '<th class="number">estimated</th>' in page
    assert '<td class="number">8..20 s</td><td class="number">12 s</td>' in page


@pytest.mark.data
def test_a_page_without_changes_has_no_charts() -> None:
    """A few kilobytes that say so."""
    page = difference_page(difference(month(0), month(0, table="other", days=[])))
    assert "nothing changes on 31 days" in page and len(page) < 10_000


@pytest.mark.data
def test_a_page_of_a_quarter_stays_small() -> None:
    """Ninety days of a table are some kilobytes beside the charts' code."""
    days = [a_day(MARCH.first + timedelta(n), "99") for n in range(90)]
    few, many = (len(difference_page(difference(month(0, days=days[:n])))) for n in (2, 90))
    assert many - few < 120_000
