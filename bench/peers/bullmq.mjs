// BullMQ on the Redis protocol.

const QUEUE = "reminders";
const TYPE = "send_reminder";

export async function open(url, load) {
  const { Queue, Worker } = await load("bullmq");
  const { hostname, port } = new URL(url);
  const connection = { host: hostname, port: Number(port), maxRetriesPerRequest: null };
  const options = { removeOnComplete: true };
  const queue = new Queue(QUEUE, { connection });
  await queue.waitUntilReady();
  return {
    settings: "concurrency 200, removeOnComplete",
    prepare: () => {},
    submit: (payload) => queue.add(TYPE, payload, options),
    submitMany: (payloads) => queue.addBulk(payloads.map((data) => ({ name: TYPE, data, opts: options }))),
    left: async () => {
      const counts = await queue.getJobCounts("wait", "active", "delayed", "prioritized");
      return Object.values(counts).reduce((sum, count) => sum + count, 0);
    },
    work: async (note, concurrency) => {
      const run = async (job) => {
        note(job.data);
        if (note.pause) await note.sleep();
      };
      await new Worker(QUEUE, run, { connection, concurrency }).waitUntilReady();
    },
  };
}
