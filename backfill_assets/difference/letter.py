"""A difference in a manager's order. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from decimal import Decimal

from backfill_assets.difference.charts import charts_of, period_sentences
from backfill_assets.difference.difference import (
    COUNTS,
    EXACT,
    ROWS,
    ChangedRow,
    DayCompared,
    GroupsCompared,
    Sums,
    TableCompared,
)
from backfill_assets.difference.verdict import (
    Difference,
    ExpectationVerdict,
    SameTotal,
    agreement_sentence,
    find_agreements,
    table_sentence,
    unit,
)
from backfill_assets.plan.code_change import code_facts, code_section
from backfill_assets.report.answer import Answer, Days, Fact, Grid, Id, Line, Part, Quantity, Tone, Toned, number
from backfill_assets.text import (
    amount,
    column_label,
    format_are,
    format_changing,
    format_count,
    format_first,
    format_ranges,
    measure_name,
    money,
    percent,
)

WITHHELD = "(personal, differs)"
_NO_VALUE = "(none)"
_SUMS = ("before", "after", "change", "in percent")
_MOST_RANGES = 6
_MOST_DEVIATIONS = 3
_MOST_DAYS, _MOST_GROUPS, _MOST_CHANGED = 31, 5, 30


@dataclass(frozen=True)
class LetterTerms:
    plan: str
    campaign: str
    window_days: int
    who: str = ""
    title: str = ""
    reason: str = ""
    outcome: str = ""
    published: bool = False
    page: str = ""
    """Where to approve, or once published undo."""


@dataclass(frozen=True)
class DeclaredOfTables:
    """``totals`` have to equal another table's."""

    reports: frozenset[str] = frozenset()
    totals: tuple[SameTotal, ...] = ()


def difference_answer(
    difference: Difference,
    declared: DeclaredOfTables,
    terms: LetterTerms | None = None,
    *,
    drawn: bool = False,
) -> Answer:
    """``terms`` are a plan's; two states need no decision. ``drawn`` adds charts."""
    parts = (
        *_about(difference, terms),
        *_in_a_minute(difference, declared),
        *_decision(difference, terms),
        _money(difference.tables),
        _rows(difference.tables),
    )
    detail = tuple(_detail(each, drawn=drawn) for each in difference.tables if each.differing or notes(each))
    sections = (
        *code_section(difference.code),
        *((Answer("Detail by table", sections=detail, name="by table"),) if detail else ()),
        Answer("What it was made of", tuple(_made_of(difference)), name="made of"),
    )
    links = {"Its page in the UI, with a button": terms.page} if terms and terms.page else {}
    answer = Answer(headline(difference), parts, sections, next=_next(difference, terms), links=links)
    return replace(answer, brief=_brief(difference, declared, answer))


def _as_typed(state: str) -> str:
    return state.removeprefix("publication ").removeprefix("timeline ")


def _brief(difference: Difference, declared: DeclaredOfTables, answer: Answer) -> Answer:
    unmet = [f"{each.expectation}: {'; '.join(where_not(each))}" for each in difference.unmet]
    met = f"{len(difference.verdicts) - len(unmet)} of {format_count(len(difference.verdicts), 'expectation')} met"
    held = sum(table.count("held back", "left out") for table in difference.tables)
    risk = [
        *([met] if difference.verdicts else ["no expectation was stated"]),
        *unmet,
        *([f"{format_are(held, 'day')} held back"] if held else []),
        *difference.stale,
    ]
    facts = (
        Fact("days", _days_lines(difference.headline) if difference.headline else ["None."]),
        Fact("reports", reports_line(difference, declared.reports)),
        *code_facts(difference.code),
        Fact("risk", Toned(risk, Tone.BAD) if unmet else risk),
    )
    what = difference.plan or " ".join(map(_as_typed, (difference.left, difference.right)))
    more = Line(f"Each table, day and changed row: backfill diff {what} --long", Tone.QUIET)
    return Answer(answer.title, (*facts, more), next=answer.next, links=answer.links)


