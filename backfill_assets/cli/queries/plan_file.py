"""``backfill plan -f FILE``: a plan from a file, and with ``--check`` what would come of it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.text import Text

from backfill_assets.cli.output import say, say_json
from backfill_assets.cli.plan_screen import say_next, say_plan
from backfill_assets.cli.wiring import current_catalog, current_settings

if TYPE_CHECKING:
    from backfill_assets.plan_file.check import CheckedPlanFile

_COLOURS = {0: "green", 1: "bold red", 2: "bold red"}


def say_schema() -> None:
    from backfill_assets.plan_file.read import schema_text

    click.echo(schema_text(current_catalog().table_names), nl=False)


def plan_from_file(place: Path, *, check: bool, as_json: bool, as_markdown: bool) -> int:
    """Plan the file, or check each file in the folder; returns the exit code, of several the worst."""
    found = _check(place) if check else [_plan(place)]
    if as_json:
        values = [_as_json(each) for each in found]
        say_json(values if place.is_dir() else values[0])
    elif as_markdown:
        click.echo("\n".join(_as_markdown(each) for each in found), nl=False)
    else:
        for each in found:
            _say(each, check=check)
    return max(each.exit_code for each in found)


def _check(place: Path) -> list[CheckedPlanFile]:
    from backfill_assets.plan_file.check import check_file, plan_files
    from backfill_assets.rebuild.person import os_person

    settings, person = current_settings(), os_person()
    return [check_file(settings, current_catalog(), path, person) for path in plan_files(place)]


def _plan(path: Path) -> CheckedPlanFile:
    from backfill_assets.plan_file.check import CheckedPlanFile, plan_file_and_keep
    from backfill_assets.plan_file.read import InvalidPlanFile
    from backfill_assets.rebuild.person import os_person

    try:
        return plan_file_and_keep(current_settings(), current_catalog(), path, os_person())
    except InvalidPlanFile as error:
        return CheckedPlanFile(str(path), problems=error.problems, valid=False)


def _say(found: CheckedPlanFile, *, check: bool) -> None:
    from backfill_assets.plan_file.text import verdict

    if found.plan is not None and found.planned_at is not None:
        say_plan(found.plan, found.planned_at)
        say_next(found.plan)
    shown = {finding.message for finding in found.plan.findings} if found.plan else set()
    for each in (problem for problem in found.problems if problem.message not in shown):
        click.echo(each.shown(found.path), err=True)
    words = verdict(valid=found.valid, problems=found.problems)
    if check or not found.valid:
        say(
            Text.assemble(
                f"{found.path} ", (words, _COLOURS[found.exit_code]), "." if not check else "; nothing is stored."
            )
        )


def _as_json(found: CheckedPlanFile) -> dict[str, object]:
    from backfill_assets.plan_file.text import file_json

    return file_json(found.path, found.plan, found.problems, valid=found.valid)


def _as_markdown(found: CheckedPlanFile) -> str:
    from backfill_assets.plan_file.text import file_markdown

    return file_markdown(found.path, found.plan, found.planned_at, found.problems, valid=found.valid)
