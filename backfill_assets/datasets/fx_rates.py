"""The dataset ``fx_rates``: the European Central Bank's daily reference rates, on the days it publishes any."""

from __future__ import annotations

from datetime import date
from decimal import Decimal

from backfill_assets.datasets import fx_transforms_v1 as v1
from backfill_assets.datasets.dataset import Dataset, Reads, Step, Table, Version
from backfill_assets.datasets.day_rules import ContentIntact, EverythingAccountedFor, FewRejected, VolumeWithin
from backfill_assets.datasets.fx_contracts import BronzeFxRates, QuarantineFxRates, RawFxRates
from backfill_assets.datasets.fx_source import FX_RATES

MOST_RATES_A_DAY = 10_000

RAW = Table(
    name="raw_fx_rates",
    layer="raw",
    description="Every rate received, as text, on the day it was published; no rows on weekends and holidays.",
    contract=RawFxRates,
    key=(),
    rules=(ContentIntact(FX_RATES, "text"), VolumeWithin(at_most=MOST_RATES_A_DAY)),
)

BRONZE = Table(
    name="bronze_fx_rates",
    layer="bronze",
    description="Typed rates: units of a currency for one euro, the newest version for each day.",
    contract=BronzeFxRates,
    key=("currency",),
    rules=(
        ContentIntact(FX_RATES, "values"),
        EverythingAccountedFor(raw=RAW.name, quarantine="quarantine_fx_rates"),
        FewRejected(raw=RAW.name, quarantine="quarantine_fx_rates", at_most=Decimal("0.2"), tolerated_rows=2),
        VolumeWithin(at_most=MOST_RATES_A_DAY),
    ),
)

QUARANTINE = Table(
    name="quarantine_fx_rates",
    layer="quarantine",
    description="Rejected rates as they were landed, with file, line and every reason.",
    contract=QuarantineFxRates,
    key=("source_file", "source_line"),
    rules=(ContentIntact(FX_RATES, "text"),),
)

FX_DATASET = Dataset(
    name="fx_rates",
    description="Reference rates of currencies against the euro.",
    owners=("team:retail-data",),
    # The sales begin on 2017-01-01, which may need a rate published up to eight days before.
    first_day=date(2016, 12, 24),
    steps=(
        Step(tables=(RAW,), source=FX_RATES),
        Step(
            tables=(BRONZE, QUARANTINE),
            versions=(Version("v1", "Newest version of each rate.", (Reads(RAW.name),), v1.bronze),),
            current="v1",
        ),
    ),
)