# ------------------------------------------------------------------ what it is about


def headline(difference: Difference) -> str:
    table = difference.headline
    if table is None or not table.known:
        return "Nothing is compared yet."
    if not table.differing:
        return "Nothing changes."
    measure = first_measure(table)
    sums = table.total(measure)
    name = measure_name(measure)
    if sums.change is None or sums.after is None:
        return f"{name} changes by an unknown amount: it was not measured."
    if not sums.change:
        rows = table.rows.differing
        return f"{format_count(rows, 'row')} {'changes' if rows == 1 else 'change'}, and no sum does."
    if sums.share is None:
        return f"{name} becomes {money(sums.after, measure)} where there was nothing."
    verb = "rises" if sums.change > 0 else "falls"
    before, after, by = even(sums.before, sums.after, abs(sums.change))
    return (
        f"{name} {verb} by {money(by, measure)} ({percent(sums.share)}), from {amount(before)} to"
        f" {money(after, measure)}."
    )


def _about(difference: Difference, terms: LetterTerms | None) -> Iterator[Part]:
    yield Line(difference.sentence, Tone.STRONG, name="sentence")
    if not difference.plan:
        yield Fact("before", difference.left)
        yield Fact("after", difference.right)
    if terms and (terms.title or terms.reason):
        yield Fact("what it is for", ": ".join(filter(None, (terms.title, terms.reason))))
    for line in difference.stale:
        yield Line(line, Tone.WARN)


def _made_of(difference: Difference) -> Iterator[Fact]:
    if difference.plan:
        yield Fact("plan", Id(difference.plan))
    yield Fact("made at", difference.made_at)
    yield Fact("as of entry", difference.log_entry)


def _in_a_minute(difference: Difference, declared: DeclaredOfTables) -> Iterator[Part]:
    yield Fact("which days", _days_lines(difference.headline) if difference.headline else ["None."])
    yield Fact("which reports", reports_line(difference, declared.reports))
    if agreement := agreement_sentence(find_agreements(declared.totals, difference.tables)):
        yield Fact("do tables agree", agreement)
    if difference.verdicts:
        rows = [
            (each.expectation, Toned("met", Tone.GOOD) if each.met else Toned("not met", Tone.BAD), where_not(each))
            for each in difference.verdicts
        ]
        yield Grid("expected", ("expected", "outcome", "where not"), rows, title="As expected?")


def reports_line(difference: Difference, reports: Collection[str]) -> str:
    read = [table for table in difference.tables if table.table in reports]
    changing = [table.table for table in read if table.differing]
    same = [table.table for table in read if not table.differing]
    if not read:
        return "None: no report is computed from it here."
    if not changing:
        return f"None of {format_count(len(read), 'report')} changes."
    stays = f" {format_first(same, None)} {'stays' if len(same) == 1 else 'stay'} the same." if same else ""
    return f"{len(changing)} of {format_count(len(read), 'report')}: {format_first(changing, None)}.{stays}"


def _days_lines(table: TableCompared) -> list[str]:
    noun, all_days = unit(table), len(table.days)
    ranges = format_ranges((day.day for day in table.differing), _MOST_RANGES)
    found = [f"{format_changing(len(table.differing), all_days, noun)}{f': {ranges}' if ranges else ''}."]
    same = len(table.known) - len(table.differing) - table.count("left out", "held back")
    for count, one, more in (
        (same, "keeps its rows.", "keep their rows."),
        (table.count("held back"), "failed its gates and keeps its rows.", "failed their gates and keep their rows."),
        (
            table.count("left out"),
            "reads what failed, and keeps its rows.",
            "read what failed, and keep their rows.",
        ),
        (table.count("not staged"), "is not staged yet.", "are not staged yet: what they become is not known."),
    ):
        if count:
            found.append(f"{format_count(count, noun)} {one if count == 1 else more}")
    return found


