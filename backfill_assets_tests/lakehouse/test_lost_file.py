"""What an engine says of a file that is gone becomes a day and a command: no query, no path."""

from __future__ import annotations

import pytest

from backfill_assets.lakehouse.lost_file import file_lost

PATH = "/lake/{}/_timelines/20170601t1-run-1/write-id=w5/day=2017-03-04/part-0.c000.snappy.parquet"
SAID = (
    'IO Error: No files found that match the pattern "{}"\n\nLINE 1: SELECT * FROM read_parquet(...)',
    "Failed to open local file '{}'. Detail: [errno 2] No such file or directory",
    "Invalid Input Error: No magic bytes found at end of file '{}'",
)


@pytest.mark.parametrize("said", SAID)
def test_the_day_and_the_command_are_named(said: str) -> None:
    """Rows of raw are read again from what has landed; of any other table, its day says what helps."""
    lost = file_lost(OSError(said.format(PATH.format("raw_sales"))))
    assert str(lost) == (
        "raw_sales 2017-03-04 cannot be read: its file part-0.c000.snappy.parquet is gone or damaged.\n"
        "  -> backfill raw restore raw_sales 2017-03-04 reads its rows again from the landed files."
    )
    other = file_lost(OSError(said.format(PATH.format("fact_daily_revenue"))))
    assert other is not None and other.hint == "backfill show fact_daily_revenue 2017-03-04 says what helps."


@pytest.mark.parametrize(
    "said", ["No such file or directory: /etc/x", f"Permission denied: {PATH.format('raw_sales')}"]
)
def test_any_other_error_stays_what_it_is(said: str) -> None:
    assert file_lost(OSError(said)) is None
