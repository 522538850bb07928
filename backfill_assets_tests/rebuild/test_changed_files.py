"""Which landed files have changed, are gone, or are new; and what raw records when it has read them."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from backfill_assets.errors import InvalidRequest, SourceUnreadable
from backfill_assets.examples.catalog import CATALOG
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.landing.zone import LandingZone
from backfill_assets.publish.publisher import Publisher
from backfill_assets.rebuild.changed_files import ArrivalFiles, compare_files, moved_positions
from backfill_assets.rebuild.lake import Lake
from backfill_assets.rebuild.outcome import RunInfo
from backfill_assets.rebuild.refresh import Compared, RefreshBuild
from backfill_assets.state.stream_positions import offset_id
from backfill_assets_tests.declared import source_named

DAY, OTHER = date(2017, 3, 1), date(2017, 3, 2)


class Landed:
    """A landing zone of sales, and what raw has read of it."""

    def __init__(self, root: Path) -> None:
        self.zone = LandingZone(root)
        self.known: dict[str, int] = {}

    def land(self, name: str, content: str, day: date = DAY) -> None:
        path = self.zone.root / "sales" / str(day) / f"{name}.jsonl.gz"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)

    def read(self, *days: date) -> None:
        self.known |= dict(file.position for file in self.zone.files(source_named("sales"), days))

    def compare(self, *days: date) -> tuple[ArrivalFiles, ...]:
        return compare_files(self.zone, source_named("sales"), self.known, days)


@pytest.fixture
def landed(tmp_path: Path) -> Landed:
    """Three files that raw has read."""
    found = Landed(tmp_path)
    for name in ("a", "b", "c"):
        found.land(name, name)
    found.read(DAY)
    return found


def names(paths: object) -> list[str]:
    return [str(getattr(path, "path", path)).rpartition("/")[2][0] for path in paths]  # type: ignore[attr-defined]


def test_files_are_compared_by_path_and_content(landed: Landed) -> None:
    """Nothing differs at first; then one file is replaced, one removed and one added."""
    (same,) = landed.compare(DAY)
    assert not same.differs and names(same.unchanged) == ["a", "b", "c"]
    landed.land("b", "another")
    (landed.zone.root / "sales" / str(DAY) / "c.jsonl.gz").unlink()
    landed.land("d", "d")
    (found,) = landed.compare(DAY)
    assert [names(each) for each in (found.unchanged, found.changed, found.gone, found.new)] == [
        ["a"],
        ["b"],
        ["c"],
        ["d"],
    ]
    assert names(found.files) == ["a", "b", "d"]


def test_each_file_is_recorded_as_it_was_read(landed: Landed) -> None:
    """A changed file with its new content, a gone one as never read: then nothing differs any more."""
    landed.land("b", "another")
    (landed.zone.root / "sales" / str(DAY) / "c.jsonl.gz").unlink()
    landed.land("d", "d")
    positions = moved_positions("sales", landed.compare(DAY), landed.known)
    assert {names([each.id])[0]: (each.before is not None, each.after > 0) for each in positions} == {
        "b": (True, True),
        "c": (True, False),
        "d": (False, True),
    }
    landed.known |= {each.id: each.after for each in positions}
    (again,) = landed.compare(DAY)
    assert not again.differs
    landed.land("c", "c")
    assert names(landed.compare(DAY)[0].new) == ["c"], "it is back: a file like any other"


def test_what_is_appended_carries_the_positions(landed: Landed) -> None:
    """Rows without them would be read a second time."""
    landed.land("b", "another")
    storage = Storage(str(landed.zone.root / "lakehouse"))
    lake = Lake(CATALOG, storage, Publisher(storage), landed.zone, lambda: pytest.fail("no Spark"), "token.key")
    build = RefreshBuild(lake, CATALOG.step("raw_sales"), RunInfo("a-run"), print)
    found = landed.compare(DAY)
    positions = build.change(Compared(found, landed.known)).positions
    assert positions == moved_positions("sales", found, landed.known)
    assert [each.before for each in positions] == [landed.known[positions[0].id]]


def test_a_day_without_a_folder_is_refused_and_an_empty_folder_is_not(landed: Landed) -> None:
    """A landing zone that is not mounted has taken nothing back."""
    with pytest.raises(SourceUnreadable, match="Nothing has landed for sales on 2017-03-02"):
        landed.compare(DAY, OTHER)
    for path in (landed.zone.root / "sales" / str(DAY)).iterdir():
        path.unlink()
    (found,) = landed.compare(DAY)
    assert names(found.gone) == ["a", "b", "c"] and not found.files


def test_a_topic_is_not_read_again(tmp_path: Path) -> None:
    """Its rows have no files."""
    found = Landed(tmp_path)
    found.known = {offset_id("sales", "orders", 0): 17}
    with pytest.raises(InvalidRequest, match="events of the topic orders, which is not read again"):
        found.compare(DAY)
