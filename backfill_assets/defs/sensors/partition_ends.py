"""The sensor ``partition_ends``: partitions of data that has ended grow with what lands after them.

Dagster's web server and daemon know partitions as they were when the code location was loaded. Data that goes on has
no end there. Data that has ended and gets another day has a new end only when the code location is loaded again.
"""

# No postponed annotations here: Dagster resolves resources from the annotations themselves.
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, date, datetime
from threading import Timer

import dagster as dg

from backfill_assets.defs.private_dagster import GrpcServerCodeLocationOrigin
from backfill_assets.defs.resources import Backfill
from backfill_assets.errors import BackfillError
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.landing.last_days import last_days
from backfill_assets.landing.zone import LandingZone
from backfill_assets.model.declaration import Dataset
from backfill_assets.settings import Settings

SENSOR = "partition_ends"
_EVERY_SECONDS = 30
_AFTER_THIS_TICK_SECONDS = 1.0
_RELOAD_TIMEOUT_SECONDS = 180
_BY_HAND = "press Reload beside the code location, under Deployment, or start the code server again"
Ends = Mapping[str, date]
"""The last day of datasets whose data has ended."""


def ends_of_data(datasets: Sequence[Dataset], settings: Settings) -> dict[str, date] | None:
    """The last days as they are now; None if landing zone or publication log cannot be read."""
    zone, storage = LandingZone(settings.landing), Storage(str(settings.lakehouse))
    try:
        return last_days(datasets, zone, storage, datetime.now(UTC).date())
    except (BackfillError, OSError):
        return None


def partition_end_sensor(datasets: Sequence[Dataset], loaded: Ends) -> dg.SensorDefinition:
    """On from the start. ``loaded`` are the ends that the partitions of this code location have."""

    @dg.sensor(
        name=SENSOR,
        description=(
            "Loads the code location again when a day lands after the last partition: partitions of data that has "
            "ended end with its last day. Data that goes on has a partition for each day until yesterday."
        ),
        minimum_interval_seconds=_EVERY_SECONDS,
        default_status=dg.DefaultSensorStatus.RUNNING,
    )
    def partition_ends(context: dg.SensorEvaluationContext, backfill: Backfill) -> dg.SensorResult:
        now = ends_of_data(datasets, backfill.settings)
        if now is None or now == loaded:
            reason = (
                "Landing zone or log cannot be read."
                if now is None
                else f"Partitions end with the data: {_in_words(loaded)}."
            )
            return dg.SensorResult(skip_reason=reason)
        wanted = json.dumps({name: str(day) for name, day in sorted(now.items())})
        change = f"The data ends elsewhere now: {_in_words(now)}"
        if context.cursor == wanted:
            return dg.SensorResult(skip_reason=f"{change}. To see it here, {_BY_HAND}.", cursor=wanted)
        asked = _reload(context.code_location_origin)
        next_step = "The code location is being loaded again." if asked else f"To see it here, {_BY_HAND}."
        context.log.info(f"{change}. {next_step}")
        return dg.SensorResult(skip_reason=f"{change}. {next_step}", cursor=wanted)

    return partition_ends


def _in_words(ends: Ends) -> str:
    return ", ".join(f"{name} on {day}" for name, day in sorted(ends.items())) or "all of it goes on"


def _reload(origin: object) -> bool:
    """Ask the code server to load its code again, when this tick is over: it ends the process that this runs in.

    Runs go on. False for a server that can only be asked by the UI.
    """
    if not isinstance(origin, GrpcServerCodeLocationOrigin):
        return False
    client = origin.create_client()

    def ask() -> None:
        # A server without this call stays as it is, and the next tick says what to do.
        with suppress(Exception):
            client.reload_code(_RELOAD_TIMEOUT_SECONDS)

    timer = Timer(_AFTER_THIS_TICK_SECONDS, ask)
    timer.daemon = True
    timer.start()
    return True
