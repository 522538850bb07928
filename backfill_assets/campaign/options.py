"""How a campaign is carried out, as its starters and approvers chose. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from backfill_assets.errors import InvalidRequest
from backfill_assets.lakehouse.campaign_reports import BegunReport
from backfill_assets.limits import Limits
from backfill_assets.plan.records import Plan
from backfill_assets.plan.waves import Shares
from backfill_assets.rebuild.outcome import Person

_FLAGS = ("daemon", "without_held_back", "roll_back_if_wrong")


@dataclass(frozen=True)
class Options:
    """Kept in the journal. ``daemon``: Dagster's daemon carries it on."""

    shares: Shares = field(default_factory=Shares)
    limits: Limits = field(default_factory=Limits)
    daemon: bool = False
    without_held_back: bool = False
    """Publish the good days although others are held back."""
    roll_back_if_wrong: bool = False

    def report(self, by: Person) -> BegunReport:
        flags = {name: getattr(self, name) for name in _FLAGS}
        return BegunReport(waves=str(self.shares), limits=str(self.limits), who=by.name, known_by=by.known_by, **flags)

    def changed_by(self, report: BegunReport) -> Options:
        flags = {name: getattr(report, name) for name in _FLAGS}
        return replace(
            self,
            shares=self.shares if report.waves is None else Shares.parse(report.waves),
            limits=self.limits if report.limits is None else Limits.parse(report.limits),
            **{name: value for name, value in flags.items() if value is not None},
        )

    @classmethod
    def of_plan(cls, plan: Plan, waves: str = "", limits: str = "", **flags: bool) -> Options:
        """Where the plan has none, ``waves`` and ``limits`` apply; raises :class:`InvalidRequest` if they differ from
        its.
        """
        own = plan.terms
        shares = waves or own.waves
        found = cls(
            Shares.parse(shares) if shares else Shares(), Limits.parse(limits, Limits.parse(own.limits)), **flags
        )
        found.require_as_planned(plan)
        return found

    def require_as_planned(self, plan: Plan) -> None:
        """Raises :class:`InvalidRequest` for other waves or limits than the plan's."""
        own = plan.terms
        others = {
            "waves": (own.waves, bool(own.waves) and Shares.parse(own.waves) != self.shares),
            "limits": (own.limits, bool(own.limits) and Limits.parse(own.limits) != self.limits),
        }
        for name, (planned, differ) in others.items():
            if differ:
                raise InvalidRequest(
                    f"{plan.id} has {name} of its own, {planned}, and a kept plan does not change.",
                    hint=f"Leave the {name} out; or change them in the file of the plan, and plan again.",
                )
