// pg-boss on PostgreSQL, woken by NOTIFY, fetching in batches.

const QUEUE = "reminders";

export async function open(url, load) {
  const { PgBoss } = await load("pg-boss");
  const { Pool } = (await load("pg")).default;
  const pool = new Pool({ connectionString: url, max: 2 });
  const boss = new PgBoss({ connectionString: url, max: 10, useListenNotify: true });
  boss.on("error", (error) => process.stderr.write(`${error}\n`));
  await boss.start();
  return {
    settings: "LISTEN/NOTIFY, batches of 500, burstWhenBatchFull",
    prepare: () => boss.createQueue(QUEUE, { notify: true }),
    submit: (payload) => boss.send(QUEUE, payload),
    submitMany: (payloads) => boss.insert(QUEUE, payloads.map((data) => ({ data }))),
    left: async () => {
      const query = "SELECT count(*)::int AS count FROM pgboss.job WHERE state < 'completed'";
      return (await pool.query(query)).rows[0].count;
    },
    work: (note, concurrency) => {
      const batchSize = note.pause ? concurrency : 500;
      const options = { batchSize, burstWhenBatchFull: true, pollingIntervalSeconds: 0.5 };
      return boss.work(QUEUE, options, async (jobs) => {
        for (const job of jobs) note(job.data);
        if (note.pause) await note.sleep();
      });
    },
  };
}
