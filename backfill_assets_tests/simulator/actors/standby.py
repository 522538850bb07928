"""Two versions of the fact side by side: the other one is kept fresh on a timeline, and made the current one."""

from __future__ import annotations

from backfill_assets.lakehouse.named_timelines import NamedTimeline, TimelineVersion
from backfill_assets.publish.promote import silent
from backfill_assets.rebuild.lake import Lake
from backfill_assets.timeline.of_version import (
    bring_up_to_date,
    create_of_version,
    current_version,
    find_of_version,
    keep_fresh,
    name_of_version,
)
from backfill_assets.timeline.switch import SwitchPlan, carry_out_switch, plan_switch
from backfill_assets_tests.simulator.chain import RUN, SUMS, lake_of
from backfill_assets_tests.simulator.world import PlayedLife


def keep_side_by_side(life: PlayedLife) -> None:
    """It is made where there is none; then it is brought up to date, kept fresh or not, or becomes current."""
    lake, now = lake_of(life.watched()), life.world.clock.now()
    current = current_version(lake, SUMS)
    other = "v1" if current == "v2" else "v2"
    found = find_of_version(life.storage, now, SUMS.name, other)
    what = life.draw.choice(["up to date", "up to date", "fresh", "switch", "switch", "the way back"])
    if what == "the way back" and (back := find_of_version(life.storage, now, SUMS.name, current)):
        bring_up_to_date(lake, back, RUN, silent)
    elif found is None:
        create_of_version(
            lake, name_of_version(SUMS.name, other), SUMS, TimelineVersion(step=SUMS.name, version=other), "ana"
        )
    elif what == "fresh":
        keep_fresh(life.storage, found, now, fresh=life.draw.random() < 0.5)
    elif what == "switch":
        built = bring_up_to_date(lake, found, RUN, silent).timeline if life.draw.random() < 0.7 else found
        switch(life, lake, built)
    else:
        bring_up_to_date(lake, found, RUN, silent)
    life.world.tally[f"side by side: {what}"] += 1


def switch(life: PlayedLife, lake: Lake, line: NamedTimeline) -> None:
    """Days and version at once, or the version for new days alone."""
    plan = plan_switch(lake, line, new_days_only=life.draw.random() < 0.2)
    life.reached("planned")
    publication = carry_out_switch(lake, plan, RUN).publication
    life.world.follow()
    judge_switched(life, plan, publication)
    life.world.tally["switched"] += 1


def judge_switched(life: PlayedLife, plan: SwitchPlan, publication: str) -> None:
    """Main has just the rows of the timeline, and what it had is on a timeline of the former version."""
    judge, wishes = life.world.timelines, life.world.wishes[publication]
    for table, wish in wishes.tables.items():
        for day, names in wish.rows.items():
            held = judge.rows_of(table, plan.timeline.held(table)[day].files)
            assert sorted(names) == sorted(held.elements()), f"{publication} brings other rows of {table} {day}"
    former = find_of_version(life.storage, life.world.clock.now(), plan.step.name, plan.former)
    if former is None or not former.change.endswith(f"before the switch to {plan.version}"):
        return  # nothing was published but the version, or others have worked on it since
    for table in wishes.tables:
        for day, image in life.world.tables[table].commits[publication].before.items():
            if not image.rows:  # others may have emptied it
                continue
            files = former.held(table)[day].files
            if judge.lost(table, files):
                continue
            kept = judge.rows_of(table, files)
            assert kept == image.rows, f"{former.name} keeps {table} {day} as {kept}, main had {image.rows}"
