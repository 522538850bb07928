"""What somebody who works on a lakehouse is given, and tells: all that an actor's deed may ask of its world.

There are two: the simulated world, where lives hand on one baton and every step is judged at once, and that of real
processes, where everything that is asked and answered is a line in a file, and is judged afterwards.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING, Protocol

from backfill_assets.days import TableDay
from backfill_assets.errors import BackfillError
from backfill_assets.lakehouse.records import Publication
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.publish.due_notice import DueNotice
from backfill_assets.publish.publisher import Conflict, Published
from backfill_assets_tests.simulator.chain import Chain
from backfill_assets_tests.simulator.history import Key, Kind, Outcome
from backfill_assets_tests.simulator.model import Rows, RowsOfTables, Wishes

if TYPE_CHECKING:
    from backfill_assets_tests.simulator.world import Life


class PassingClock(Protocol):
    """The clock that all who work on a lakehouse share."""

    @property
    def moment(self) -> datetime:
        """What it shows, without a look that others could overtake."""

    def now(self) -> datetime: ...

    def stamp(self) -> int:
        """What an engine writes into its commits, without a look (ms since 1970)."""

    def pass_on(self, time: timedelta) -> None:
        """So much time passes at once; where it passes by itself, nothing happens."""


class Records(Protocol):
    """Takes down what each process asks for, and what it is answered."""

    def asks(
        self,
        process: str,
        kind: Kind,
        publication: str | None = None,
        *,
        pinned: bool = True,
        writes: Mapping[Key, str] | None = None,
        reads: Mapping[Key, str] | None = None,
    ) -> None: ...

    def told(self, process: str, outcome: Outcome) -> None: ...


class Surroundings(Protocol):
    """The world of a life. ``tally`` counts what happened, ``columns`` says how many more columns a table has."""

    tally: Counter[str]
    columns: dict[str, int]

    @property
    def storage(self) -> Storage: ...

    @property
    def chain(self) -> Chain:
        """The tables that are computed."""

    @property
    def clock(self) -> PassingClock: ...

    @property
    def record(self) -> Records: ...

    # ------------------------------------------------------------------ lives

    def reached(self, life: Life, step: str) -> None:
        """A place in the code at which somebody else may go on."""

    def rest(self, life: Life) -> None:
        """There is nothing more to do for it at the moment."""

    def count(self, what: str) -> int:
        """A number that nobody else gets for the same."""

    # ------------------------------------------------------------------ what is asked and answered

    def asks(
        self,
        life: Life,
        publication: Publication,
        rows: RowsOfTables,
        inputs: RowsOfTables | None = None,
        looked_at: Mapping[str, int] | None = None,
    ) -> None:
        """It is about to publish ``rows``, made of those of ``inputs`` at the versions ``looked_at``."""

    def completes(self, life: Life, publication: Publication) -> None:
        """On the state that it is decided on, it names who is left stale."""

    def intends(self, life: Life, id: str, wishes: Wishes, days: Mapping[str, Iterable[date]]) -> None:
        """It is about to have something published that the package puts together itself."""

    def told(self, life: Life, id: str, result: Published | Conflict | None) -> None:
        """It is answered."""

    def told_of(self, life: Life, error: BackfillError) -> None:
        """It is refused."""

    def told_again(self, publication: Publication, result: Published | Conflict) -> None:
        """The answer to somebody who has asked for what another one had asked for before."""

    def rows_of(self, publication: Publication) -> RowsOfTables:
        """The rows that it brings, by the files that it names."""

    def read_by(self, publication: Publication) -> RowsOfTables:
        """The rows that it was made of."""

    def wrote(self, life: Life, table: str, version: int, day: date) -> None:
        """Who writes past the log is answered; its table was at ``version``."""

    def send(self, due: DueNotice) -> None:
        """Somebody receives a notice."""

    # ------------------------------------------------------------------ what is read

    def pins(self, life: Life, position: int, versions: Mapping[str, int], values: Mapping[TableDay, str]) -> None:
        """At ``position`` of the log it is shown this map of tables, and the publication of each of their days."""

    def sees(self, life: Life, table: str, version: int | None, rows: Mapping[date, Rows]) -> None:
        """A table has these rows at a version; None before there is a table."""

    def has_read(self, life: Life, position: int | None = None) -> None:
        """It has read all that it wanted to."""

    # ------------------------------------------------------------------ what everybody can find out

    def published_so_far(self, tables: Collection[str]) -> list[str]:
        """The newest publications of ``tables`` alone that are done, in their order."""

    def undoing(self, publication: str) -> tuple[Wishes, Mapping[str, Sequence[date]]]:
        """What an undo of it is meant to do, and the days of each table that it touches."""

    def under_way(self) -> list[str]:
        """The publications that are open."""

    def unanswered(self) -> list[Publication]:
        """The newest publications of which nobody who lives waits for an answer."""

    def has_several_files(self, table: str, day: date) -> bool: ...

    def was_taken_away(self, table: str) -> bool:
        """Have others deleted files or commits of a table?"""

    def landed(self) -> Mapping[date, Sequence[str]]:
        """The rows of the chain's raw table."""
