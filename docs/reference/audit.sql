-- Questions to the publication log, for Spark SQL. Put your own table, day, publication and run in the place of those in
-- quotes. Any tool that reads Delta can ask the log: it is a Delta table, only ever appended to.
--
-- A publication has one `prepared` entry with all that was known when it was decided on, and one `closed` entry with its
-- outcome; in between perhaps an `aborting` entry with the reason. For each table and day it has a `preparing day` row
-- and, if it was done, a `published` row; for each step whose version it makes current, a `switching` row. A
-- `delivered` entry says that its notice was. An `incident` row says what an incident came to. Rows of one entry have
-- the same `sequence`.
--
--   sequence, at           the version of the log, and when it was written (UTC)
--   publication, kind      its id; replace, append, rollback or compact
--   run, launched_by, git_commit, campaign    who and what published
--   table, day, table_version                 what was changed, and the Delta version that did it
--   rows, checksum, code_version, inputs, metrics    what the day holds
--   replaces               the publication whose day this was before; of `switching`, the version before
--   detail                 JSON: input versions, landed files, before-images, what each day was computed from and with

CREATE OR REPLACE TEMPORARY VIEW publications AS SELECT * FROM delta.`.data/lakehouse/_publications`;

-- Who switched a step to another version, and when?
-- A rollback of a switch is a switch as well.
SELECT switching.at, switching.publication, switching.launched_by, switching.`table` AS step,
       switching.replaces AS from_version, switching.code_version AS to_version, switching.reason
FROM publications AS switching
JOIN publications AS closed
  ON closed.publication = switching.publication AND closed.event = 'closed' AND closed.outcome = 'done'
WHERE switching.event = 'switching'
ORDER BY switching.sequence;

-- What went wrong, and what became of it?
-- `outcome` is opened, given-up or closed.
SELECT at, publication AS incident, kind AS cause, outcome, `table`, reason
FROM publications
WHERE event = 'incident'
ORDER BY sequence;

-- Who changed day D of table T, when, by which code?
SELECT at, publication, kind, launched_by, run, git_commit, code_version, rows, replaces
FROM publications
WHERE event = 'published' AND `table` = 'fact_daily_revenue' AND day = '2017-03-01'
ORDER BY sequence;

-- What was read by a publication?
-- A campaign makes reports from days of the same publication: these are `staged` and have no version yet.
SELECT input.`table`, input.version, array_min(map_keys(input.days)) AS first, array_max(map_keys(input.days)) AS last,
  false AS staged
FROM (
  SELECT explode(from_json(
    get_json_object(detail, '$.publication.inputs'),
    'array<struct<`table`: string, version: bigint, days: map<string, string>>>'
  )) AS input
  FROM publications
  WHERE event = 'prepared' AND publication = '20170601t101500-fact-daily-revenue-1a2b3c4d'
)
UNION ALL
SELECT input.`table`, NULL, min(input.first), max(input.last), true
FROM (
  SELECT explode(from_json(
    get_json_object(detail, '$.reads'),
    'array<struct<`table`: string, first: string, last: string, staged: boolean>>'
  )) AS input
  FROM publications
  WHERE event = 'preparing day' AND publication = '20170601t101500-fact-daily-revenue-1a2b3c4d'
)
WHERE input.staged
GROUP BY input.`table`
ORDER BY `table`, version;

-- Which landed files did a publication take in?
SELECT substring_index(position.id, ':', -1) AS file, position.before IS NULL AS first_time
FROM (
  SELECT explode(flatten(from_json(
    get_json_object(detail, '$.publication.tables'),
    'array<struct<positions: array<struct<id: string, before: bigint, after: bigint>>>>'
  ).positions)) AS position
  FROM publications
  WHERE event = 'prepared' AND publication = '20170601t101500-fact-daily-revenue-1a2b3c4d'
)
ORDER BY file;

-- What was made from day D of table T?
-- Each line is a day of a table that was computed from it. `staged`: the day that was read belongs to the same
-- publication. Publications from before this was recorded have no table and no day.
SELECT publication, at, launched_by, `table`, day, input.version, input.staged
FROM (
  SELECT publication, at, launched_by, `table`, day, explode(from_json(
    get_json_object(detail, '$.reads'),
    'array<struct<`table`: string, version: bigint, first: string, last: string, staged: boolean>>'
  )) AS input
  FROM publications
  WHERE event = 'preparing day'
)
WHERE input.`table` = 'fact_daily_revenue' AND '2017-03-01' BETWEEN input.first AND input.last
UNION ALL
SELECT publication, at, launched_by, NULL, NULL, input.version, false
FROM (
  SELECT publication, at, launched_by, explode(from_json(
    get_json_object(detail, '$.publication.inputs'),
    'array<struct<`table`: string, version: bigint, days: map<string, string>>>'
  )) AS input
  FROM publications
  WHERE event = 'prepared'
    AND publication NOT IN (SELECT publication FROM publications WHERE event = 'preparing day' AND detail IS NOT NULL)
)
WHERE input.`table` = 'fact_daily_revenue' AND map_contains_key(input.days, '2017-03-01')
ORDER BY at, `table`, day;

-- With what was day D of table T computed?
-- A commit that ends with `+dirty` does not contain the code.
SELECT at, publication, environment.git_commit, environment.packages, environment.spark, environment.java
FROM (
  SELECT sequence, at, publication, from_json(
    get_json_object(detail, '$.environment'), 'git_commit string, packages string, spark string, java string'
  ) AS environment
  FROM publications
  WHERE event = 'preparing day' AND `table` = 'fact_daily_revenue' AND day = '2017-03-01' AND detail IS NOT NULL
)
ORDER BY sequence;

-- Who approved it?
-- How the person is known is in brackets.
SELECT at, publication, campaign, get_json_object(detail, '$.publication.notice.approved_by') AS approved_by
FROM publications
WHERE event = 'prepared' AND kind = 'replace' AND campaign <> ''
ORDER BY sequence;

-- What did run R publish?
SELECT publication, `table`, count(*) AS days, min(day) AS first, max(day) AS last, sum(rows) AS rows
FROM publications
WHERE event = 'published' AND run = '4fa7c0de-0b5e-4b6e-9d0c-2a41c5a5e7f1'
GROUP BY publication, `table`
ORDER BY publication, `table`;

-- Which days were rolled back, by whom?
SELECT at, `table`, day, replaces AS undone, launched_by, reason, publication
FROM publications
WHERE event = 'published' AND kind = 'rollback'
ORDER BY sequence, `table`, day;

-- What was aborted, and why?
SELECT at, publication, kind, launched_by, run, reason
FROM publications
WHERE event = 'aborting'
ORDER BY sequence;

-- What did table T hold on some day in the past?
SELECT day, max_by(publication, sequence) AS publication, max_by(rows, sequence) AS rows, max_by(checksum, sequence) AS checksum
FROM publications
WHERE event = 'published' AND `table` = 'fact_daily_revenue' AND at <= TIMESTAMP'2017-06-01T12:00:00Z'
GROUP BY day
ORDER BY day;
