"""What a day holds once it has grown, without an engine: which files stay, its metrics, whether a rebuild is equal."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st

from backfill_assets.lakehouse.delta_log import AddedFile
from backfill_assets.lakehouse.records import DayContent
from backfill_assets.model.declaration import Metrics
from backfill_assets.model.rules import TotalAgrees, VolumeWithin
from backfill_assets.quality.gates import ContractHolds, KeyIsUnique
from backfill_assets.rebuild import grown_content as grown
from backfill_assets.rebuild.grown_content import MetricNames

NAMES = MetricNames(("rows", "checksum", "keys", "total_eur"), ("rejected_example",), ("violating_example",))
CONTENT = DayContent(
    rows=3,
    checksum="30",
    code_version="v1",
    metrics={"keys": 3, "total_eur": "12.3400", "rejected_example": "b", "violating_example": ""},
)


def file(path: str, rows: int = 1) -> AddedFile:
    return AddedFile(path, "2017-03-01", 10, 0, f'{{"numRecords":{rows}}}')


def test_only_files_with_a_removed_row_are_written_again() -> None:
    choice = grown.choose_files([file("b", 5), file("a", 2), file("c", 3)], {"b": 1, "c": 0, "elsewhere": 9})
    assert [each.path for each in choice.kept] == ["a", "c"]
    assert [each.path for each in choice.rewritten] == ["b"]
    assert choice.rewritten_rows == 5
    assert not grown.miscounted(choice, removed=1, stayed=4)
    assert grown.miscounted(choice, removed=1, stayed=5) and grown.miscounted(choice, removed=1, stayed=3)


def test_what_goes_is_what_its_files_hold_without_what_stays() -> None:
    went: Metrics = {"rows": 5, "checksum": 7, "keys": 5, "total_eur": Decimal("2.3400"), "rejected_example": "a"}
    stayed: Metrics = {"rows": 4, "checksum": -3, "keys": 4, "total_eur": Decimal("2.3000")}
    gone = {"rows": 1, "checksum": 10, "keys": 1, "total_eur": "0.0400"}
    assert grown.without(went, stayed, NAMES) == gone
    assert grown.without(went, {}, NAMES)["checksum"] == 7 and grown.without({}, {}, NAMES) == {}


def test_numbers_add_up_with_all_their_digits_and_the_least_text_wins() -> None:
    removed: Metrics = {"rows": 1, "checksum": 10, "keys": 1, "total_eur": Decimal("2.3400")}
    added: Metrics = {"rows": 2, "checksum": -5, "keys": 2, "total_eur": "0.0100", "rejected_example": "a"}
    assert grown.extended_metrics(CONTENT, removed, added, NAMES) == {
        "rows": 4,
        "checksum": 15,
        "keys": 4,
        "total_eur": "10.0100",
        "rejected_example": "a",
        "violating_example": "",
    }


def test_a_day_that_was_empty_gets_the_digits_of_its_new_rows() -> None:
    empty = DayContent(0, "0", metrics={"keys": 0, "total_eur": 0, "rejected_example": "", "violating_example": ""})
    found = grown.extended_metrics(empty, {}, {"rows": 1, "checksum": 7, "keys": 1, "total_eur": "1.5000"}, NAMES)
    assert (found["total_eur"], found["rejected_example"], found["rows"]) == ("1.5000", "", 1)


@given(st.lists(st.integers(-(2**70), 2**70), min_size=1), st.data())
def test_checksums_are_exact_however_the_rows_come_and_go(hashes: list[int], data: st.DataObject) -> None:
    gone = data.draw(st.lists(st.sampled_from(hashes), max_size=3))
    names = MetricNames(("rows", "checksum"), (), ())
    content = DayContent(len(hashes), str(sum(hashes)))
    found = grown.extended_metrics(content, {"rows": len(gone), "checksum": sum(gone)}, {}, names)
    assert found == {"rows": len(hashes) - len(gone), "checksum": sum(hashes) - sum(gone)}


def test_broken_truths_are_for_a_whole_build_and_thresholds_are_not() -> None:
    assert grown.is_truth(TotalAgrees("lines", "fact", "rows")) and grown.is_truth(KeyIsUnique(("id",)))
    assert grown.is_truth(ContractHolds()) and not grown.is_truth(VolumeWithin(at_most=1))


def test_a_day_had_no_duplicates_if_they_were_counted_or_no_row_gave_way() -> None:
    def content(**metrics: int) -> DayContent:
        return replace(CONTENT, metrics=metrics)

    assert grown.had_no_duplicates(content(deduplicated=0))
    assert grown.had_no_duplicates(content(deduplicated=30, duplicates=0))
    assert not grown.had_no_duplicates(content(deduplicated=30))
    assert not grown.had_no_duplicates(content(deduplicated=30, duplicates=1))
    assert not grown.had_no_duplicates(content())


def test_an_extended_day_is_compared_with_its_rebuild_and_the_difference_named() -> None:
    extended = replace(CONTENT, metrics={**CONTENT.metrics, grown.EXTENSIONS: 2}, staged_ms=7)
    assert grown.same_origin(extended, CONTENT) and grown.difference(extended, CONTENT) == ""
    assert not grown.same_origin(CONTENT, CONTENT)
    assert not grown.same_origin(replace(extended, inputs="others"), CONTENT)
    metrics = {**CONTENT.metrics, "keys": 4, "total_eur": "12.3500"}
    rebuilt = replace(CONTENT, rows=4, checksum="40", metrics=metrics)
    assert grown.difference(extended, rebuilt) == (
        "rows 3 -> 4; checksum 30 -> 40; total_eur 12.3400 -> 12.3500; keys 3 -> 4"
    )


def test_extensions_are_counted_since_the_last_whole_build() -> None:
    assert grown.extensions_of(None) == grown.extensions_of(CONTENT) == 0
    extended = replace(CONTENT, metrics={**CONTENT.metrics, grown.EXTENSIONS: 2})
    assert grown.extensions_of(extended) == 2
    assert grown.without_extensions(extended.metrics) == CONTENT.metrics
