from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence, Set
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import click

from backfill_assets.cli.completion import complete_dataset
from backfill_assets.cli.foreground import foreground_lake, report_progress
from backfill_assets.cli.options import as_json
from backfill_assets.cli.output import say, say_answer
from backfill_assets.cli.verbs.init import template_text
from backfill_assets.cli.wiring import current_catalog, current_settings, open_storage
from backfill_assets.errors import InvalidRequest
from backfill_assets.model.landed_format import record_word
from backfill_assets.report.answer import Answer, Fact, Grid, Line, Tone, Worded
from backfill_assets.text import format_count

if TYPE_CHECKING:
    from backfill_assets.landing.declaration_trial import CheckedFile, LogicSeen
    from backfill_assets.landing.version_trial import Find, RuleTried, VersionTried
    from backfill_assets.model.catalog import Catalog
    from backfill_assets.model.dataset import Dataset
    from backfill_assets.proposal.of_files import Proposed
    from backfill_assets.proposal.of_tables import ProposedTable
    from backfill_assets.proposal.questions import OpenQuestion
    from backfill_assets.rebuild.lake import Lake, Progress


@click.group()
def dataset() -> None:
    """Work on the declaration of a dataset.

    \b
    Examples:
      backfill dataset new sea_temperatures       a module to change, in the package of your datasets
      backfill dataset new sales sales.csv        the same as that file has it: fields, types, key, day and version
      backfill dataset check sea_temperatures     tries it on the first landed file
      backfill dataset thresholds sales           how often each threshold would have been broken
    """


@dataset.command()
@click.argument("name")
@click.argument("sample", metavar="[FROM]", required=False)
def new(name: str, sample: str | None) -> None:
    """Write the declaration of a dataset called NAME, to be changed.

    \b
    Examples:
      backfill dataset new sea_temperatures
      backfill dataset new sales exports/sales_20260105.csv
      backfill dataset new sales exports/
      backfill dataset new sales /lake/orders

    It is a module of the package that BACKFILL_DATASETS or pyproject.toml names, and is registered by being there.

    With FROM, it is proposed from what is there, each field with what was seen as a comment. What cannot be known is a
    comment that begins with QUESTION; `backfill dataset check NAME` lists those that are left.

    A file of JSON lines or CSV, plain, .gz or .zst, or a folder of them, or a file of Parquet: fields, types, and the
    likely key, day and version, from the first 100,000 rows of the newest files. A Delta table, or a folder of Parquet
    that others write: its columns, the likely key and day, to be read in place.
    """
    folder = _new_module_in(name)
    file, package = folder / f"{name}.py", current_settings().datasets.split(".")[0]
    if sample is None:
        file.write_text(template_text("dataset.txt", package=package, name=name), encoding="utf-8")
        say(f"Written: {file}", *_next_of_template(name))
        return
    text, told = _proposed(name, package, sample)
    file.write_text(text, encoding="utf-8")
    say(f"Written: {file}", *told)


def _proposed(name: str, package: str, sample: str) -> tuple[str, Iterator[str]]:
    from backfill_assets.proposal.of_files import proposed
    from backfill_assets.proposal.of_tables import proposed_table
    from backfill_assets.proposal.table_sample import is_table

    if is_table(sample):
        location = sample if "://" in sample else str(Path(sample).absolute())
        table = proposed_table(name, package, location, _taken_names())
        return table.text, _next_of_table(name, table)
    files = proposed(name, package, Path(sample))
    return files.text, _next_of_files(name, files)


def _next_of_template(name: str) -> Iterator[str]:
    yield "What comes next:"
    yield f"  change it, and land a file in {current_settings().landing / name}/<arrival day>/"
    yield f"  backfill dataset check {name}     tries it on that file"
    yield f"  backfill run +report_{name} --days A..B"


def _next_of_files(name: str, found: Proposed) -> Iterator[str]:
    landed = current_settings().landing / name / found.landed_as
    yield f"It asks {format_count(found.questions, 'question')}: answer each, and delete its line."
    yield "What comes next:"
    yield f"  mkdir -p {shlex.quote(str(landed.parent))}"
    yield f"  cp {shlex.quote(str(found.file))} {shlex.quote(str(landed))}"
    yield f"  backfill dataset check {name}"
    if found.days and found.days.first == found.days.last == found.arrived:
        yield f"  backfill run +report_{name} --days {found.arrived}"
    elif found.days:  # Rows that arrived on one day belong to other days, and raw would wait for files of these.
        yield f"  backfill run raw_{name} --days {found.arrived}"
        yield f"  backfill run bronze_{name}+ --days {found.days}"


