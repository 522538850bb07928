"""Which small files become one: few files a day, and few times that a row is written again."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as some

from backfill_assets.publish.small_files import FULL, LARGE_BYTES, files_to_compact, tier


@dataclass(frozen=True)
class _File:
    path: str
    rows: int
    size: int = 1000


def _files(*rows: int) -> list[_File]:
    return [_File(f"f{number:03d}", each) for number, each in enumerate(rows)]


def test_a_full_tier_becomes_one_file() -> None:
    assert files_to_compact(_files(*[20] * 15)) == []
    assert files_to_compact(_files(*[20] * 16)) == [f"f{number:03d}" for number in range(16)]


def test_larger_files_stay_and_smaller_ones_go_along() -> None:
    group = files_to_compact(_files(5_000, *[300] * 16, 3, 20))
    assert group == [f"f{number:03d}" for number in range(1, 19)]


def test_files_of_different_tiers_fill_none() -> None:
    assert files_to_compact(_files(*[3] * 10, *[20] * 10, *[300] * 10)) == []


def test_large_files_are_left_alone() -> None:
    assert files_to_compact([_File(f"f{number}", 20, LARGE_BYTES) for number in range(40)]) == []


def test_tiers_are_sixteenfold() -> None:
    assert [tier(rows) for rows in (0, 15, 16, 255, 256, 4_096)] == [0, 0, 1, 1, 2, 3]


@given(some.lists(some.integers(0, 400), min_size=1, max_size=600))
def test_a_day_keeps_few_files_and_a_row_is_written_again_a_few_times(batches: list[int]) -> None:
    """Each merge brings a row at least one tier up, but for rows that go along: those start from a lower one."""
    files: dict[str, int] = {}
    rewritten: Counter[str] = Counter()
    held: dict[str, list[str]] = {}
    for number, rows in enumerate(batches):
        files[f"b{number}"], held[f"b{number}"] = rows, [f"b{number}"]
        if group := files_to_compact([_File(path, each) for path, each in files.items()]):
            total, parts = sum(files.pop(path) for path in group), [part for path in group for part in held.pop(path)]
            rewritten.update(parts)
            files[f"m{number}"], held[f"m{number}"] = total, parts
        tiers = Counter(tier(each) for each in files.values())
        assert all(count < FULL for count in tiers.values()) or max(tiers.values()) == FULL
    assert sum(files.values()) == sum(batches)
    assert max(rewritten.values(), default=0) <= tier(sum(batches)) + len(batches) // FULL // FULL + 1
