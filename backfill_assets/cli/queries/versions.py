"""``backfill versions``: which version of each step is current since when, and which are kept on standby."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click
from rich.text import Text

from backfill_assets.cli.completion import complete_table
from backfill_assets.cli.foreground import foreground_builder
from backfill_assets.cli.output import moment, say, say_json
from backfill_assets.cli.output import table as new_table
from backfill_assets.cli.wiring import current_catalog, current_settings

if TYPE_CHECKING:
    from backfill_assets.timeline.version_states import StepVersions, VersionState

_EPILOG = """
\b
Examples:
  backfill versions
  backfill versions fact_sales_transactions --json
"""


@click.command(epilog=_EPILOG)
@click.argument("table", shell_complete=complete_table, required=False)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def versions(table: str | None, as_json: bool) -> None:
    """List the versions of steps that have several: which is current since when, and which are kept on standby.

    The current version builds new days, and what is built again by hand. It is the last one that is declared, until a
    publication switches it: then the switched one stays current until it is switched again. Reads logs only.
    """
    from backfill_assets.published.reading import anything_published
    from backfill_assets.timeline.version_states import step_versions

    if table is not None:
        current_catalog().table(table)
    settings = current_settings()
    with ExitStack() as stack:
        lake = foreground_builder(settings, stack).lake
        known = anything_published(lake.storage)
        found = step_versions(lake, current_catalog().steps, [table] if table else ()) if known else []
    if as_json:
        say_json([_values(each) for each in found])
    elif not known:
        say(f"Nothing was published in {settings.lakehouse} yet.")
    elif not found:
        say(f"{table or 'Every step'} has one version.")
    else:
        _say(found)


def _say(found: list[StepVersions]) -> None:
    numbers = ("days", "behind")
    columns = ("step", "version", "role", "since", *numbers, "up to", "timeline")
    rows = new_table(*columns, numbers=numbers, groups=["step"], drop=("since", "up to"))
    for each in found:
        for version in each.versions:
            rows.add_row(each.step, version.name, _role(each, version), _since(each, version), *_standby_cells(version))
            rows.add_section()
    say(rows)
    for each in found:
        if each.declared != each.current:
            say(
                f"{each.step}: {each.declared} is declared and not current. To switch to it: "
                f"backfill switch {each.step} {each.declared}"
            )
        say(
            *(
                f"held back: {line}"
                for version in each.versions
                if version.standby
                for line in version.standby.held_back
            )
        )


def _role(step: StepVersions, version: VersionState) -> Text:
    if not version.is_declared:
        return Text("current, and not declared any more" if version.is_current else "not declared any more", "red")
    if version.is_current:
        return Text("current (switched)" if step.switched_by else "current (declared)", "green")
    return Text("standby", "cyan") if version.standby else Text("declared", "dim")


def _since(step: StepVersions, version: VersionState) -> str:
    if not version.is_current or not step.switched_by:
        return ""
    return f"{moment(step.switched_at)} by {step.switched_for or 'unknown'}, {step.switched_by}"


def _standby_cells(version: VersionState) -> tuple[str, str, str, str]:
    standby = version.standby
    if standby is None:
        return "", "", "", ""
    behind = "" if standby.behind is None else f"{standby.behind:,}"
    return f"{standby.days:,}", behind, str(standby.up_to or ""), standby.timeline


def _values(each: StepVersions) -> dict[str, Any]:
    return {**asdict(each), "current": each.current}