def where_not(verdict: ExpectationVerdict) -> list[str]:
    if not verdict.tables:
        return ["the plan has no such day or measure"]
    lines = [
        f"{each.table}{f' {each.day}' if each.day else ''}: {each.observed}"
        for each in verdict.deviations[:_MOST_DEVIATIONS]
    ]
    more = len(verdict.deviations) - len(lines)
    return [*lines, f"and {more:,} more"] if more else lines


# ------------------------------------------------------------------ who decides


def holds_back(difference: Difference) -> bool:
    return any(table.count("held back", "left out") for table in difference.tables)


def _decision(difference: Difference, terms: LetterTerms | None) -> Iterator[Part]:
    if terms is None:
        return
    if terms.outcome:
        yield Fact("what was decided", terms.outcome)
    else:
        yield Fact("who may approve", terms.who)
        if difference.unmet:
            yield Line("It cannot be approved: it is not as expected.", Tone.BAD)
        else:
            left_out = ", without the days that are held back" if holds_back(difference) else ""
            yield Line(f"All tables are published together{left_out}.")
            yield Line("In Dagster the job approve_campaign does it, and undo_campaign undoes it.", Tone.QUIET)
    if terms.published or not terms.outcome:
        yield Fact("can be undone for", f"{format_count(terms.window_days, 'day')} after it is published")


def _next(difference: Difference, terms: LetterTerms | None) -> tuple[str, ...]:
    if terms is None:
        return ()
    if terms.published:
        return (f"backfill rollback {terms.plan}",)
    if terms.outcome:
        return ()
    left_out = " --without-held-back" if holds_back(difference) else ""
    approve = () if difference.unmet else (f"backfill approve {terms.plan}{left_out}",)
    return (*approve, f"backfill timeline delete {terms.plan}")


# ------------------------------------------------------------------ tables


def first_measure(table: TableCompared) -> str:
    """The first that changes, else an unknown one, else the first."""
    unknown = (measure for measure in table.measures if table.total(measure).change is None)
    return next(table.changing(), None) or next(unknown, None) or next(iter(table.measures), ROWS)


def even(*values: Decimal | None) -> tuple[Decimal | None, ...]:
    """With as many decimals as the longest."""
    exponents = [value.normalize(EXACT).as_tuple().exponent for value in values if value is not None]
    places = max((-each for each in exponents if isinstance(each, int)), default=0)
    step = Decimal(1).scaleb(-max(0, places))
    return tuple(None if value is None else value.quantize(step, context=EXACT) for value in values)


def sums_cells(found: Sums) -> tuple[object, ...]:
    share: object = Quantity(found.share, "share")
    if found.share is None and found.change is not None:
        share = "from nothing" if found.change else None
    return (*map(number, even(found.before, found.after, found.change)), share)


def _money(tables: Iterable[TableCompared]) -> Grid:
    rows = []
    for table in tables:
        measure = first_measure(table)
        of = (len(table.differing), len(table.days), Days.of(day.day for day in table.differing))
        rows.append((table.table, *of, measure, *sums_cells(table.total(measure))))
    columns = ("table", "differ", "of", "which days", "measure", *_SUMS)
    return Grid("tables", columns, rows, title="Money by table", drop=("which days", "of", "differ"))


def _rows(tables: Iterable[TableCompared]) -> Grid:
    rows = [
        (
            each.table,
            *(getattr(each.rows, name) for name in COUNTS),
            each.count("held back", "left out"),
            each.count("not staged"),
        )
        for each in tables
    ]
    columns = ("table", *COUNTS, "held back", "not staged")
    return Grid("rows", columns, rows, title="Rows by table", drop=("unchanged", "not staged"))


