"""Where ended tasks should live in PostgreSQL: the same claims and endings on three layouts, with the bare driver.

    python bench/postgres_layouts.py [ENDED]     how many ended tasks are there before (1000000)

One table with partial indexes, a table partitioned by status, or a second table for what has ended.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import time

import asyncpg

from tenure.testing.postgres import PostgresServer

BATCH = 500
BATCHES = 40
REPEATS = 3

COLUMNS = """
    seq bigint NOT NULL, id text COLLATE "C" NOT NULL, version integer NOT NULL, status text COLLATE "C" NOT NULL,
    queue text COLLATE "C" NOT NULL, type text COLLATE "C" NOT NULL, priority integer NOT NULL,
    available_at timestamptz NOT NULL, lease_expires_at timestamptz, ended_at timestamptz, record bytea NOT NULL
"""
OPEN_INDEXES = """
    CREATE INDEX ON {0} (queue, type, priority DESC, available_at, seq) WHERE status = 'pending';
    CREATE INDEX ON {0} (lease_expires_at) WHERE status = 'running';
"""
CLAIM = """
    UPDATE {0} SET status = 'running', version = version + 1, lease_expires_at = now() + interval '30 s'
    WHERE seq = ANY (ARRAY(
        SELECT seq FROM {0} WHERE status = 'pending' AND queue = 'q' AND type = 't' AND available_at <= now()
        ORDER BY priority DESC, available_at, seq LIMIT $1 FOR UPDATE SKIP LOCKED
    )) AND status = 'pending' RETURNING id, record
"""
UPDATE = """
    UPDATE {0} SET status = 'completed', version = version + 1, lease_expires_at = NULL, ended_at = now(),
        record = new.record
    FROM unnest($1::text[], $2::bytea[]) AS new (id, record) WHERE {0}.id = new.id AND status = 'running'
"""
LAYOUTS = {
    "one table": (
        (f"CREATE TABLE one ({COLUMNS}, PRIMARY KEY (seq), UNIQUE (id));"
        f"{OPEN_INDEXES.format('one')} CREATE INDEX ON one (status, ended_at) WHERE ended_at IS NOT NULL;"),
        "one", "one", CLAIM.format("one"), UPDATE.format("one"),
    ),
    "partitions": (
        (f"CREATE TABLE parts ({COLUMNS}) PARTITION BY LIST (status);"
        "CREATE TABLE parts_open PARTITION OF parts FOR VALUES IN ('pending', 'running');"
        "CREATE TABLE parts_ended PARTITION OF parts DEFAULT;"
        "CREATE UNIQUE INDEX ON parts_open (seq); CREATE UNIQUE INDEX ON parts_open (id);"
        "CREATE UNIQUE INDEX ON parts_ended (seq); CREATE UNIQUE INDEX ON parts_ended (id);"
        f"{OPEN_INDEXES.format('parts_open')} CREATE INDEX ON parts_ended (status, ended_at);"),
        "parts", "parts", CLAIM.format("parts"), UPDATE.format("parts"),
    ),
    "two tables": (
        (f"CREATE TABLE two ({COLUMNS}, PRIMARY KEY (seq), UNIQUE (id));{OPEN_INDEXES.format('two')}"
        f"CREATE TABLE two_ended ({COLUMNS}, PRIMARY KEY (seq), UNIQUE (id));"
        "CREATE INDEX ON two_ended (status, ended_at);"),
        "two", "two_ended", CLAIM.format("two"),
        """
        WITH gone AS (
            DELETE FROM two USING unnest($1::text[], $2::bytea[]) AS new (id, record)
            WHERE two.id = new.id AND status = 'running'
            RETURNING seq, two.id, version + 1, 'completed', queue, type, priority, available_at, NULL::timestamptz,
                now(), new.record
        )
        INSERT INTO two_ended SELECT * FROM gone
        """,
    ),
}  # fmt: skip
FILL = """
    INSERT INTO {0} SELECT n, $4 || n, 1, $3, 'q', 't', 0, now(), NULL, CASE $3 WHEN 'completed' THEN now() END,
        decode(repeat('ab', 400), 'hex')
    FROM generate_series($1::bigint, $2::bigint) AS n
"""


async def main(ended: int) -> None:
    with PostgresServer("max_wal_size=4GB") as server:
        db = await asyncpg.connect(
            server.url,
            server_settings={
                "enable_seqscan": "off",
                "enable_bitmapscan": "off",
                "plan_cache_mode": "force_generic_plan",
            },
        )
        print(f"{'layout':12} {'claim and end':>14} {'vacuum':>9} {'claim after it':>15}")
        for tables, _, cold, _, _ in LAYOUTS.values():
            await db.execute(tables)
            await db.execute(FILL.format(cold), 1, max(ended, 1), "completed", "e")
        await db.execute("VACUUM ANALYZE")
        await db.execute("CHECKPOINT")
        figures = {name: ([], [], []) for name in LAYOUTS}
        for repeat in range(REPEATS):
            for name, (_, hot, _, claim, end) in LAYOUTS.items():
                rates, vacuums, claims = figures[name]
                first = 10**9 + repeat * 10**6
                await db.execute(FILL.format(hot), first, first + BATCH * BATCHES - 1, "pending", "p")
                begin = time.perf_counter()
                for _ in range(BATCHES - 1):
                    rows = await db.fetch(claim, BATCH)
                    assert len(rows) == BATCH
                    await db.execute(end, [row[0] for row in rows], [row[1] + b"x" * 100 for row in rows])
                rates.append(BATCH * (BATCHES - 1) / (time.perf_counter() - begin))
                begin = time.perf_counter()
                await db.execute(f"VACUUM {hot}" if hot != "parts" else "VACUUM parts_open")
                vacuums.append(time.perf_counter() - begin)
                begin = time.perf_counter()
                rows = await db.fetch(claim, BATCH)
                claims.append(time.perf_counter() - begin)
                await db.execute(end, [row[0] for row in rows], [row[1] for row in rows])
        for name, values in figures.items():
            middle = [statistics.median(each) for each in values]
            print(
                f"{name:12} {middle[0]:>12,.0f}/s {middle[1] * 1000:>6.0f} ms {middle[2] * 1000:>12.1f} ms", flush=True
            )
        await db.close()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000))
