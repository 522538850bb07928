"""Timelines with a name: one state for every reader, and a name has one holder."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest

from backfill_assets.errors import InvalidRequest, LakehouseUnusable, PublicationRefused
from backfill_assets.lakehouse import named_timelines
from backfill_assets.lakehouse.delta_log import AddedFile
from backfill_assets.lakehouse.named_timelines import (
    NamedTimeline,
    TimelineBase,
    change_timeline,
    create_timeline,
    delete_timeline,
    files_of_timelines,
    find_timeline,
    kept_timelines,
    new_timeline_id,
    rename_timeline,
)
from backfill_assets.lakehouse.records import DayRecord
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.lakehouse.timelines import Timeline, open_since, timelines_of

NOW = datetime(2017, 6, 1, 12, tzinfo=UTC)
DAY = date(2017, 3, 1)
FILE = AddedFile("_timelines/x/day=2017-03-01/part.parquet", "2017-03-01", 10, 0, "{}")


def timeline(name: str = "fx-again", *, keep_until: datetime | None = None, now: datetime = NOW) -> NamedTimeline:
    days = {"facts": (DayRecord(day=DAY, files=(FILE,)),)}
    id = new_timeline_id(now)
    base = TimelineBase(sequence=3, versions={"facts": 2})
    return NamedTimeline(id=id, name=name, made_at=now, base=base, changed_at=now, days=days, keep_until=keep_until)


def test_it_is_found_by_its_name_as_it_was_changed_last(storage: Storage) -> None:
    made = create_timeline(storage, timeline())
    later = DayRecord(day=DAY + timedelta(days=1))
    changed = change_timeline(storage, made.with_days({"facts": {later.day: later}}), "one more day", NOW)
    assert find_timeline(storage, "fx-again", NOW) == changed
    assert [each.day for each in changed.days["facts"]] == [DAY, later.day] and changed.revision == 1
    assert files_of_timelines(kept_timelines(storage, NOW), "facts") == {FILE.path}


def test_of_two_that_change_it_at_once_one_is_refused(storage: Storage) -> None:
    made = create_timeline(storage, timeline())
    change_timeline(storage, made, "first", NOW)
    with pytest.raises(PublicationRefused, match="changed by another process"):
        change_timeline(storage, made, "second", NOW)
    assert find_timeline(storage, "fx-again", NOW).change == "first"


def test_a_renaming_that_died_between_its_two_names_ends_when_it_is_typed_again(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was changed under one of the names since is never lost for it."""

    def dies(*_: object) -> None:
        raise KeyboardInterrupt

    made = create_timeline(storage, timeline())
    monkeypatch.setattr(named_timelines, "_end", dies)
    with pytest.raises(KeyboardInterrupt):
        rename_timeline(storage, made, "other", NOW)
    monkeypatch.undo()
    assert [each.name for each in kept_timelines(storage, NOW)] == ["fx-again", "other"]
    changed = change_timeline(storage, made.with_days({"facts": {DAY: DayRecord(day=DAY)}}), "changed", NOW)
    with pytest.raises(InvalidRequest, match="'other' already: renamed from fx-again"):
        rename_timeline(storage, changed, "other", NOW)
    same = change_timeline(storage, made.model_copy(update={"revision": 1}), "as it was", NOW)
    assert rename_timeline(storage, same, "other", NOW + timedelta(days=1)).id == made.id
    assert [each.name for each in kept_timelines(storage, NOW)] == ["other"]


@pytest.mark.parametrize("then", [[], ["fx-again"]], ids=["both", "and-the-name-is-taken-again"])
def test_two_that_rename_it_to_one_name_have_renamed_it_both(
    storage: Storage, monkeypatch: pytest.MonkeyPatch, then: list[str]
) -> None:
    """The slower one finds the name written and the old one ended: it takes nothing back."""
    made, end = create_timeline(storage, timeline()), named_timelines._end

    def ends_after_another(*given: Any) -> None:
        monkeypatch.setattr(named_timelines, "_end", end)
        assert rename_timeline(storage, made, "other", NOW).name == "other"
        for name in then:
            create_timeline(storage, timeline(name))
        end(*given)

    begun = made.model_copy(update={"name": "other", "change": "renamed from fx-again"})
    create_timeline(storage, begun)
    monkeypatch.setattr(named_timelines, "_end", ends_after_another)
    assert rename_timeline(storage, made, "other", NOW + timedelta(seconds=1)).id == made.id
    assert [each.name for each in kept_timelines(storage, NOW)] == [*then, "other"]


