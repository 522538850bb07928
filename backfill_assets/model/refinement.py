"""From raw text to typed rows: what is rejected and why, and which version of a key wins its day."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from backfill_assets.model.canonical import (
    all_well_written,
    content_hash_of_read,
    high_half,
    in_newer_form,
    joined_key,
    low_half,
    parsed,
    whole_hash,
)
from backfill_assets.model.checks import as_declared, sound, struct_type, violations
from backfill_assets.model.dataset import require_sound_refinement
from backfill_assets.model.declaration import OCCURRENCE, Source
from backfill_assets.model.landed import quarantine_contract
from backfill_assets.model.measure import ContentHash
from backfill_assets.model.placement import IMPLAUSIBLE

if TYPE_CHECKING:
    from backfill_assets.model.contract import Contract

_PROVENANCE = ("content_hash", "source_file", "source_line", "arrival_day")
_WELL_WRITTEN = "is_well_written"
_SOUND = "is_sound"
_HASHED_BEFORE = "is_hashed_before"
_PARSED = "parsed"
_NEWEST = "newest"


@dataclass(frozen=True)
class Refinement:
    """How the raw rows of a source become typed rows with one winner per ``key`` and day: the transform of bronze."""

    source: Source
    contract: type[Contract]
    key: tuple[str, ...]
    derived: Mapping[str, tuple[str, ...]] = field(default_factory=dict, hash=False)
    """Text columns joined of others, such as a key of two fields: see :func:`joined_key`."""
    takes_days: int | None = None
    """Rows that landed more days after their day are rejected; None takes all of them."""

    def __post_init__(self) -> None:
        require_sound_refinement(self.source, self.key, self.derived)

    def decides_rows(self) -> Mapping[str, object]:
        """What the rows depend on. On which days rows of raw are possible is part of the version of raw."""
        source = self.source
        return {
            "source": (source.name, source.event_day_field, source.key_fields, source.version_field, source.fields),
            "types": source.types,
            "personal": source.personal_fields,
            "rescued": source.rescued_fields,
            "contract": self.contract.decides_rows(),
            "key": self.key,
            "derived": self.derived,
            "takes_days": self.takes_days,
        }

    def __call__(self, inputs: Mapping[str, DataFrame]) -> Mapping[str, DataFrame]:
        """Both tables of the source from its raw rows: ``bronze_<source>`` and ``quarantine_<source>``."""
        name, raw = self.source.name, inputs[self.raw]
        return {f"bronze_{name}": accepted(raw, self), f"quarantine_{name}": rejected(raw, self)}

    @property
    def raw(self) -> str:
        """The name of the table that it reads."""
        return f"raw_{self.source.name}"

    @property
    def columns(self) -> tuple[str, ...]:
        """The landed fields, and what is derived from them."""
        return (*self.source.columns, *self.derived)

    def value(self, name: str) -> Column:
        """The typed value of one of ``columns``, where landed texts have kept their names."""
        beside = name in self.derived or name in self.source.parsed_columns
        return F.col(_beside(name) if beside else name)

    @property
    def is_late(self) -> Column | None:
        """Whether a raw row is; never null: what did not arrive is not. None where none can be."""
        if self.takes_days is None:
            return None
        return F.coalesce(F.datediff("arrival_day", "day") > self.takes_days, F.lit(False))


def accepted(raw: DataFrame, refinement: Refinement) -> DataFrame:
    """One row per key and day, the greatest by (version, content hash), in the shape of the contract.

    What it won over is counted and summed in it, so that nothing received is unaccounted for; if a marker in the
    same day stands for a still newer version, it says which day that one belongs to. With ``occurrence`` in the key,
    identical lines are numbered first, and each is a row.
    """
    judged = _judged(raw, refinement)
    relevant = judged.where((F.col("record_kind") == "supersession") | F.col(_SOUND))
    winners = _winners(_by_day(relevant, refinement), refinement)
    return winners.select(*struct_type(refinement.contract).names)


def rejected(raw: DataFrame, refinement: Refinement) -> DataFrame:
    """Received rows that break the contract, as they were landed, with every reason; for the quarantine table."""
    judged = _judged(raw.where(F.col("record_kind") == "received"), refinement)
    broken = judged.where(~F.col(_SOUND)).withColumn("reasons", _reasons(refinement))
    fields = struct_type(quarantine_contract(refinement.source, refinement.contract)).fields
    return broken.select(*(as_declared(F.col(field.name), field) for field in fields)).repartition("day")


def with_occurrence(rows: DataFrame) -> DataFrame:
    """``rows`` with the number that each has among those of equal content on its day, by file and line.

    The number depends on what the day holds, and not on the order in which it arrived.
    """
    identical = Window.partitionBy("day", "content_hash").orderBy("source_file", "source_line")
    return rows.withColumn(OCCURRENCE, F.row_number().over(identical).cast("bigint"))


def _by_day(judged: DataFrame, refinement: Refinement) -> DataFrame:
    """The typed values of judged rows; all rows of a day in one partition."""
    # Values keep their columns until they are aggregated: of a condition that names k columns, Spark's optimizer makes
    # 2^k conditions when all of them get new names.
    typed = judged.select(
        *("day", "record_kind", *_PROVENANCE, "superseded_by_day"),
        *(refinement.value(name) for name in refinement.columns if name != "day"),
    )
    rows = typed.repartition("day")
    return with_occurrence(rows) if OCCURRENCE in refinement.key else rows


def _judged(raw: DataFrame, refinement: Refinement) -> DataFrame:
    """Raw rows plus parsed and derived values (columns named by :func:`_beside`) and a flag for sound rows."""
    source = refinement.source
    landed = _with_rescued(raw, source) if source.rescued_fields else raw
    values = {
        **{name: parsed(F.col(name), source.type_of(name), F.col(_WELL_WRITTEN)) for name in source.parsed_columns},
        **{name: joined_key(source, parts) for name, parts in refinement.derived.items()},
    }
    looked_at = landed.withColumn(_WELL_WRITTEN, all_well_written(source))
    typed = looked_at.select("*", *(column.alias(_beside(name)) for name, column in values.items()))
    return typed.withColumn(_HASHED_BEFORE, _is_hashed_before(refinement)).withColumn(_SOUND, _sound(refinement))


def _with_rescued(raw: DataFrame, source: Source) -> DataFrame:
    """``raw`` with the texts of rescued fields also where a row was landed before they were declared."""
    kept = F.from_json("rescued", "map<string,string>")
    return raw.withColumns(
        {
            name: F.coalesce(name, F.when(F.col("rescued").isNotNull(), F.try_element_at(kept, F.lit(name))))
            for name in source.rescued_fields
        }
    )


def _beside(name: str) -> str:
    """The column of a value beside the landed text. No landed field has a space in its name."""
    return f"{name} typed"


def _sound(refinement: Refinement) -> Column:
    """Whether a row is sound. Reasons, which cost more, are computed only for the few rows that are not."""
    fulfils = _by_contract(sound, refinement) & ~F.col(_HASHED_BEFORE)
    late, is_sound = refinement.is_late, ~_unparsed() & ~_implausible(refinement) & fulfils
    return is_sound if late is None else is_sound & ~late


def _reasons(refinement: Refinement) -> Column:
    name = refinement.source.event_day_field
    absurd = F.concat(F.lit(f"{name}: '"), F.col(name), F.lit(f"' {IMPLAUSIBLE}"))
    nothing = F.array().cast("array<string>")
    implausible = F.when(_implausible(refinement), F.array(absurd)).otherwise(nothing)
    not_an_object = F.array(F.lit("line: is not one JSON object with distinct fields"))
    before = F.array(F.lit("line: has a form of a moment that was not read when it was landed; land it again"))
    reasons = [
        _by_contract(violations, refinement),
        F.when(F.col(_HASHED_BEFORE), before).otherwise(implausible),
    ]
    if (is_late := refinement.is_late) is not None:
        takes = f"late: {refinement.source.name} takes rows up to {refinement.takes_days} days after their day (was "
        late = F.array(F.concat(F.lit(takes), F.datediff("arrival_day", "day"), F.lit(")")))
        reasons.append(F.when(is_late, late).otherwise(nothing))
    return F.when(_unparsed(), not_an_object).otherwise(F.concat(*reasons))


def _by_contract(judge: Callable[..., Column], refinement: Refinement) -> Column:
    texts = {name: F.col(name) for name in refinement.source.columns}
    return judge(refinement.contract, texts, refinement.columns, refinement.value)


def _unparsed() -> Column:
    return F.col("unparsed_line").isNotNull()


def _is_hashed_before(refinement: Refinement) -> Column:
    """Whether a row was landed when its moments were text to the ingestion, which its hash and its day are by.

    Its values have another hash, so that it would be accounted for nowhere.
    """
    source = refinement.source
    if "timestamp" not in map(source.type_of, source.columns):
        return F.lit(False)
    known = (each.source for each in ContentHash(source, "text").by_fields_known())
    as_read_now = [content_hash_of_read(each, refinement.value) for each in known]
    return F.when(in_newer_form(source), ~F.col("content_hash").isin(*as_read_now)).otherwise(F.lit(False))


def _implausible(refinement: Refinement) -> Column:
    """Whether a row has the day of its arrival although it names one; never null, or it would be in neither table."""
    named = refinement.value(refinement.source.event_day_field).isNotNull()
    return F.coalesce(F.col("day_is_arrival") & named, F.lit(False))


def _winners(rows: DataFrame, refinement: Refinement) -> DataFrame:
    """The newest row of each day and key."""
    received = F.col("record_kind") == "received"
    hashes = F.when(received, F.col("content_hash"))
    key = [refinement.value(name).alias(name) for name in refinement.key]
    groups = rows.groupBy("day", *key)
    newest = groups.agg(
        F.max(F.when(received, _candidate(refinement))).alias("winner"),
        F.max(F.when(~received, _marker(refinement))).alias(_NEWEST),
        F.count(F.when(received, True)).alias("versions"),
        F.sum(high_half(hashes)).alias("high"),
        F.sum(low_half(hashes)).alias("low"),
    )
    found = newest.where(F.col("winner").isNotNull())
    return found.select("day", *refinement.key, *_winner_columns(refinement))


def _candidate(refinement: Refinement) -> Column:
    """The order of versions comes first; of equal ones (exact duplicates) the first that arrived stands for all."""
    source = refinement.source
    order = [
        refinement.value(source.version_field).alias("version"),
        F.col("content_hash"),
        (-F.unix_date("arrival_day")).alias("earliest_arrival"),
        F.col("source_file"),
        (-F.col("source_line")).alias("earliest_line"),
        F.col("arrival_day"),
        F.col("source_line"),
    ]
    values = [refinement.value(name).alias(name) for name in _carried(refinement)]
    return F.struct(*order, F.struct(*values).alias(_PARSED))


def _marker(refinement: Refinement) -> Column:
    version = refinement.value(refinement.source.version_field).alias("version")
    return F.struct(version, F.col("content_hash"), F.col("superseded_by_day").alias("day"))


def _winner_columns(refinement: Refinement) -> list[Column]:
    winner_hash = F.col("winner.content_hash")
    others = F.when(F.col("versions") > 1, whole_hash(F.col("high"), F.col("low")) - winner_hash)
    overtaken = F.struct(f"{_NEWEST}.version", f"{_NEWEST}.content_hash") > F.struct("winner.version", winner_hash)
    return [
        *(F.col(f"winner.{_PARSED}.{name}").alias(name) for name in _carried(refinement)),
        *(F.col(f"winner.{name}").alias(name) for name in _PROVENANCE),
        (F.col("versions") - 1).alias("deduplicated_rows"),
        others.otherwise(F.lit(0)).cast("decimal(38,0)").alias("deduplicated_hash"),
        F.when(overtaken, F.col(f"{_NEWEST}.day")).alias("superseded_by_day"),
    ]


def _carried(refinement: Refinement) -> list[str]:
    return [name for name in refinement.columns if name not in ("day", *refinement.key)]