def notes(table: TableCompared) -> list[str]:
    found = []
    if held := table.count("held back"):
        found.append(f"{format_count(held, unit(table))} failed the gates and would not be published.")
    if blocked := table.count("left out"):
        reads = "reads" if blocked == 1 else "read"
        found.append(
            f"{format_count(blocked, unit(table))} {reads} what is held back, or could not be computed, and would stay"
            f" as {'it is' if blocked == 1 else 'they are'}."
        )
    if absent := table.count("not staged"):
        found.append(f"Not staged yet: {format_count(absent, unit(table))}. No sum or count here includes them.")
    if table.whole_rows and table.differing:
        found.append(
            "Rows are compared as a whole: there is no key that stands for one row, so none counts as changed."
        )
    return found


def _detail(table: TableCompared, *, drawn: bool) -> Answer:
    charts: Iterable[Part] = charts_of(table) if drawn and table.differing else ()
    lines = [*notes(table), *(period_sentences(table) if drawn and table.differing else ())]
    groups = (part for found in table.groups for part in _groups(table, found))
    differing: Iterable[Part] = (*groups, *_changed_rows(table), _days(table)) if table.differing else ()
    return Answer(
        f"{table.table}: {table_sentence(table)}",
        (*map(Line, lines), *charts, _sums(table), *differing),
        name=table.table,
        folded=True,
    )


def _sums(table: TableCompared) -> Grid:
    known, planned = len(table.known), format_count(len(table.days), unit(table))
    title = f"Sums of {planned}" if known == len(table.days) else f"Sums of the {known} of {planned} that are staged"
    rows = [(measure, *sums_cells(table.total(measure))) for measure in (ROWS, *table.measures)]
    return Grid("sums", ("measure", *_SUMS), rows, title=title)


def _groups(table: TableCompared, groups: GroupsCompared) -> Iterator[Part]:
    measure = table.measures[0] if table.measures else ROWS
    rows = [
        (
            _NO_VALUE if each.value is None else each.value,
            each.rows.differing,
            *sums_cells(each.rows.sums if measure == ROWS else each.sums[measure]),
        )
        for each in groups.most
        if each.rows.differing
    ]
    if rows:
        noun = column_label(groups.column)
        of = f"{groups.differing:,} of {format_count(groups.groups, noun)}"
        title = f"By {noun}: {of} {'differs' if groups.differing == 1 else 'differ'}, by {column_label(measure)}"
        columns = (groups.column, "rows that differ", *_SUMS)
        yield Grid(f"by {groups.column}", columns, rows, title=title, most=_MOST_GROUPS)


def _changed_rows(table: TableCompared) -> Iterator[Grid]:
    if table.sample:
        title = f"{len(table.sample)} of {format_count(table.rows.changed, 'changed row')}, side by side"
        columns = ("day", "key", "column", "before", "after")
        rows = [cells for row in table.sample for cells in side_by_side(row)]
        groups = ("day", "key")
        yield Grid("sample", columns, rows, title=title, groups=groups, most=_MOST_CHANGED)


def side_by_side(row: ChangedRow) -> Iterator[tuple[object, ...]]:
    key = ", ".join(f"{name} {_value(value)}" for name, value in row.key.items())
    for cell in row.cells:
        yield row.day, key, cell.column, Toned(_value(cell.before), Tone.BAD), Toned(_value(cell.after), Tone.GOOD)
    for column in row.withheld:
        yield row.day, key, column, WITHHELD, ""


def _value(value: str | None) -> str:
    return _NO_VALUE if value is None else value


def _days(table: TableCompared) -> Grid:
    measure = next(table.changing(), ROWS)
    columns = (unit(table), "is", *COUNTS, *_SUMS)
    title = f"{format_count(len(table.days), unit(table))}, by {column_label(measure)}"
    rows = [_day_row(day, measure) for day in table.days]
    return Grid("days", columns, rows, title=title, drop=("is", "unchanged"), most=_MOST_DAYS)


def _day_row(day: DayCompared, measure: str) -> tuple[object, ...]:
    return day.day, day.how, *(getattr(day.rows, name) for name in COUNTS), *sums_cells(day.of(measure))