@pytest.mark.parametrize("taken_back", ["before it is relied on", "after"])
def test_a_renaming_of_an_earlier_revision_is_taken_back_from_under_nobody(
    storage: Storage, monkeypatch: pytest.MonkeyPatch, taken_back: str
) -> None:
    """The slow one renamed what was changed meanwhile, so it takes its name back; the other has renamed it since."""
    made, write = create_timeline(storage, timeline()), named_timelines._write
    slow = create_timeline(
        storage, made.model_copy(update={"name": "other", "change": "renamed from fx-again", "came_from": "fx-again/0"})
    )
    kept = change_timeline(storage, made, "kept longer", NOW)
    kept = kept.model_copy(update={"change": made.change})

    def takes_back() -> None:
        named_timelines._end(storage, slow, "fx-again was changed meanwhile", NOW)

    def writes_after_it(*given: Any) -> NamedTimeline:
        monkeypatch.setattr(named_timelines, "_write", write)
        takes_back()
        return write(*given)

    if taken_back == "after":
        assert rename_timeline(storage, kept, "other", NOW).revision == slow.revision + 1
        with pytest.raises(PublicationRefused):
            takes_back()
    else:
        monkeypatch.setattr(named_timelines, "_write", writes_after_it)
        with pytest.raises(PublicationRefused, match="other was changed by another process"):
            rename_timeline(storage, kept, "other", NOW)
        assert rename_timeline(storage, kept, "other", NOW).id == made.id
    assert [(each.name, each.id) for each in kept_timelines(storage, NOW)] == [("other", made.id)]


def test_who_renames_what_was_changed_and_renamed_since_takes_nothing_back(storage: Storage) -> None:
    made = create_timeline(storage, timeline())
    kept = change_timeline(storage, made, "kept longer", NOW)
    renamed = rename_timeline(storage, kept, "other", NOW)
    with pytest.raises(PublicationRefused, match="other was changed by another process"):
        rename_timeline(storage, made, "other", NOW)
    assert kept_timelines(storage, NOW) == [renamed]


def test_a_name_has_one_holder_until_it_is_renamed_or_deleted(storage: Storage) -> None:
    made = create_timeline(storage, timeline())
    with pytest.raises(InvalidRequest, match="called 'fx-again' already"):
        rename_timeline(storage, made, "fx-again", NOW)
    with pytest.raises(InvalidRequest, match="'fx-again' already"):
        create_timeline(storage, timeline())
    other = rename_timeline(storage, made, "the-good-days", NOW)
    second = create_timeline(storage, timeline())
    with pytest.raises(InvalidRequest, match="'the-good-days' already"):
        rename_timeline(storage, second, "the-good-days", NOW)
    delete_timeline(storage, other, NOW)
    assert rename_timeline(storage, second, "the-good-days", NOW).id == second.id
    assert [each.name for each in kept_timelines(storage, NOW)] == ["the-good-days"]


def test_deleting_closes_the_folders_that_it_staged_in_and_no_others(storage: Storage) -> None:
    made, other = create_timeline(storage, timeline()), create_timeline(storage, timeline("other"))
    for owner in (made.id, other.id, "20170601t120000-a-run"):
        Timeline(storage, "facts", f"{owner}-1").open()
    delete_timeline(storage, made, NOW)
    assert open_since(storage, "facts").keys() == {f"{other.id}-1", "20170601t120000-a-run-1"}
    assert [each.name for each in timelines_of(storage, "facts")] == ["20170601t120000-a-run-1"]


def test_one_whose_age_is_reached_is_kept_no_longer_and_its_name_is_free(storage: Storage) -> None:
    """As of now, and not as of when the other one was changed last."""
    create_timeline(storage, timeline(keep_until=NOW + timedelta(days=2)))
    other = create_timeline(storage, timeline("other"))
    assert len(kept_timelines(storage, NOW + timedelta(days=1))) == 2
    with pytest.raises(InvalidRequest, match="'fx-again' already"):
        rename_timeline(storage, other, "fx-again", NOW)
    later = NOW + timedelta(days=2)
    assert kept_timelines(storage, later) == [other]
    with pytest.raises(InvalidRequest, match="no timeline 'fx-again'"):
        find_timeline(storage, "fx-again", later)
    assert rename_timeline(storage, other, "fx-again", later).name == "fx-again"


@pytest.mark.parametrize("name", ["", "main", "plan-x", "campaign-x", "timeline-x", "Fx", "a/b", "1st", "a" * 61])
def test_a_name_that_could_be_something_else_is_refused(storage: Storage, name: str) -> None:
    with pytest.raises(InvalidRequest, match="cannot name a timeline"):
        create_timeline(storage, timeline(name))


def test_a_wrong_name_is_answered_with_the_nearest_and_a_damaged_holder_is_named(storage: Storage) -> None:
    """It may be kept: none is made in its place."""
    create_timeline(storage, timeline())
    with pytest.raises(InvalidRequest, match="fx-again"):
        find_timeline(storage, "fx-agian", NOW)
    storage.write_bytes("_named_timelines/fx-again/000000.json", b"{")
    with pytest.raises(LakehouseUnusable, match=r"fx-again/000000\.json is damaged"):
        create_timeline(storage, timeline())
