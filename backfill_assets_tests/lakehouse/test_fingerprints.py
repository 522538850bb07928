"""Fingerprints: where the bytes are and what the content is are two questions, with two answers."""

from __future__ import annotations

from datetime import date

from backfill_assets.lakehouse import fingerprints
from backfill_assets.lakehouse.records import DayContent, DayState, logical_of

FIRST, SECOND = date(2017, 3, 1), date(2017, 3, 2)


def _state(content: DayContent | None, physical: str) -> DayState:
    return DayState(table="t", day=FIRST, publication="p", sequence=1, physical=physical, content=content)


def test_the_physical_fingerprint_is_the_set_of_files() -> None:
    """Delta lists files in any order, and never rewrites one in place."""
    assert fingerprints.physical(["b", "a"]) == fingerprints.physical(["a", "b"])
    assert fingerprints.physical(["a"]) != fingerprints.physical(["a", "b"])
    assert fingerprints.physical([]) == fingerprints.EMPTY_DAY


def test_the_input_fingerprint_hangs_on_code_parameters_and_inputs() -> None:
    """Any of the three makes a day stale; the order in which inputs are named does not."""
    one = fingerprints.inputs({"a": {FIRST: "x", SECOND: "y"}, "b": {FIRST: "z"}})
    assert one == fingerprints.inputs({"b": {FIRST: "z"}, "a": {SECOND: "y", FIRST: "x"}})
    known = fingerprints.input_fingerprint("v1", "p", one)
    others = {
        fingerprints.input_fingerprint("v2", "p", one),
        fingerprints.input_fingerprint("v1", "q", one),
        fingerprints.input_fingerprint("v1", "p", fingerprints.inputs({"a": {FIRST: "x"}})),
    }
    assert known not in others
    assert len(others) == 3


def test_an_empty_day_is_content_and_a_missing_day_is_not() -> None:
    """An empty day is published like any other: its readers are fresh, those of a missing day are not."""
    empty = DayContent(rows=0, checksum="0")
    assert logical_of(_state(empty, fingerprints.EMPTY_DAY), fingerprints.EMPTY_DAY) == "0:0"
    assert logical_of(None, fingerprints.EMPTY_DAY) == fingerprints.NEVER_PUBLISHED
    assert logical_of(_state(None, fingerprints.EMPTY_DAY), fingerprints.EMPTY_DAY) == fingerprints.NEVER_PUBLISHED


def test_files_that_we_did_not_publish_are_foreign() -> None:
    """The log may remember the day, but its content is not known any more."""
    known = _state(DayContent(rows=1, checksum="7"), "ours")
    assert known.logical_at("ours") == "1:7"
    assert known.logical_at("theirs") == fingerprints.foreign("theirs")
    assert logical_of(None, "theirs") == fingerprints.foreign("theirs")
    assert _state(None, "restored").logical_at("restored") == fingerprints.foreign("restored")
