"""Whether a declaration holds, tried on the first landed file of each of its sources."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from backfill_assets.landing.declaration_trial import (
    CheckedFile,
    Find,
    check_file,
    prepare_for_few_rows,
    schema_problems,
)
from backfill_assets.model.declaration import Dataset
from backfill_assets.rebuild.lake import Lake, Progress
from backfill_assets.report.answer import Answer, Fact, Grid, Line, Part, Tone
from backfill_assets.text import format_count


@dataclass(frozen=True)
class FoundTrial:
    """Transforms that return other columns than their contract; without such problems, what became of each file."""

    dataset: Dataset
    problems: Sequence[str]
    files: Sequence[CheckedFile] = ()

    @property
    def is_good(self) -> bool:
        return not self.problems and all(each.good for each in self.files)


def try_declaration(lake: Lake, declared: Dataset, find: Find, progress: Progress) -> FoundTrial:
    """Starts Spark. ``find`` gives a table by its name. Writes nothing, and needs no lakehouse."""
    spark = lake.spark()
    prepare_for_few_rows(spark)
    problems: list[str] = []
    for step in (each for each in declared.steps if each.source is None):
        progress(f"{step.name}: comparing its columns with the contract")
        problems += schema_problems(spark, step, step.version(), find)
    sources = [step.source for step in declared.steps if step.source is not None]
    files = [check_file(spark, lake.landing, declared, each, find, progress) for each in ([] if problems else sources)]
    return FoundTrial(declared, problems, files)


# ------------------------------------------------------------------ the answer


def trial_answer(found: FoundTrial) -> Answer:
    """What is wrong with the declaration; or how many rows of each file would be quarantined, and why."""
    files = [(each.file, each.whole, each.rows, each.quarantined, each.good) for each in found.files]
    reasons = [
        (each.file, each.reason, each.rows, each.line, each.example) for file in found.files for each in file.reasons
    ]
    gates = [
        (each.table, each.day, rule.rule, rule.observed, rule.expected, rule.next_step)
        for file in found.files
        for each in file.broken
        for rule in [each.outcome]
    ]
    columns = ("table", "day", "held back by", "observed", "expected", "what to do")
    return Answer(
        parts=(
            Fact("problems", list(found.problems)),
            *_sentences(found),
            Grid("files", ("file", "whole", "rows", "quarantined", "good"), files),
            Grid("reasons", ("file", "reason", "rows", "first line", "example"), reasons, drop=("file",)),
            Grid("gates", columns, gates, one_by_one=True),
        )
    )


def _sentences(found: FoundTrial) -> Iterator[Part]:
    if not found.problems:
        steps, tables = format_count(len(found.dataset.steps), "step"), format_count(len(found.dataset.tables), "table")
        yield Line(f"{found.dataset.name}: {steps} and {tables} are declared soundly.", Tone.GOOD)
    for file in found.files:
        cut = "" if file.whole else f" The first {file.rows:,} rows were read."
        because = ", because:" if file.quarantined else "."
        rows = f"{file.quarantined:,} of {file.rows:,} rows would be quarantined"
        yield Line(f"{file.file}: {rows}{because}{cut}", Tone.PLAIN if file.good else Tone.WARN)
