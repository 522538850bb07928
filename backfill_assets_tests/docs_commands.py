"""Every command that the README and the docs show, and what proves that it does what they say."""

from __future__ import annotations

import enum
import re
import shlex
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGES = [*sorted(ROOT.glob("*.md"), reverse=True), *sorted((ROOT / "docs").rglob("*.md"))]
_BLOCK = re.compile(r"```(\w+)\n(.*?)```", re.DOTALL)


def blocks(*languages: str) -> list[str]:
    """The fenced blocks of all pages in one of ``languages``."""
    return [body for page in PAGES for kind, body in _BLOCK.findall(page.read_text()) if kind in languages]


def lines() -> list[str]:
    """Each command line once, in the order of the pages."""
    shown = (line for block in blocks("console", "bash", "sh") for line in block.splitlines() if line.strip())
    return list(dict.fromkeys(map(_with_ids, shown)))


def _with_ids(line: str) -> str:
    """A line with the placeholders ``PLAN`` and ``PUBLICATION`` is the same command as the line with the id."""
    return re.sub(r"\bPUBLICATION\b", PUBLICATION, re.sub(r"\bPLAN\b", PLAN, line))


def commands(program: str) -> list[list[str]]:
    """The words after ``program`` of each line that calls it."""
    words = [[word for word in shlex.split(line) if not re.match(r"[A-Z_]+=", word)] for line in lines()]
    return [found[1:] for found in words if found and found[0] == program]


class NotExecuted(enum.StrEnum):
    """The only reasons for which no test executes a command."""

    WHOLE_SUITE = "runs the suite or the checks, which this test is part of"
    REAL_SIZE = "takes minutes at its real size; a small copy of what it builds is what the other commands work on"
    BENCHMARK = "measures for minutes"
    OBJECT_STORE = "needs an object store and its credentials"
    DOWNLOADS = "downloads what is not there; `make setup` has run it before any test"
    REWRITES_SOURCES = "writes into the repository"


DAYS = "2017-03-01..2017-05-29"
FACT = "fact_sales_transactions"
REVENUE = "fact_daily_revenue"
REPORTS = ("report_department_revenue", "report_store_ranking", "report_monthly_close")
TRACED = "32074897568-825412"
"""The key of a real line that the demo lands, on 2017-03-03."""
PLAN = "plan-0123456789abcdef"
PUBLICATION = "20170601t101500-fact-daily-revenue-1a2b3c4d"

_SUMS = 'backfill sql "SELECT day, sum(revenue_eur) AS eur FROM fact_daily_revenue GROUP BY day ORDER BY day LIMIT 2"'

EXECUTED: Mapping[str, str | tuple[str, ...]] = {
    "backfill doctor": ("Java", "publications"),
    f"backfill status {REVENUE}": ("fresh",),
    f"backfill show {REVENUE} 2017-03-01": ("store_id", "revenue_eur"),
    f"backfill history {REVENUE} --limit 5": (REVENUE,),
    f"backfill trace {TRACED}": ("published", *REPORTS, REVENUE),
    f"backfill history {REVENUE} --days 2017-03-01..2017-03-07": (REVENUE, "replace"),
    f"backfill show {REVENUE} 2017-03-01 --at {PUBLICATION}": ("store_id", "revenue_eur"),
    f"backfill diff {PUBLICATION} recomputed": ("equal",),
    _SUMS: ("day\teur\n2017-03-0",),
    f'backfill sql "FROM {REVENUE}" --as-of {PUBLICATION} --csv': ("store_id", "revenue_eur"),
    "backfill sql readers.sql": ("readers.sql", "all tables of one moment"),
    "backfill raw quarantine": ("quarantine_sales", "quantity"),
    "backfill raw quarantine quarantine_sales 2017-03-01": ("broken", "quantity: 'many' is not a bigint"),
    "backfill raw quarantine --replay --dry-run": ("freed\t0", "still bad\t1"),
    f"backfill status {FACT} --days {DAYS}": "is_stale_with_the_bug",
    f'backfill plan {FACT} --days {DAYS} --version v2 --expect "weekends unchanged"': "is_planned",
    f"backfill run {PLAN}": "waits_for_approval",
    f"backfill diff {PLAN}": ("amount eur", FACT),
    f"backfill diff {PLAN} --html difference.html": "writes_a_page",
    f"backfill approve {PLAN}": "publishes_and_tells",
    f"backfill status {PLAN}": ("cut_over", "completion_told"),
    f"backfill rollback {PLAN} --dry-run": ("put back", "--dry-run"),
    f"backfill rollback {PLAN}": "is_undone_untold",
    f"backfill run {PLAN} --waves 5%,100% --limits deviation=2%,gates=20%,seconds=3600,money=5": "waits_for_approval",
    f"backfill run {FACT}+ --days {DAYS}": "builds_v2",
    f"backfill rollback {PUBLICATION}": "is_rolled_back",
    "backfill maintain --dry-run": "is_maintained",
    "backfill maintain": "is_maintained",
    "backfill sample real --dataset sea_temperatures --days 2016-02-15..2016-02-28": ("sea_temperatures",),
    "backfill dataset check sea_temperatures": ("are declared soundly", "rows would be quarantined"),
    "backfill run +report_sea_temperature --days 2016-02-15..2016-02-28": (
        "report_sea_temperature",
        "published",
    ),
    "backfill show report_sea_temperature 2016-02-16": ("sensor_id",),
}
"""Those that ``stories/test_docs_commands.py`` executes, in this order, and what they promise.

Words that they print, or the name of the function there that looks at more.
"""

