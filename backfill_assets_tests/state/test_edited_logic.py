"""A version whose logic is another one now than the one its days were made with: found, named, proven equal."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path

import pytest

from backfill_assets.days import TableDay
from backfill_assets.errors import LogicEdited
from backfill_assets.examples.datasets.sales import FactDailyRevenue
from backfill_assets.lakehouse.kept_logic import SameRows, keep_proof
from backfill_assets.lakehouse.records import DayContent
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.model.declaration import Reads, Step, Table, Version
from backfill_assets.model.logic import logic_of
from backfill_assets.publish.rows import DAY_COLUMNS, _content_columns, day_state
from backfill_assets.state import edited_logic as edited_logic_module
from backfill_assets.state.edited_logic import EditedLogic, edited_logic, keep_logic_of, refuse_edited

ONE, TWO, THREE = (date(2017, 3, n) for n in (1, 2, 3))
RATE, OTHER_RATE = 2, 3


def as_it_was(rows: int) -> int:
    return rows * RATE


def as_it_is(rows: int) -> int:
    return rows * OTHER_RATE


def version(transform: object, name: str = "v1") -> Version:
    return Version(name, "", (Reads("bronze"),), transform)  # type: ignore[arg-type]


WAS, IS = version(as_it_was), version(as_it_is)
STEP = Step((Table("fact", "fact", "", FactDailyRevenue, ()),), (IS, version(dict, "v2")), "v2")


def made(by: Version | str, code: str = "v1") -> DayContent:
    logic = by if isinstance(by, str) else logic_of(by).fingerprint
    return DayContent(rows=1, checksum="1", code_version=code, logic=logic)


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    return Storage(str(tmp_path))


def edited(storage: Storage, **days: DayContent) -> tuple[EditedLogic, ...]:
    names = {"one": ONE, "two": TWO, "three": THREE}
    return edited_logic(storage, [STEP], {TableDay("fact", names[name]): each for name, each in days.items()})


def test_an_edited_version_is_named_with_its_days_and_what_has_changed(storage: Storage) -> None:
    """Days that record no logic, of another version or of the logic that there is, are not among them."""
    keep_logic_of(storage, STEP, WAS)
    (found,) = edited(storage, one=made(WAS), two=made(IS), three=made(""))
    assert (found.version, found.days) == ("v1", (ONE,))
    assert set(found.changed) == {"as_it_was", "as_it_is", "RATE", "OTHER_RATE"}
    changed = "(OTHER_RATE, RATE, as_it_is, as_it_was changed)"
    assert str(found) == f"fact 2017-03-01 (1 day): made with another logic than v1 has now {changed}"
    assert found.next_step.endswith("prove it: backfill run fact --days 2017-03-01 --same-rows")
    assert found.concerns("fact", ONE) and not found.concerns("fact", TWO) and not found.concerns("bronze", ONE)
    with pytest.raises(LogicEdited, match="Days of both would have one version"):
        refuse_edited([found])


def test_nothing_is_said_of_days_that_are_taken_as_they_are(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Most days of most lakehouses are such, so nothing is read for them."""
    monkeypatch.setattr(edited_logic_module, "same_as", lambda *_: pytest.fail("there is nothing to look up"))
    assert edited(storage, one=made(""), two=made(IS), three=made("unknown", code="v3")) == ()
    refuse_edited(())


def test_what_is_not_kept_any_more_is_said_without_what_changed(storage: Storage) -> None:
    (found,) = edited(storage, one=made("0123456789abcdef"))
    assert found.changed == () and str(found).endswith("made with another logic than v1 has now")


def test_logics_that_gave_the_same_rows_are_one_also_through_others(storage: Storage) -> None:
    """An edit, a proof, another edit, another proof: the days of the first are of the last."""
    now = logic_of(IS).fingerprint

    def proof(published: str, now: str) -> SameRows:
        at = datetime(2017, 6, 1, tzinfo=UTC)
        return SameRows(step="fact", version="v1", published=published, now=now, days=(str(ONE),), rows=1, at=at)

    keep_proof(storage, proof("first", "second"))
    assert len(edited(storage, one=made("first"))) == 1
    keep_proof(storage, proof(now, "second"))
    assert edited(storage, one=made("first"), two=made("second")) == ()
    assert edited(storage, one=made("first"), two=made("second"), three=made(IS)) == ()
    assert edited(storage, one=made("first"), two=made("third"))[0].days == (TWO,)


@pytest.mark.parametrize("content", [made(WAS), replace(made(""), staged_ms=7)])
def test_the_log_keeps_it_with_each_day_and_reads_days_that_have_none(content: DayContent) -> None:
    row = {**dict.fromkeys(DAY_COLUMNS), "table": "fact", "day": str(ONE), "sequence": 1, "physical": "x"}
    assert day_state({**row, "publication": "p", **_content_columns(content)}).content == content
