// graphile-worker on PostgreSQL, with the batching that its own page on performance recommends.

const TYPE = "send_reminder";

export async function open(url, load) {
  const { makeWorkerUtils, run, Logger } = await load("graphile-worker");
  const { Pool } = (await load("pg")).default;
  const quiet = new Logger(() => () => {});
  const pool = new Pool({ connectionString: url, max: 20 });
  pool.on("error", (error) => process.stderr.write(`${error}\n`));
  pool.on("connect", (client) => client.on("error", (error) => process.stderr.write(`${error}\n`)));
  const tools = await makeWorkerUtils({ pgPool: pool, logger: quiet });
  return {
    settings: "localQueue of 500, completeJobBatchDelay 0, 24 concurrent jobs",
    prepare: () => tools.migrate(),
    submit: (payload) => tools.addJob(TYPE, payload),
    submitMany: (payloads) => tools.addJobs(payloads.map((payload) => ({ identifier: TYPE, payload }))),
    left: async () => {
      const { rows } = await pool.query("SELECT count(*)::int AS count FROM graphile_worker._private_jobs");
      return rows[0].count;
    },
    work: (note, concurrency) =>
      run({
        pgPool: pool,
        logger: quiet,
        preset: {
          worker: {
            concurrentJobs: note.pause ? concurrency : 24,
            localQueue: { size: 500 },
            completeJobBatchDelay: 0,
            failJobBatchDelay: 0,
          },
        },
        taskList: {
          [TYPE]: async (payload) => {
            note(payload);
            if (note.pause) await note.sleep();
          },
        },
      }),
  };
}