_SPARK = "backfill_assets_tests/cli/verbs/test_spark.py::test_started_in_the_background_used_and_stopped"
_CI = "backfill_assets_tests/stories/test_dagster_ci.py::"
_STREAM = "backfill_assets_tests/cli/verbs/test_stream.py::"
_TALLY = (
    "backfill_assets_tests/stories/test_tally.py::test_every_event_is_once_in_raw_and_every_winner_once_in_the_facts"
)
_STORM = "backfill_assets_tests/storm/test_storm.py::test_a_storm_loses_nothing_and_doubles_nothing"
_STORM_OF_BUILDS = (
    "backfill_assets_tests/storm/test_storm.py::test_what_is_built_rewound_and_undone_at_once_is_what_raw_makes"
)
_SIMULATOR = "backfill_assets_tests/simulator/test_simulator.py::"
_KEPT = "test_a_history_is_kept_and_judged_from_the_command_line"
_REWIND = "backfill_assets_tests/stories/test_rewind.py::test_back_to_before_it_and_forward_by_another_version"
_PUBLISHED = "backfill_assets_tests/stories/test_rewind.py::test_a_timeline_is_published_as_a_plan_is_and_undone"
_TIMELINE = "backfill_assets_tests/cli/verbs/test_timeline.py::"
_AS_CURRENT = "backfill_assets_tests/cli/verbs/test_as_current.py::"
_RUN_ON = (
    "backfill_assets_tests/stories/test_run_on_timeline.py::test_a_run_builds_on_the_timeline_what_main_would_have"
)
_PLAN_FILE = "backfill_assets_tests/stories/test_plan_file.py::test_a_campaign_is_carried_out_as_its_file_says"
_LAB = "backfill_assets_tests/stories/test_lab.py::"
_REFRESH = "backfill_assets_tests/stories/test_refresh.py::test_a_corrected_source_ends_as_if_it_had_always_been_so"
_ERASURE = "backfill_assets_tests/upkeep/test_erasure.py::"
_POSITIONS = "backfill_assets_tests/cli/verbs/test_raw_positions.py::"
_ADOPT = "backfill_assets_tests/stories/test_adopted_history.py::test_a_fact_is_taken_over_mended_and_put_back"
_COMPLETION = "backfill_assets_tests/cli/test_completion.py::test_bash_completes_by_the_line_of_the_docs"
_CLOSED = (
    "backfill_assets_tests/cli/verbs/test_close.py::"
    "test_a_month_is_closed_and_reopened_and_history_says_by_whom_and_why"
)
BY_ANOTHER_TEST: Mapping[str, str] = {
    'backfill close 2017-03 --reason "the quarter is reported"': _CLOSED,
    'backfill reopen 2017-03 --reason "returns that came late"': _CLOSED,
    "backfill adopt fact_sales_transactions /data/sales --dry-run": _ADOPT,
    "backfill adopt fact_sales_transactions /data/sales": _ADOPT,
    "backfill init shop": "backfill_assets_tests/wheel/test_own_project.py::"
    "test_a_project_of_ones_own_is_built_published_planned_and_undone",
    'eval "$(_BACKFILL_COMPLETE=bash_source backfill)"': _COMPLETION,
    "backfill raw refresh raw_sales 2017-03-04 --dry-run": _REFRESH,
    "backfill raw refresh raw_sales 2017-03-04": _REFRESH,
    'backfill raw release bronze_sales 2026-03-02 "a till sent broken lines; the shop knows"': (
        "backfill_assets_tests/cli/verbs/test_raw_release.py::"
        "test_a_day_that_a_gate_holds_back_is_told_everywhere_until_a_person_releases_it"
    ),
    'backfill raw erase @ --reason "request 4711"': f"{_ERASURE}"
    "test_a_person_is_in_no_file_afterwards_and_every_row_is_accounted_for",
    'backfill raw erase 32074897568-825412 --reason "request 4712"': f"{_ERASURE}"
    "test_one_sale_by_the_key_that_joins_two_fields",
    "backfill raw positions raw_sales": f"{_POSITIONS}test_positions_of_raw_and_of_what_is_computed_from_it",
    f"backfill raw positions raw_sales {PUBLICATION}": f"{_POSITIONS}test_any_published_state_can_be_asked_for",
    "backfill lab all": "backfill_assets_tests/examples/commands/test_lab.py::test_all_of_them_as_json_in_order",
    "backfill lab collision": f"{_LAB}test_a_backfill_collides_with_a_stream",
    "backfill lab repeat": f"{_LAB}test_a_job_repeats_what_it_has_written",
    "backfill lab scale": f"{_LAB}test_one_big_job_loses_its_work",
    "backfill lab boundary": f"{_LAB}test_a_boundary_by_time_has_gaps_and_overlaps",
    "backfill lab undo": f"{_LAB}test_an_undo_loses_what_the_stream_has_brought_since",
    "dagster asset materialize -m backfill_assets.definitions --select "
    "fact_sales_transactions,fact_daily_revenue,report_department_revenue "
    "--partition-range 2017-03-01...2017-05-29": f"{_CI}test_ranges_and_days_succeed_and_a_failed_gate_fails_the_build",
    "backfill plan -f backfills/2017-fx.yaml": _PLAN_FILE,
    "backfill plan -f backfills --check --markdown": "backfill_assets_tests/cli/verbs/test_plan_file.py::"
    "test_a_folder_is_checked_file_by_file_and_the_worst_counts",
    "backfill timeline rewind fact_sales_transactions": _REWIND,
    f"backfill timeline rewind fact_sales_transactions --to {PUBLICATION}^ --as before-v1": _REWIND,
    "backfill timeline forward before-v1 with-v2 --version v2": _REWIND,
    "backfill timeline show with-v2": f"{_TIMELINE}test_a_timeline_is_shown_beside_what_is_published",
    "backfill diff main with-v2": _REWIND,
    'backfill timeline publish with-v2 --expect "rows unchanged"': _PUBLISHED,
    'backfill plan fact_sales_transactions --days 2017-03-07 --where "store_id in (3, 7)"': "backfill_assets_tests/"
    "stories/test_only_rows.py::test_rows_of_one_shop_are_rebuilt_after_a_kill_undone_and_built_whole",
    "backfill timeline create trial": f"{_TIMELINE}test_it_is_listed_renamed_and_deleted",
    f"backfill run {FACT}+ --version v1 --days {DAYS} --on trial": _RUN_ON,
    f"backfill status {FACT} --on trial": _RUN_ON,
    f"backfill trace {TRACED} --on trial": _RUN_ON,
    "backfill timeline open trial": _REWIND,
    "backfill metrics": "backfill_assets_tests/cli/verbs/test_metrics.py::"
    "test_figures_are_printed_as_prometheus_reads_them",
    "backfill incident list": "backfill_assets_tests/cli/verbs/test_incident.py::"
    "test_those_for_a_person_come_first_and_those_of_the_week_last",
    "backfill incident acknowledge late-rows-bronze-sales-20170304-1 4h": "backfill_assets_tests/cli/verbs/"
    "test_incident.py::test_a_person_says_who_looks_after_one_and_for_how_long",
    'backfill incident close late-rows-bronze-sales-20170304-1 "Easter"': "backfill_assets_tests/cli/verbs/"
    "test_incident.py::test_a_person_closes_one_once_and_the_sensor_carries_it_out",
    "backfill timeline list": f"{_TIMELINE}test_it_is_listed_renamed_and_deleted",
    "backfill timeline keep trial --for 14": f"{_TIMELINE}test_it_is_listed_renamed_and_deleted",
    "backfill timeline delete trial": f"{_TIMELINE}test_it_is_listed_renamed_and_deleted",
    "backfill timeline create finance-v1 --version fact_sales_transactions=v1": f"{_AS_CURRENT}"
    "test_a_switch_and_the_way_back_bring_days_and_version_together",
    "backfill timeline keep finance-v1 --fresh": f"{_AS_CURRENT}test_it_is_kept_fresh_until_it_is_said_otherwise",
    "backfill timeline forward finance-v1": f"{_AS_CURRENT}"
    "test_a_switch_and_the_way_back_bring_days_and_version_together",
    "backfill timeline publish finance-v1 --as-current --dry-run": f"{_AS_CURRENT}"
    "test_a_dry_run_shows_the_days_and_changes_nothing",
    "backfill timeline publish finance-v1 --as-current": f"{_AS_CURRENT}"
    "test_a_switch_and_the_way_back_bring_days_and_version_together",
    "backfill sample live --events-per-second 50": "backfill_assets_tests/examples/commands/test_sample.py::"
    "test_live_events_are_counted_by_kind",
    "backfill stream raw_sales --from landing": f"{_STREAM}test_facts_follow_landed_events_of_today",
    "backfill stream raw_sales --from landing --rate 2000 --rate 06:00-22:00=500": f"{_STREAM}"
    "test_facts_follow_landed_events_of_today",
    "backfill stream raw_sales --from kafka://127.0.0.1:9092/sales --from-beginning": f"{_STREAM}"
    "test_a_topic_is_read_from_its_beginning_and_a_null_value_takes_its_sale_out_until_a_rollback",
    "backfill run report_sea_temperature --days 2016-02-15..2016-02-17 --same-rows": "backfill_assets_tests/stories/"
    "test_edited_logic.py::test_an_edit_in_place_is_said_everywhere_and_a_run_that_would_mix_is_refused",
    "backfill spark start": _SPARK,
    "export SPARK_REMOTE=sc://127.0.0.1:15002": _SPARK,
    "backfill spark stop": _SPARK,
    "make faults": "backfill_assets_tests/simulator/test_faults.py::test_main_ends_as_without_the_fault_at_each_call",
    "make simulate SEEDS=500": f"{_SIMULATOR}test_no_seed_breaks_a_promise",
    'make simulate SEED=7 ACTORS="publisher undo reader"': f"{_SIMULATOR}{_KEPT}",
    ".venv/bin/python -m backfill_assets_tests.simulator --seed 7 --history history.jsonl": f"{_SIMULATOR}{_KEPT}",
    ".venv/bin/python -m backfill_assets_tests.simulator.judges history.jsonl": f"{_SIMULATOR}{_KEPT}",
    ".venv/bin/python -m backfill_assets_tests.simulator.rules": "backfill_assets_tests/simulator/test_rules.py::"
    "test_a_rule_that_is_taken_out_is_named",
    "make storm SECONDS=180": _STORM,
    'make storm ACTORS="source builder campaign undoer rewinder traveller reader"': _STORM_OF_BUILDS,
    "make tally SECONDS=300": _TALLY,
}
"""The test that does the same as the command, some of them at another size."""

