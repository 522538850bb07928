"""A storm of campaigns, undos and timelines, and its judge against findings that were planted."""

from __future__ import annotations

from pathlib import Path

import pytest

from backfill_assets.rebuild.builder import Builder
from backfill_assets_tests.campaign import undo_oracle
from backfill_assets_tests.campaign.timelines_storm import SharedLakehouse, findings, lines, storm
from backfill_assets_tests.campaign.undo_lakehouse import DAYS, FACT, FRIDAY, RUN, Life
from backfill_assets_tests.protocol.storm_tally import Line, Told
from backfill_assets_tests.simulator.arrow_engine import staged_by_arrow

pytestmark = pytest.mark.protocol


@pytest.mark.long
@pytest.mark.timeout(900)
def test_campaigns_undos_and_timelines_at_once_lose_and_tear_nothing(tmp_path: Path) -> None:
    """In full: ``make storm-of-timelines SECONDS=180``."""
    tallies = tmp_path / "tallies"
    tallies.mkdir()
    played, told, wrong = storm(str(tmp_path / "lakehouse"), tallies, 60, 20170401)
    print("\n".join(lines(played, told)))
    assert wrong == []
    assert played.kills.total() > 2
    counts = told.count()
    assert all(counts[role, "done"] for role in ("source", "nightly build", "campaign"))


@pytest.fixture
def begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SharedLakehouse:
    staged_by_arrow(monkeypatch)
    SharedLakehouse(tmp_path).begin()
    return SharedLakehouse(tmp_path, number=1)


def landed(name: str, what: str = "done") -> Line:
    return {"what": what, "role": "source", "deed": "land", "name": name}


def test_rows_that_are_lost_or_were_never_landed_are_said(begun: SharedLakehouse) -> None:
    row = f"{begun._new_number()}.1=7"
    begun._land("raw", {FRIDAY: [row]})(begun.lake(Life()))
    assert list(findings(str(begun.root), Told([landed(row, "tried"), landed(row)]))) == []
    (unknown,) = findings(str(begun.root), Told([]))
    assert unknown == f"1 rows were never landed: ['{row}']"
    (lost,) = findings(
        str(begun.root), Told([landed(row, "tried"), landed("9000001.1=7", "tried"), landed("9000001.1=7")])
    )
    assert lost == "1 acknowledged rows are lost: ['9000001.1=7']"


def test_a_publication_that_brought_what_its_inputs_do_not_give_is_said(
    begun: SharedLakehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a build that had read something else would bring it."""
    with monkeypatch.context() as patch:
        patch.setitem(undo_oracle._MADE, "fact", lambda _: ("1=999",))
        Builder(begun.lake(Life())).build(FACT, [DAYS[0]], run=RUN, version="v1", force=True)
    said = list(findings(str(begun.root), Told([])))
    assert any("brings fact 2017-03-30 as ('1=999',), and v1 makes" in each for each in said)
    assert any(each.startswith("in the end fact 2017-03-30 is ('1=999',)") for each in said)
