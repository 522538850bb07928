"""From raw text to typed rows: what is rejected and why, and which version of a key wins its day."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from backfill_assets.datasets.canonical import parsed
from backfill_assets.datasets.contract import all_of, as_declared, sound, struct_type, violations
from backfill_assets.datasets.dataset import Source
from backfill_assets.datasets.landed import quarantine_contract

if TYPE_CHECKING:
    from backfill_assets.datasets.contract_model import Contract

_PROVENANCE = ("content_hash", "source_file", "source_line", "arrival_day")
_SOUND = "is_sound"
_PARSED = "parsed"
_NEWEST = "newest"


@dataclass(frozen=True)
class Refinement:
    """How the raw rows of a source become typed rows with one winner per ``key`` and day."""

    source: Source
    contract: type[Contract]
    key: tuple[str, ...]
    derived: Mapping[str, tuple[str, ...]] = field(default_factory=dict, hash=False)
    """Text columns made of others with a dash between, such as a key of two fields; null if one of them is."""


def refined(inputs: Mapping[str, DataFrame], refinement: Refinement) -> Mapping[str, DataFrame]:
    """Both tables of a source from its raw rows: ``bronze_<source>`` and ``quarantine_<source>``."""
    name = refinement.source.name
    raw = inputs[f"raw_{name}"]
    return {f"bronze_{name}": accepted(raw, refinement), f"quarantine_{name}": rejected(raw, refinement)}


def accepted(raw: DataFrame, refinement: Refinement) -> DataFrame:
    """One row per key and day, the greatest by (version, content hash), in the shape of the contract.

    What it won over is counted and summed in it, so that nothing received is unaccounted for; if a marker in the
    same day stands for a still newer version, it says which day that one belongs to.
    """
    typed = _typed(raw, refinement)
    relevant = typed.where((F.col("record_kind") == "supersession") | F.col(_SOUND))
    return _winners(relevant.repartition("day"), refinement).select(*struct_type(refinement.contract).names)


def rejected(raw: DataFrame, refinement: Refinement) -> DataFrame:
    """Received rows that break the contract, as they were landed, with every reason; for the quarantine table."""
    typed = _typed(raw.where(F.col("record_kind") == "received"), refinement)
    broken = typed.where(~F.col(_SOUND)).withColumn("reasons", _reasons(refinement))
    fields = struct_type(quarantine_contract(refinement.source, refinement.contract)).fields
    columns = [as_declared(_as_landed(field.name), field) for field in fields]
    return broken.select(*columns).repartition("day")


def _as_landed(name: str) -> Column:
    return F.col(name if name == "reasons" else f"landed.{name}")


def _typed(raw: DataFrame, refinement: Refinement) -> DataFrame:
    """Every raw row as it was ``landed``, its fields typed, the derived columns, and whether it keeps the contract."""
    source = refinement.source
    typed = raw.select(
        F.struct(*raw.columns).alias("landed"),
        *(F.col(name) for name in ("day", "record_kind", *_PROVENANCE, "superseded_by_day")),
        *(parsed(F.col(name), source.type_of(name)).alias(name) for name in source.columns if name != "day"),
    )
    return typed.select("*", *_derived(refinement)).withColumn(_SOUND, _sound(refinement))


def _derived(refinement: Refinement) -> list[Column]:
    return [
        F.when(_none_empty(parts), F.concat_ws("-", *parts)).alias(name) for name, parts in refinement.derived.items()
    ]


def _none_empty(columns: tuple[str, ...]) -> Column:
    return all_of(F.length(name) > 0 for name in columns)


def _sound(refinement: Refinement) -> Column:
    """Nearly all rows are: the reasons, with all their words, are left to those that are not."""
    return ~_unparsed() & ~_implausible(refinement.source) & _by_contract(sound, refinement)


def _reasons(refinement: Refinement) -> Column:
    name = refinement.source.event_day_field
    absurd = F.concat(F.lit(f"{name}: '"), F.col(f"landed.{name}"), F.lit("' is no plausible day"))
    nothing = F.array().cast("array<string>")
    implausible = F.when(_implausible(refinement.source), F.array(absurd)).otherwise(nothing)
    not_an_object = F.array(F.lit("line: is not one JSON object with distinct fields"))
    return F.when(_unparsed(), not_an_object).otherwise(F.concat(_by_contract(violations, refinement), implausible))


def _by_contract(judge: Callable[..., Column], refinement: Refinement) -> Column:
    texts = {name: F.col(f"landed.{name}") for name in refinement.source.columns}
    return judge(refinement.contract, texts, (*refinement.source.columns, *refinement.derived))


def _unparsed() -> Column:
    return F.col("landed.unparsed_line").isNotNull()


def _implausible(source: Source) -> Column:
    """Whether a row has the day of its arrival although it names one; never null, or it would be in neither table."""
    named = F.col(source.event_day_field).isNotNull()
    return F.coalesce(F.col("landed.day_is_arrival") & named, F.lit(False))


def _winners(rows: DataFrame, refinement: Refinement) -> DataFrame:
    received = F.col("record_kind") == "received"
    content = F.col("content_hash").cast("decimal(20,0)")
    newest = rows.groupBy("day", *refinement.key).agg(
        F.max(F.when(received, _candidate(refinement))).alias("winner"),
        F.max(F.when(~received, _marker(refinement))).alias(_NEWEST),
        F.count(F.when(received, True)).alias("versions"),
        F.sum(F.when(received, content)).alias("content"),
    )
    return newest.where(F.col("winner").isNotNull()).select("day", *refinement.key, *_winner_columns(refinement))


def _candidate(refinement: Refinement) -> Column:
    """The order of versions comes first; of equal ones (exact duplicates) the first that arrived stands for all."""
    source = refinement.source
    order = [
        F.col(source.version_field).alias("version"),
        F.col("content_hash"),
        (-F.unix_date("arrival_day")).alias("earliest_arrival"),
        F.col("source_file"),
        (-F.col("source_line")).alias("earliest_line"),
        F.col("arrival_day"),
        F.col("source_line"),
    ]
    values = [F.col(name) for name in _carried(refinement)]
    return F.struct(*order, F.struct(*values).alias(_PARSED))


def _marker(refinement: Refinement) -> Column:
    version = F.col(refinement.source.version_field).alias("version")
    return F.struct(version, F.col("content_hash"), F.col("superseded_by_day").alias("day"))


def _winner_columns(refinement: Refinement) -> list[Column]:
    winner_hash = F.col("winner.content_hash")
    overtaken = F.struct(f"{_NEWEST}.version", f"{_NEWEST}.content_hash") > F.struct("winner.version", winner_hash)
    return [
        *(F.col(f"winner.{_PARSED}.{name}").alias(name) for name in _carried(refinement)),
        *(F.col(f"winner.{name}").alias(name) for name in _PROVENANCE),
        (F.col("versions") - 1).alias("deduplicated_rows"),
        (F.col("content") - winner_hash).cast("decimal(38,0)").alias("deduplicated_hash"),
        F.when(overtaken, F.col(f"{_NEWEST}.day")).alias("superseded_by_day"),
    ]


def _carried(refinement: Refinement) -> list[str]:
    names = (*refinement.source.columns, *refinement.derived)
    return [name for name in names if name not in ("day", *refinement.key)]