NOT_EXECUTED: Mapping[str, NotExecuted] = {
    "make demo": NotExecuted.REAL_SIZE,
    "backfill demo --with-the-bug": NotExecuted.REAL_SIZE,
    "make test": NotExecuted.WHOLE_SUITE,
    "make test-fast": NotExecuted.WHOLE_SUITE,
    "make pins": NotExecuted.REWRITES_SOURCES,
    ".venv/bin/pytest backfill_assets_tests/examples/datasets -q": NotExecuted.WHOLE_SUITE,
    "backfill doctor --fix": NotExecuted.DOWNLOADS,
    "export BACKFILL_LAKEHOUSE=s3://bucket/prefix": NotExecuted.OBJECT_STORE,
    "make bench-quick": NotExecuted.BENCHMARK,
    "make bench-killed KILLS=40": NotExecuted.BENCHMARK,
    ".venv/bin/python -m backfill_assets_tests.simulator.rules --seeds 500": NotExecuted.BENCHMARK,
    "make setup-judge": NotExecuted.DOWNLOADS,
    ".cache/bench/venv/bin/python benchmarks/sqlmesh_bad_day.py": NotExecuted.BENCHMARK,
    "export AWS_ENDPOINT_URL=https://store.example AWS_REGION=eu-central-1": NotExecuted.OBJECT_STORE,
    "export AWS_ACCESS_KEY_ID=... AWS_SECRET_ACCESS_KEY=...": NotExecuted.OBJECT_STORE,
}
