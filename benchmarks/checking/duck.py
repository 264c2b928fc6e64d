"""DuckDB's counts of the same anomalies from the files: ``python -m benchmarks.checking.duck DIR``.

DuckDB is a database made for such queries. It counts the sends and their outcomes, and seven rules.
It writes no rows, attributes nothing, and knows no guarantees.
"""

import json
import sys
from pathlib import Path

import duckdb

TOPICS = "create type topics as enum (select distinct topic from read_parquet($sends))"
"""Numbers in place of names. Grouping by long strings would cost it half as much again."""

SQL = """
with outcomes as (
    select topic::topics as topic, partition, producer, sequence,
        max(case type when 'ok' then 3 when 'fail' then 2 else 1 end) as fate,
        max("offset") filter (type = 'ok') as acked
    from read_parquet($sends) group by all
), places as (
    select topic::topics as topic, partition, producer, sequence,
        count(*) as copies, min("offset") as first
    from read_parquet($log) group by all
), records as (
    select * from outcomes full join places using (topic, partition, producer, sequence)
), ordered as (
    select sequence < max(sequence) over (
        partition by topic, partition, producer order by first
        rows between unbounded preceding and 1 preceding
    ) as behind
    from records where first is not null and fate is not null
), gaps as (
    select max("offset") + 1 - min("offset") - count(*) as missing
    from read_parquet($log) group by topic::topics, partition
)
select
    count(*) filter (fate is not null) as sent,
    count(*) filter (fate = 3) as acked,
    count(*) filter (fate = 2) as failed,
    count(*) filter (fate = 1) as indeterminate,
    count(*) filter (fate = 3 and first is null) as lost,
    count(*) filter (fate is not null and copies > 1) as duplicated,
    count(*) filter (fate = 3 and copies = 1 and first <> acked) as "offset-mismatch",
    count(*) filter (fate is null) as phantom,
    count(*) filter (fate = 2 and first is not null) as "failed-but-present",
    (select count(*) filter (behind) from ordered) as reordered,
    (select coalesce(sum(missing), 0)::bigint from gaps) as "offset-gap"
from records
"""


def main() -> None:
    """Print the counts of a history, a line of JSON."""
    history = Path(sys.argv[1])
    with duckdb.connect() as database:
        files = {table: str(history / f"{table}.*.parquet") for table in ("sends", "log")}
        database.execute(TOPICS, {"sends": files["sends"]})
        found = database.execute(SQL, files)
        names = [column[0] for column in found.description or ()]
        (row,) = found.fetchall()
    sys.stdout.write(json.dumps(dict(zip(names, row, strict=True))) + "\n")


if __name__ == "__main__":
    main()
