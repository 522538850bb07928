"""Answers about adopting and releasing a table."""

from __future__ import annotations

from collections.abc import Iterator

from backfill_assets.publish.publisher import Published
from backfill_assets.rebuild.adopt import AdoptionPlan
from backfill_assets.rebuild.give_back import ReleasePlan
from backfill_assets.report.answer import Answer, Days, Fact, Grid, Id, Line, Part, Tone, size

_MOST_WRITERS = 5


def adoption_answer(plan: AdoptionPlan) -> Answer:
    return Answer(parts=(*_facts(plan), *_refused(plan), *_broken(plan)))


def adopted_answer(plan: AdoptionPlan, done: Published) -> Answer:
    taken = Line(f"{plan.table} is published here: its days are fresh as they are, until a person asks for others.")
    days = sorted(plan.days)
    rebuild = f"backfill plan {plan.table} --days {days[0]}..{days[-1]}" if days else ""
    release = f"backfill adopt --release {plan.table}"
    return Answer(
        parts=(Fact("publication", Id(done.publication)), taken),
        next=(f"backfill status {plan.table}", *([rebuild] if rebuild else []), release),
    )


def _facts(plan: AdoptionPlan) -> Iterator[Part]:
    found = plan.found
    files = [file for some in found.files.values() for file in some]
    yield Fact("table", plan.table)
    yield Fact("from", found.uri)
    yield Fact("version", found.version)
    yield Fact("moved", plan.moves)
    yield Fact("days", len(found.files))
    yield Fact("which days", Days.of(found.files))
    yield Fact("files", len(files))
    yield Fact("bytes", size(sum(file.size for file in files)))
    if plan.days:
        yield Fact("rows", sum(each.content.rows for each in plan.days.values()))
    rows = [(each.version, each.at, each.operation, each.engine, each.user) for each in found.commits[:_MOST_WRITERS]]
    columns = ("version", "at", "operation", "engine", "user")
    yield Grid("writers", columns, rows, title="Who wrote to it last")
    if not plan.refused:
        yield Line(
            "Whoever writes to it has to be stopped: what others commit from now on is a foreign write, and their "
            "VACUUM deletes what a rollback needs. It keeps removed files and old versions for the rollback window.",
            Tone.WARN,
        )


def _refused(plan: AdoptionPlan) -> Iterator[Part]:
    if plan.refused:
        rows = [_apart(each) for each in plan.refused]
        yield Grid("refused", ("why", "what to do"), rows, title="It cannot be adopted", one_by_one=True)


def _apart(reason: str) -> tuple[str, str]:
    why, bracket, do = reason.rpartition(" (")
    return (why, do.removesuffix(")")) if bracket and "(" not in why else _at_first(reason)


def _at_first(reason: str) -> tuple[str, str]:
    why, _, do = reason.partition(" (")
    return why, do.removesuffix(")")


def _broken(plan: AdoptionPlan) -> Iterator[Part]:
    first = {rule.rule: rule for each in plan.days.values() for rule in reversed(each.broken)}
    rows = [(rule, len(days), Days.of(days), first[rule].observed) for rule, days in plan.broken.items()]
    if rows:
        columns = ("gate", "days", "which days", "for example")
        yield Grid("breaks", columns, rows, title="Taken over as it is, and marked", one_by_one=True)


# ------------------------------------------------------------------ given back


def release_answer(plan: ReleasePlan) -> Answer:
    means = Line(
        "It stays an ordinary Delta table, with what it holds now. Earlier states go, and nothing is published to it "
        "until it is adopted again: what is made of it is not built either.",
        Tone.WARN,
    )
    facts = (Fact("table", plan.table), Fact("to", plan.to), Fact("came from", plan.adopted_from))
    return Answer(parts=(*facts, Fact("days", len(plan.days)), Fact("which days", Days.of(plan.days)), means))


def given_back_answer(plan: ReleasePlan, publication: str) -> Answer:
    again = f"backfill adopt {plan.table}" + (f" {plan.location}" if plan.location else "")
    said = Line(f"{plan.table} is given back.", Tone.GOOD)
    return Answer(parts=(Fact("publication", Id(publication)), said), next=(again,))
