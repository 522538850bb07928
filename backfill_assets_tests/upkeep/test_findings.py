"""What is found of a day: what its words say without their figures, its evidence, and what a person has accepted."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime

import pytest

from backfill_assets.days import TableDay
from backfill_assets.lakehouse import fingerprints
from backfill_assets.state.diagnosis import Cause
from backfill_assets.upkeep.failed_checks import FailedWatch, HeldByGates, NotRun
from backfill_assets.upkeep.findings import WrongDay, fault_evidence, saying
from backfill_assets.upkeep.incidents import Closing, Incident
from backfill_assets.upkeep.repair import RepairDecision, repairs_needed
from backfill_assets.upkeep.trouble import RepairContext, digest_beside
from backfill_assets_tests.plan.world import World
from backfill_assets_tests.upkeep.healing import AGREES, COMPARED
from backfill_assets_tests.upkeep.weeks import DAYS, MONDAY, D, E, late, one_version_world, overwritten

AT = datetime(2017, 4, 1, tzinfo=UTC)


@pytest.fixture
def world() -> World:
    return one_version_world()


def _decide(world: World, **seen: object) -> RepairDecision:
    return repairs_needed(RepairContext(COMPARED, world.observed(), **seen))  # type: ignore[arg-type]


def _only(decision: RepairDecision) -> WrongDay:
    (found,) = decision.findings
    return found


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("raw gained rows since", "raw gained rows since"),
        (
            "warning, as_usual: expected 3,500 to 4,300 (median 3,900 of 8 Fridays), observed rows 1,950 -> Compare.",
            "warning, as_usual: observed rows # below",
        ),
        (
            "as_usual: expected 3,500 to 4,300 (median 9 of 8 Fridays); 3 to 4, observed rows 7,800; price 1.59 -> See",
            "as_usual: observed rows # above; price # below",
        ),
        (
            "warning, as_usual: expected rows, as on each of the 8 Fridays before, observed no rows -> Compare.",
            "warning, as_usual: observed no rows",
        ),
        (
            "as_declared: expected fields, observed x is missing: 5 of 9 rows on 2 days since 2017-03-07 -> Ask.",
            "as_declared: observed x is missing",
        ),
        ("rejected_at_most: expected at most 1 %, observed 30 % -> correct it", "rejected_at_most: observed # % above"),
        (
            "key_is_unique: expected 0, observed 3 (17); rejected_at_most: expected at most 1 %, observed 30 % -> mend",
            "key_is_unique: observed # above; rejected_at_most: observed # % above",
        ),
        (
            "delivered: expected by 2017-03-08 04:00 UTC, observed nothing landed -> Ask the source.",
            "delivered: observed nothing landed",
        ),
    ],
)
def test_what_is_said_without_figures_days_and_examples(words: str, said: str) -> None:
    assert saying(words) == said


def test_checks_that_fail_on_one_day_are_one_finding_with_the_graver_cause(world: World) -> None:
    said = {"as_usual": "rows 10, usual 90 to 110", "as_declared": "tier is not declared"}
    found = _only(_decide(world, suspicions={TableDay("raw", D): said}))
    assert (found.cause, found.diagnosis.words, found.further) == (
        Cause.DRIFT,
        said["as_declared"],
        (said["as_usual"],),
    )


@pytest.mark.parametrize(
    ("ended_by_a_gate", "made_of", "cause"),
    [
        (False, None, Cause.FAILED_RUN),
        (True, None, Cause.MISSING),
        (True, "what is no more", Cause.MISSING),
        (True, "what there is", Cause.FAILED_RUN),
    ],
)
def test_a_run_that_a_gate_has_ended_did_not_fail(
    world: World, ended_by_a_gate: bool, made_of: str | None, cause: Cause
) -> None:
    """While the gate would fail again, the days beside it follow from that; when it would not, they wait as any do."""
    for day in (D, E):
        del world.states[TableDay("fact", day)], world.newest["fact"][day], world.pinned["fact"][day]
    (step,) = (each for each in COMPARED if each.name == "fact")
    key = TableDay("fact", E)
    ended = NotRun("run-1", ended_by_a_gate)
    seen: dict[str, object] = {"not_run": {TableDay("fact", D): ended, TableDay("fact", E): ended}}
    if made_of is not None:
        wanted = RepairContext(COMPARED, world.observed())._wanted(step, E)
        gate = HeldByGates("broken", wanted if made_of == "what there is" else made_of, "run-1")
        seen |= {"failed_gates": {key: gate}}
    found = {each.key: each.cause for each in _decide(world, **seen).findings}
    assert found[TableDay("fact", D)] is cause


def test_what_is_said_of_rows_that_are_gone_opens_nothing_and_closes_nothing(world: World) -> None:
    """Nor does what follows from it further down: it is judged anew within a minute."""
    key = TableDay("raw", D)
    seen = {"suspicions": {key: {"as_usual": "rows 10, usual 90 to 110"}}, "judged_before": {key}}
    decision = _decide(world, **seen)
    assert _only(decision).silent
    assert decision.for_people == ()
    for cause, is_silent in ((Cause.UNUSUAL, False), (Cause.DRIFT, False), (Cause.CONTENT, True)):
        known = Incident(
            id="i-1",
            table="raw",
            days=(D,),
            cause=cause,
            opened=AT,
            severity="warning",
            confidence="0.6",
            words="",
        )
        (found,) = _decide(world, **seen, incidents={key: [known]}).findings
        assert found.silent is is_silent


def test_a_compaction_is_no_other_evidence_and_other_rows_are(world: World) -> None:
    suspicions = {TableDay("raw", D): {"as_usual": "rows 10, usual 90 to 110"}}
    before = _only(_decide(world, suspicions=suspicions))
    state = world.states[TableDay("raw", D)]
    files = fingerprints.physical(["raw/compacted"])
    world.states[TableDay("raw", D)] = replace(state, publication="compaction", physical=files)
    world.newest["raw"][D] = world.pinned["raw"][D] = files
    assert _only(_decide(world, suspicions=suspicions)).evidence == before.evidence
    late(D)(world)
    (raw,) = [each for each in _decide(world, suspicions=suspicions).findings if each.table == "raw"]
    assert raw.evidence != before.evidence


def _closing_of(found: WrongDay, **about: object) -> dict[str, Closing]:
    seen = {found.table: {found.day: found.evidence}}
    known = {
        "by": "ann",
        "reason": "Easter",
        "at": AT,
        "table": found.table,
        "cause": found.cause,
        "days": (found.day,),
    }
    return {"it": Closing.model_validate({**known, "evidence": "seen", "seen": seen, **about})}


@pytest.mark.parametrize(
    ("about", "accepted"),
    [
        ({}, True),
        ({"seen": {"raw": {D: "another"}}}, False),
        ({"evidence": "", "seen": {}}, True),
        ({"evidence": "", "seen": {}, "days": (E,)}, False),
    ],
    ids=["the same", "other evidence", "closed before evidence was kept", "of another day"],
)
def test_what_a_person_has_closed_holds_until_the_evidence_changes(
    world: World, about: dict[str, object], accepted: bool
) -> None:
    suspicions = {TableDay("raw", D): {"as_usual": "rows 10, usual 90 to 110"}}
    closings = _closing_of(_only(_decide(world, suspicions=suspicions)), **about)
    decision = _decide(world, suspicions=suspicions, closings=closings)
    assert _only(decision).accepted is accepted and (decision.for_people == ()) is accepted


def test_a_day_that_a_person_has_closed_is_not_repaired(world: World) -> None:
    overwritten("fact", D, E)(world)
    first = _decide(world)
    closings = _closing_of(next(each for each in first.findings if each.day == D))
    (repair,) = _decide(world, closings=closings).launch
    assert repair.days["fact"] == (E,)


def test_fields_that_a_person_has_closed_stay_quiet_on_later_days(world: World) -> None:
    """The source goes on with them: that is no other evidence."""
    words = {D: "tier is not declared: 5 of 9 rows on DAY", E: "price is missing: 5 of 9 rows on DAY"}
    seen = {TableDay("raw", day): {"as_declared": said} for day, said in words.items()}
    first, other = _decide(world, suspicions=seen).findings
    closings = _closing_of(first, evidence=fault_evidence(first.diagnosis, first.saying))
    later = {TableDay("raw", DAYS.last): {"as_declared": words[D]}, **seen}
    found = {each.day: each.accepted for each in _decide(world, suspicions=later, closings=closings).findings}
    assert found == {D: True, other.day: False, DAYS.last: True}


@pytest.mark.parametrize(("table", "day", "growing"), [("weekly", MONDAY, True), ("fact", E, False)])
def test_what_grows_at_its_ends_is_built_for_the_first_time(world: World, table: str, day: date, growing: bool) -> None:
    world.forget(table, day)
    (found,) = [each for each in _decide(world).findings if each.table == table]
    assert (found.cause, found.growing, found.silent) == (Cause.MISSING, growing, growing)


def test_a_sum_that_was_read_beside_another_fault_says_nothing_when_that_is_over(world: World) -> None:
    """The writer has taken its files away: the report is as it was read, and what it was compared with is not."""
    state, sound = world.states[TableDay("revenue", D)], world.newest["fact"][D]
    overwritten("fact", D)(world)
    beside = digest_beside(world.observed(), ["fact"], [D])
    watch = FailedWatch("revenue", D, state.publication, state.physical, (AGREES,), beside=beside)
    assert {each.cause for each in _decide(world, failed_watches=[watch]).findings} == {
        Cause.FOREIGN_WRITE,
        Cause.DISAGREES,
    }
    world.newest["fact"][D] = sound
    assert _decide(world, failed_watches=[watch]).findings == ()
    of_itself = replace(watch, broken=("content_as_published", AGREES))
    assert _only(_decide(world, failed_watches=[of_itself])).cause is Cause.CONTENT