def _next_of_table(name: str, found: ProposedTable) -> Iterator[str]:
    yield f"It asks {format_count(found.questions, 'question')}: answer each, and delete its line."
    if found.days:
        yield "What comes next:"
        yield f"  backfill dataset check {name}"
        yield f"  backfill run report_{name} --days {found.days}"


def _new_module_in(name: str) -> Path:
    if not re.fullmatch("[a-z][a-z0-9_]*", name):
        raise InvalidRequest(f"{name!r} cannot be the name of a dataset.", hint="Write it like sea_temperatures.")
    taken = _taken_names()
    package = current_settings().datasets
    found = find_spec(package)
    if found is None or not found.submodule_search_locations:
        raise InvalidRequest(f"{package} is one module.", hint=f"Make a package of it: a folder with {name}.py in it.")
    folder = Path(found.submodule_search_locations[0])
    if name in taken or f"report_{name}" in taken or (folder / f"{name}.py").exists():
        raise InvalidRequest(f"{name} is there already.", hint="Choose another name, or change what is there.")
    return folder


def _taken_names() -> Set[str]:
    catalog = current_catalog()
    unsound = (each.names for each in catalog.left_out)
    return {*(each.name for each in catalog.datasets), *catalog.table_names}.union(*unsound)


@dataset.command()
@click.argument("name", shell_complete=complete_dataset)
@as_json
@click.pass_context
def check(ctx: click.Context, name: str) -> None:
    """Try the declaration of the dataset NAME on the first file that has landed for it.

    \b
    Examples:
      backfill dataset check sea_temperatures

    Shows how many of its rows would be quarantined and why, and what each version of each table makes of the others:
    rows and totals that go in and come out, what each rule says of them, and which would hold their day back. Also
    which transforms return other columns than their contract declares, ask for a clock or for randomness, or were
    edited since they published days. Of a long file, the first 10,000 lines are read. What other datasets give is read
    as it is published. Starts Spark, which takes most of the time. Writes nothing, and needs no lakehouse.

    Questions that `backfill dataset new` left in the module are listed with file and line until they are deleted.

    The exit code is 1 if a row would be quarantined or is lost by a current version, if something is wrong, or if
    nothing has landed; open questions do not change it.
    """
    questions = _open_questions(name)
    catalog, declared = _declared(name, questions)
    with foreground_lake() as lake:
        logic = _look_at_logic(lake, declared)
        problems, files = _try(lake, declared, catalog.table, report_progress)
    problems = [*logic.problems, *problems]
    say_answer(_trial_answer(declared, problems, files, questions, logic.unread))
    if problems or not all(each.good for each in files):
        ctx.exit(1)


@dataset.command()
@click.argument("name", shell_complete=complete_dataset)
@as_json
def thresholds(name: str) -> None:
    """Judge all published days of the dataset NAME by each threshold, declared or learned, from the log alone.

    \b
    Example:
      backfill dataset thresholds sales --json

    Shows how often each would have been broken.
    """
    from backfill_assets.answers.thresholds import thresholds_answer

    catalog, declared = _declared(name, ())
    say_answer(thresholds_answer(open_storage(), declared, catalog.table_names))


def _open_questions(name: str) -> Sequence[OpenQuestion]:
    from backfill_assets.proposal.questions import open_questions

    return open_questions(name, current_settings().datasets)


def _declared(name: str, questions: Sequence[OpenQuestion]) -> tuple[Catalog, Dataset]:
    """An unsound declaration may come from open questions, which its error names."""
    try:
        catalog = current_catalog()
        return catalog, catalog.dataset(name)
    except InvalidRequest as error:
        if not questions:
            raise
        asked = "".join(f"\n  {each.place}: {each.question}" for each in questions)
        raise InvalidRequest(f"{error.message}{asked}", hint=error.hint) from error


def _look_at_logic(lake: Lake, declared: Dataset) -> LogicSeen:
    from backfill_assets.landing.declaration_trial import look_at_logic

    return look_at_logic(lake.storage, declared)


def _try(lake: Lake, declared: Dataset, find: Find, progress: Progress) -> tuple[Sequence[str], Sequence[CheckedFile]]:
    from backfill_assets.external.declaration_trial import check_tables_of_others
    from backfill_assets.judge.measure import unmeasurable
    from backfill_assets.landing.declaration_trial import check_file, prepare_for_few_rows
    from backfill_assets.landing.version_trial import schema_problems

    problems = [problem for table in declared.tables for problem in unmeasurable(table)]
    spark = lake.spark()
    prepare_for_few_rows(spark)
    for step in (each for each in declared.steps if not each.is_origin):
        progress(f"{step.name}: comparing its columns with the contract")
        problems += schema_problems(spark, step, step.version(), find)
    sources = [step.source for step in declared.steps if step.source is not None]
    if problems:
        return problems, []
    tried = [check_file(spark, lake.landing, declared, each, find, lake.storage, progress) for each in sources]
    if any(step.external for step in declared.steps):
        tried.append(check_tables_of_others(spark, declared, find, lake.storage, progress))
    return problems, tried


