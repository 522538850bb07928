"""A campaign's journal: each entry once, for any answer of an object store."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

import pytest

from backfill_assets.errors import LakehouseUnusable
from backfill_assets.lakehouse.campaign_journal import (
    CampaignStep,
    JournalEntry,
    entries,
    newest,
    set_damaged_aside,
    write,
)
from backfill_assets.lakehouse.campaign_reports import (
    ApprovalReport,
    BegunReport,
    ComparedReport,
    CutOverReport,
    PinnedReport,
    PublicationReport,
    Report,
    StagedReport,
    StepCounts,
    StopReport,
)
from backfill_assets.lakehouse.storage import Storage

NOW = datetime(2026, 3, 1, tzinfo=UTC)
CAMPAIGN = "campaign-0123456789abcdef"
BEFORE = [each.splitlines() for each in (Path(__file__).parent / "journals_of_before.jsonl").read_text().split("\n\n")]
"""Entries as files of 0.1.0 have them: published and taken up after an undo; stopped; given up; approved knowingly."""
KINDS: tuple[Literal["approved", "stopped", "resumed"], ...] = ("approved", "stopped", "resumed")


@dataclass(frozen=True)
class ForgetfulStore(Storage):
    """Takes a file, loses the answer, and refuses it when the client sends it again."""

    def put_if_absent(self, path: str, data: bytes) -> bool:
        super().put_if_absent(path, data)
        return super().put_if_absent(path, data)


def test_an_entry_whose_answer_was_lost_is_written_once(tmp_path: Path) -> None:
    """Twice approved would be two approvals."""
    store = ForgetfulStore(str(tmp_path))
    assert write(store, CAMPAIGN, JournalEntry(kind="started", at=NOW)) == 0
    assert write(store, CAMPAIGN, JournalEntry(kind="approved", at=NOW, by="ana")) == 1
    assert [entry.kind for entry in entries(store, CAMPAIGN)] == ["started", "approved"]


def test_two_writers_get_two_numbers(tmp_path: Path) -> None:
    """Another one's entry under the number is not ours."""
    storage = Storage(str(tmp_path))
    write(storage, CAMPAIGN, JournalEntry(kind="started", at=NOW))
    storage.write_bytes(
        f"_campaigns/{CAMPAIGN}/000002.json", JournalEntry(kind="resumed", at=NOW).model_dump_json().encode()
    )
    assert write(storage, CAMPAIGN, JournalEntry(kind="approved", at=NOW)) == 3


def test_what_is_written_after_damaged_entries_were_set_aside_comes_last(tmp_path: Path) -> None:
    storage = Storage(str(tmp_path))
    begun = JournalEntry(kind="started", at=NOW)
    for each in (begun, *(JournalEntry(kind=kind, at=NOW) for kind in KINDS)):
        write(storage, CAMPAIGN, each)
    for number in (1, 2):
        storage.replace_bytes(f"_campaigns/{CAMPAIGN}/{number:06d}.json", b"{")
    set_damaged_aside(storage, CAMPAIGN, begun)
    assert write(storage, CAMPAIGN, JournalEntry(kind="withdrawn", at=NOW)) == 4
    assert [entry.kind for entry in entries(storage, CAMPAIGN)] == ["started", "resumed", "withdrawn"]


def test_a_damaged_entry_is_named_and_hides_no_other_campaign(tmp_path: Path) -> None:
    """Plans are timed by the newest campaigns, and a rewind lists what they held back: one is passed over."""
    storage, other = Storage(str(tmp_path)), "campaign-fedcba9876543210"
    for name in (CAMPAIGN, other):
        write(storage, name, JournalEntry(kind="started", at=NOW))
    path = f"_campaigns/{CAMPAIGN}/000000.json"
    storage.replace_bytes(path, b'{"kind": "star')
    assert [[entry.kind for entry in found] for found in newest(storage, 2)] == [["started"]]
    with pytest.raises(LakehouseUnusable, match="is damaged") as named:
        entries(storage, CAMPAIGN)
    assert storage.uri(path) in named.value.message


def test_journals_of_before_are_read_and_would_be_written_alike(tmp_path: Path) -> None:
    """Each report has the type of its kind or step; a process of an older version reads what this one writes."""
    storage = Storage(str(tmp_path))
    for lines in BEFORE:
        for number, line in enumerate(lines):
            storage.write_bytes(f"_campaigns/{CAMPAIGN}-{len(lines)}/{number:06d}.json", line.encode())
        found = entries(storage, f"{CAMPAIGN}-{len(lines)}")
        assert [each.model_dump_json() for each in found] == lines
        assert not [each for each in found if type(each.report) is Report]
    published, stopped, given_up, knowingly = BEFORE
    begun, *_, withdrawn = map(JournalEntry.model_validate_json, knowingly)
    assert begun.reported(StopReport).staged and withdrawn.reported(ComparedReport).held_back
    _, approved, cut_over = map(JournalEntry.model_validate_json, knowingly[1:4])
    assert approved.reported(ApprovalReport).without_held_back
    assert cut_over.reported(CutOverReport).days == {"fact_daily_revenue": ("2017-03-01..2017-03-02",)}
    assert JournalEntry.model_validate_json(stopped[1]).reported(StopReport).helps.startswith("Plan again")
    assert JournalEntry.model_validate_json(given_up[2]).gives_up
    counted = JournalEntry.model_validate_json(published[5]).reported(StagedReport)
    assert counted.days["report_monthly_close"] == StepCounts(staged=1, unchanged=0, held_back=0)


def test_the_oldest_and_the_next_journals_are_read() -> None:
    """Undone by its own entry, and approved by no known person; a field that is not known here is passed over."""
    said: tuple[tuple[str, Mapping[str, object], Report], ...] = (
        ("rolled back", {"publication": "undo"}, PublicationReport(publication="undo")),
        ("approved", {}, ApprovalReport()),
        ("started", {"daemon": True, "of a later version": [1]}, BegunReport(daemon=True)),
        ("stopped", {"held back days": {}}, StopReport(held_back_days={})),
        ("stopped", {}, StopReport()),
    )
    for kind, report, typed in said:
        found = JournalEntry.model_validate({"kind": kind, "at": NOW, "report": report})
        assert (type(found.report), found.report) == (type(typed), typed)
    assert JournalEntry(kind="step", step=CampaignStep.PIN, at=NOW).report == PinnedReport()
    assert JournalEntry(kind="approved", at=NOW).reported(CutOverReport) == CutOverReport()
