// One Node system of the comparison: node peer.mjs PACKAGES NAME client|worker URL …
//
// The same protocol as peer.py, see there: lines of JSON for the client, a file of notes for the worker.

import { openSync, writeSync, fstatSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath, pathToFileURL } from "node:url";

const CALLERS = 50;
const BULK = 1000;
const FLUSH_EVERY = 2;

const [packages, name, role, url, ...more] = process.argv.slice(2);
const require = createRequire(join(packages, "package.json"));
const load = (wanted) => import(pathToFileURL(require.resolve(wanted)));
const seconds = () => Number(process.hrtime.bigint()) / 1e9;
const say = (answer) => process.stdout.write(`bench: ${JSON.stringify(answer)}\n`);
const sleep = (time) => new Promise((resolve) => setTimeout(resolve, time * 1000));

const payload = (number) => ({
  number,
  user_id: `user-${number % 1000}`,
  text: "Your appointment is tomorrow",
  sent: 0.0,
});

// Node cannot map a file, so what was noted is written to it every few milliseconds.
function notesIn(path, pause) {
  const file = openSync(path, "r+");
  const count = fstatSync(file).size / 9;
  const times = new Float64Array(count);
  const runs = new Uint8Array(count);
  let changed = false;
  const flush = () => {
    if (!changed) return;
    changed = false;
    writeSync(file, Buffer.from(times.buffer), 0, count * 8, 0);
    writeSync(file, runs, 0, count, count * 8);
  };
  setInterval(flush, FLUSH_EVERY);
  const note = ({ number }) => {
    times[number] = seconds();
    runs[number] += 1;
    changed = true;
  };
  note.pause = pause;
  note.sleep = () => sleep(pause);
  return note;
}

function clientOf(peer) {
  const timed = async (work) => {
    const begin = seconds();
    await work();
    return { begin, end: seconds() };
  };
  return {
    prepare: async () => ((await peer.prepare()), { settings: peer.settings }),
    left: async () => ({ left: await peer.left() }),
    one: ({ first, count }) =>
      timed(async () => {
        for (let number = first; number < first + count; number++) await peer.submit(payload(number));
      }),
    callers: ({ first, count }) =>
      timed(async () => {
        let next = first;
        const call = async () => {
          while (next < first + count) await peer.submit(payload(next++));
        };
        await Promise.all(Array.from({ length: CALLERS }, call));
      }),
    bulk: ({ first, count }) =>
      timed(async () => {
        for (let start = first; start < first + count; start += BULK) {
          const length = Math.min(BULK, first + count - start);
          await peer.submitMany(Array.from({ length }, (_, index) => payload(start + index)));
        }
      }),
    paced: async ({ first, count, every }) => {
      const sent = [];
      for (let number = first; number < first + count; number++) {
        await sleep(every);
        sent.push(seconds());
        await peer.submit(payload(number));
      }
      return { sent };
    },
  };
}

const adapter = join(dirname(fileURLToPath(import.meta.url)), "peers", `${name}.mjs`);
const { open } = await import(pathToFileURL(adapter));
const peer = await open(url, load);
const lines = createInterface({ input: process.stdin });
say({ ready: true });
if (role === "client") {
  const client = clientOf(peer);
  for await (const line of lines) {
    const { do: what, ...words } = JSON.parse(line);
    try {
      say(await client[what](words));
    } catch (error) {
      say({ error: String(error) });
    }
  }
  process.exit();
}
await lines[Symbol.asyncIterator]().next();
await peer.work(notesIn(more[0], Number(more[2])), Number(more[1]));