def _trial_answer(
    declared: Dataset,
    problems: Sequence[str],
    tried: Sequence[CheckedFile],
    questions: Sequence[OpenQuestion],
    unread: Sequence[str] = (),
) -> Answer:
    files = [(each.file, each.whole, each.rows, each.quarantined, each.good) for each in tried]
    reasons = [
        (each.file, each.reason, each.rows, Worded(each.line, f"{record_word(each.file)} {each.line}"), each.example)
        for file in tried
        for each in file.reasons
    ]
    gates = [
        (each.table, each.day, rule.rule, rule.observed, rule.expected, rule.next_step)
        for file in tried
        for each in file.broken
        for rule in [each.outcome]
    ]
    columns = ("table", "day", "held back by", "observed", "expected", "what to do")
    versions = [each for file in tried for each in file.versions]
    return Answer(
        parts=(
            Fact("problems", list(problems)),
            *([] if problems else [_sound(declared)]),
            *(Line(f"A change of it would not be seen: {each}.", Tone.WARN) for each in unread),
            *map(_sentence, tried),
            *(line for each in versions for line in _lost(each)),
            Grid("files", ("file", "whole", "rows", "quarantined", "good"), files),
            Grid("reasons", ("file", "reason", "rows", "first line", "example"), reasons, drop=("file",)),
            Grid("gates", columns, gates, one_by_one=True),
            Grid("versions", _OF_VERSION, [_tried_version(each) for each in versions if not each.not_tried]),
            Grid("rules", _OF_RULE, [_tried_rule(of, each) for of in versions for each in of.rules], groups=_VERSION),
            *([_asked(questions)] if questions else []),
            Grid("questions", ("where", "question"), [(each.place, each.question) for each in questions]),
        )
    )


_VERSION = ("table", "version")
_OF_VERSION = (*_VERSION, "current", "rows in", "rows out", "totals")
_OF_RULE = (*_VERSION, "rule", "verdict", "day", "observed", "expected")


def _lost(version: VersionTried) -> Iterator[Line]:
    wrong = Tone.BAD if version.is_current else Tone.WARN
    if version.loses:
        yield Line(version.loses, wrong, do="If that is meant, let a rule say how many; TotalAgrees compares sums.")
    if version.may_lose:
        yield Line(version.may_lose, Tone.WARN, do="Add TotalAgrees to its rules.")
    if version.not_tried:
        tone = wrong if version.failed else Tone.WARN
        yield Line(f"{version} was not tried on rows: {version.not_tried}.", tone)


def _tried_version(of: VersionTried) -> Sequence[object]:
    return of.table, of.version, of.is_current, of.rows_in, of.rows_out, "; ".join(map(str, of.totals))


def _tried_rule(of: VersionTried, tried: RuleTried) -> Sequence[object]:
    outcome = tried.outcome
    verdict = "holds" if outcome.passed else "held back" if outcome.holds_back else "warning"
    days = f" on {format_count(tried.broken, 'day')}" if tried.broken > 1 else ""
    return tried.table, of.version, outcome.rule, f"{verdict}{days}", tried.day, outcome.observed, outcome.expected


def _asked(questions: Sequence[OpenQuestion]) -> Line:
    asks = "question is" if len(questions) == 1 else "questions are"
    return Line(f"{len(questions):,} {asks} open.", Tone.WARN, do="Answer each in the module, and delete its line.")


def _sound(declared: Dataset) -> Line:
    steps, tables = format_count(len(declared.steps), "step"), format_count(len(declared.tables), "table")
    return Line(f"{declared.name}: {steps} and {tables} are declared soundly.", Tone.GOOD)


def _sentence(file: CheckedFile) -> Line:
    cut = "" if file.whole else f" The first {file.rows:,} rows were read."
    if file.quarantined is None:
        return Line(f"{file.file}: {format_count(file.rows, 'row')} were read.", Tone.PLAIN if file.good else Tone.WARN)
    because = ", because:" if file.quarantined else "."
    rows = f"{file.quarantined:,} of {file.rows:,} rows would be quarantined"
    return Line(f"{file.file}: {rows}{because}{cut}", Tone.PLAIN if file.good else Tone.WARN)
