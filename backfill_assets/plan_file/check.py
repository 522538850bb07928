"""Plans a file without keeping anything: what would happen, and what blocks it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from backfill_assets.campaign.approval import missing_approvers
from backfill_assets.errors import BackfillError, InvalidRequest
from backfill_assets.model.catalog import Catalog
from backfill_assets.plan.keep import plan_and_keep, plan_as_of_now
from backfill_assets.plan.records import Plan
from backfill_assets.plan_file.read import FileProblem, InvalidPlanFile, read_plan_file
from backfill_assets.rebuild.person import Person
from backfill_assets.settings import Settings

MAY, MAY_NOT, INVALID = 0, 1, 2
_ENDINGS = {".yaml", ".yml"}


@dataclass(frozen=True)
class CheckedPlanFile:
    """A plan file and what would come of it. ``plan`` is None if it cannot even be planned."""

    path: str
    plan: Plan | None = None
    planned_at: datetime | None = None
    problems: tuple[FileProblem, ...] = ()
    """What must be fixed before it may be carried out."""
    valid: bool = True

    @property
    def exit_code(self) -> int:
        if not self.valid:
            return INVALID
        return MAY_NOT if self.problems else MAY


def plan_files(place: Path) -> list[Path]:
    """``place`` itself, or the plan files in the folder ``place``, by name. Raises :class:`InvalidRequest` for none."""
    if not place.is_dir():
        return [place]
    found = sorted(each for each in place.iterdir() if each.suffix in _ENDINGS and each.is_file())
    if not found:
        raise InvalidRequest(f"There is no plan file in {place}.", hint="Their names end with .yaml or .yml.")
    return found


def check_file(settings: Settings, catalog: Catalog, path: Path, by: Person) -> CheckedPlanFile:
    """Plan ``path`` as ``by`` would, and write nothing. What is found wrong is in the result; nothing is raised."""
    try:
        asked = read_plan_file(path)
    except InvalidPlanFile as error:
        return CheckedPlanFile(str(path), problems=error.problems, valid=False)
    try:
        plan, now = plan_as_of_now(settings, catalog, asked.request, asked.expectations, asked.terms)
    except BackfillError as error:
        return CheckedPlanFile(str(path), problems=(FileProblem(error.message, error.hint or ""),))
    return CheckedPlanFile(str(path), plan, now, tuple(problems_of(settings, plan, by)))


def plan_file_and_keep(settings: Settings, catalog: Catalog, path: Path, by: Person) -> CheckedPlanFile:
    """Plan ``path`` and keep the plan. Raises :class:`InvalidPlanFile`, and what planning raises."""
    asked = read_plan_file(path)
    plan, now = plan_and_keep(settings, catalog, asked.request, asked.expectations, terms=asked.terms, by=by)
    return CheckedPlanFile(str(path), plan, now, tuple(problems_of(settings, plan, by)))


def problems_of(settings: Settings, plan: Plan, by: Person) -> list[FileProblem]:
    """Why ``plan``, made by ``by``, may not be carried out: findings that stop it, and too few who may approve it."""
    stops = [FileProblem(each.message, each.next_step) for each in plan.findings if each.severity == "stops"]
    terms = plan.terms
    if reason := missing_approvers(settings.approval_by, by, terms.approvers, terms.approvals):
        stops.append(
            FileProblem(reason, f"List others under approvers. BACKFILL_APPROVAL_BY is {settings.approval_by}.")
        )
    return stops
