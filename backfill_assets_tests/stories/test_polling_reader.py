"""A reader polls while a campaign is staged, cut over and rolled back: what it reads is all old or all new, always.

The reader is a process of its own, ``python -m backfill_assets_tests.stories.test_polling_reader``, and does not know
what is legal. Again and again it takes the map of published versions once, reads all rows of the fact and of its
reports at them, and says what they were and when it began. Each read is judged here.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import select
import shutil
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import NamedTuple

import pytest

from backfill_assets.campaign.cutover import cut_over
from backfill_assets.campaign.undo import undo
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.publish.crash_points import CrashPoint
from backfill_assets.rebuild.walk import shadow
from backfill_assets.state.reading import PublishedTable, published_versions
from backfill_assets_tests import oracle
from backfill_assets_tests.stories.staged_campaign import CAMPAIGN, DAYS, FACT, REPORTS, RUN, TABLES, steps
from backfill_assets_tests.workshop import Workshop

Content = dict[str, str]
"""By table: the count of its rows, and a hash of all their values."""
AT_LEAST = 50
"""Reads that begin within each transition."""
AT_EACH_STEP = 4
"""Reads for which a publication stands still at each of its steps."""
MOST_ROUNDS = 40
"""Cut-overs and rollbacks that stand still nowhere: more than enough for as many reads within them."""


def poll() -> None:
    """The reader. A line of standard input names the home to read from now on; the end of input is its end."""
    home = sys.stdin.readline().rstrip("\n")
    while home:
        began = time.monotonic()
        print(json.dumps([home, began, look(Path(home))]), flush=True)
        if select.select([sys.stdin], [], [], 0)[0]:
            home = sys.stdin.readline().rstrip("\n")


def look(home: Path) -> Content:
    """All rows of all tables of the campaign, at the versions of one map."""
    storage = Storage(str(home / "lakehouse"))
    versions = published_versions(storage)
    return {table: _content(PublishedTable(table, storage.uri(table), versions[table], storage)) for table in TABLES}


def _content(table: PublishedTable) -> str:
    rows = sorted(repr(sorted(row.items())) for row in table.dataset().to_table().to_pylist())
    return f"{len(rows)} rows {hashlib.sha256(chr(10).join(rows).encode()).hexdigest()}"


class Read(NamedTuple):
    home: str
    began: float
    content: Content


@dataclass
class PollingReader:
    """What the reader has read so far; ``legal`` names the states that a read may find."""

    process: subprocess.Popen[str]
    legal: dict[str, Content]
    reads: list[Read] = field(default_factory=list)

    def listen(self) -> None:
        assert self.process.stdout
        for line in self.process.stdout:
            self.reads.append(Read(*json.loads(line)))

    def move_to(self, home: Path) -> None:
        assert self.process.stdin
        self.process.stdin.write(f"{home}\n")
        self.process.stdin.flush()
        while not self.reads or self.reads[-1].home != str(home):
            self.wait_for(1)

    def wait_for(self, count: int) -> None:
        """Until ``count`` reads have ended that began from now on."""
        now = time.monotonic()
        while sum(read.began >= now for read in self.reads[-count:]) < count:
            assert self.process.poll() is None, "the reader could not read"
            assert time.monotonic() < now + 60, "the reader is starved"
            time.sleep(0.01)

    @contextmanager
    def through(self, transition: Transition) -> Iterator[None]:
        """Reads that begin in here are those of ``transition``; there is one right before, and one right after."""
        self.wait_for(1)
        started = time.monotonic()
        yield
        ended = time.monotonic()
        self.wait_for(1)
        transition.add([self.state(read) for read in self.reads if started <= read.began <= ended])

    def state(self, read: Read) -> str:
        found = [name for name, content in self.legal.items() if content == read.content]
        assert found, f"neither old nor new: {read.content}; legal: {self.legal}"
        return found[0]

    def course(self, home: Path) -> list[str]:
        """The states that were seen at ``home``, one after the other."""
        return [state for state, _ in itertools.groupby(self.state(r) for r in self.reads if r.home == str(home))]


@dataclass
class Transition:
    """What the reads that began within it saw; ``order`` is how states may follow each other."""

    name: str
    order: tuple[str, ...]
    seen: Counter[str] = field(default_factory=Counter)

    def add(self, states: list[str]) -> None:
        assert set(states) <= set(self.order), f"during the {self.name}: {Counter(states)}"
        assert states == sorted(states, key=self.order.index), f"{self.name}: back and forth, {states}"
        self.seen.update(states)

    def __str__(self) -> str:
        return f"{self.name}: {self.seen.total()} reads, {dict(self.seen)}"


@contextmanager
def polling(home: Path) -> Iterator[PollingReader]:
    """What is published when it starts is the old state."""
    command = [sys.executable, "-m", __name__]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        reader = PollingReader(process, {"old": look(home)})
        thread = threading.Thread(target=reader.listen)
        thread.start()
        try:
            reader.move_to(home)
            yield reader
        finally:
            if process.stdin:
                process.stdin.close()
            thread.join(timeout=60)


@pytest.mark.long
def test_a_polling_reader_sees_all_old_or_all_new_through_shadow_cut_over_and_rollback(
    wrong: Workshop, tmp_path: Path
) -> None:
    """Once with publications that stand still at each of their steps while it reads, and then at full speed."""
    assert_made_with_the_rates_of(wrong, days_before=1)
    home = wrong.settings.home
    with polling(home) as reader:
        staging = Transition("shadow", ("old",))

        def standing_still(message: str) -> None:
            """Staging is done once, however fast: it waits for reads wherever it reports its progress."""
            wrong.messages.append(message)
            reader.wait_for(AT_EACH_STEP)

        with reader.through(staging):
            shadow(wrong.builder.lake, CAMPAIGN, steps(), RUN, standing_still)
        staged = shutil.copytree(home, tmp_path / "staged")
        reader.legal["new"] = published_in(shutil.copytree(staged, tmp_path / "published"))
        assert all(reader.legal["old"][table] != reader.legal["new"][table] for table in TABLES)

        cutting, back = Transition("cut-over", ("old", "new")), Transition("rollback", ("new", "old"))
        stops: Counter[CrashPoint] = Counter()
        there_and_back(wrong, reader, cutting, back, stops)
        fast_cut, fast_back = Transition("fast cut-over", ("old", "new")), Transition("fast rollback", ("new", "old"))
        for number in range(MOST_ROUNDS):
            if min(fast_cut.seen.total(), fast_back.seen.total()) >= AT_LEAST:
                break
            copy = shutil.copytree(staged, tmp_path / f"round-{number}")
            reader.move_to(copy)
            there_and_back(Workshop(copy, pytest.fail), reader, fast_cut, fast_back)

    print("", *(staging, cutting, back, fast_cut, fast_back), sep="\n")
    print(f"stood still for {AT_EACH_STEP} reads at { ({step.value: count for step, count in stops.items()}) }")
    assert all(each.seen.total() >= AT_LEAST for each in (staging, cutting, back, fast_cut, fast_back))
    assert all(min(each.seen[state] for state in each.order) >= AT_EACH_STEP for each in (cutting, back))


def there_and_back(
    workshop: Workshop,
    reader: PollingReader,
    cutting: Transition,
    back: Transition,
    stops: Counter[CrashPoint] | None = None,
) -> None:
    """Cut over and roll back. With ``stops``, wait for the reader at each step, and count it there."""

    def stop(step: CrashPoint, about: str) -> None:
        if stops is not None:
            reader.wait_for(AT_EACH_STEP)
            stops[step] += 1

    lake, tell = workshop.builder.lake, workshop.messages.append
    lake.publisher.reached = stop
    with reader.through(cutting):
        done = cut_over(lake, CAMPAIGN, steps(), RUN, tell)
    with reader.through(back):
        undo(lake, done.published.publication, RUN, tell)
    assert reader.course(workshop.settings.home) == ["old", "new", "old"]
    assert not done.staged_again


def published_in(home: Path) -> Content:
    """What is read after an undisturbed cut-over, when it is what the right logic makes of the lines."""
    workshop = Workshop(home, pytest.fail)
    cut_over(workshop.builder.lake, CAMPAIGN, steps(), RUN, workshop.messages.append)
    assert_made_with_the_rates_of(workshop, days_before=0)
    return look(home)


def assert_made_with_the_rates_of(workshop: Workshop, days_before: int) -> None:
    """Each amount is what the oracle says, and the reports add up to them."""
    fact = workshop.read(FACT, DAYS)
    columns = (fact[name].tolist() for name in ("day", "currency", "sales_value", "amount_eur"))
    total = Decimal(0)
    for day, currency, value, euros in zip(*columns, strict=True):
        assert euros == oracle.amount_eur(value, oracle.rate_as_of(day - timedelta(days=days_before), currency))
        total += euros
    assert len(fact) == len(workshop.read("bronze_sales", DAYS)) > 0
    for report in REPORTS:
        rows = workshop.read(report)
        assert (sum(rows["revenue_eur"].tolist()), sum(rows["lines"].tolist())) == (total, len(fact)), report


if __name__ == "__main__":
    poll()
