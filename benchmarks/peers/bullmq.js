// BullMQ's worker and producer, each a process of its own that Python starts.
//
//   node bullmq.js worker   REDIS_URL CONCURRENCY PROBE CAPACITY
//   node bullmq.js producer REDIS_URL              requests on stdin: "one|bulk FIRST COUNT BATCH"
'use strict';

const fs = require('node:fs');
const readline = require('node:readline');
const { Queue, Worker } = require('bullmq');

const QUEUE = 'bench';
const FLUSH_MILLISECONDS = 5;
const OPTIONS = { removeOnComplete: true };

function connection(url) {
  const { hostname, port, pathname } = new URL(url);
  return { host: hostname, port: Number(port), db: Number(pathname.slice(1)), maxRetriesPerRequest: null };
}

// The cells of probe.py: a start time for each job, then a count of runs. Node can't map a file, so it writes them.
class Probe {
  constructor(path, capacity) {
    this.file = fs.openSync(path, 'r+');
    this.memory = Buffer.from(new ArrayBuffer(capacity * 9));
    this.starts = new Float64Array(this.memory.buffer, 0, capacity);
    this.runs = new Uint8Array(this.memory.buffer, capacity * 8, capacity);
    this.changed = false;
    setInterval(() => this.flush(), FLUSH_MILLISECONDS);
  }

  hit(job) {
    if (!this.runs[job]) this.starts[job] = (performance.timeOrigin + performance.now()) / 1000;
    this.runs[job] += 1;
    this.changed = true;
  }

  flush() {
    if (!this.changed) return;
    this.changed = false;
    fs.writeSync(this.file, this.memory, 0, this.memory.length, 0);
  }
}

function work(url, concurrency, path, capacity) {
  const probe = new Probe(path, Number(capacity));
  const worker = new Worker(QUEUE, async (job) => probe.hit(job.data.n), {
    connection: connection(url),
    concurrency: Number(concurrency),
  });
  worker.on('error', (error) => console.error(error));
  process.on('SIGTERM', async () => {
    await worker.close();
    process.exit(0);
  });
}

async function produce(url) {
  const queue = new Queue(QUEUE, { connection: connection(url) });
  await queue.waitUntilReady();
  console.log('ready');
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const [how, ...numbers] = line.split(' ');
    const [first, count, batch] = numbers.map(Number);
    const end = first + count;
    if (how === 'one') {
      for (let n = first; n < end; n += 1) await queue.add('noop', { n }, OPTIONS);
    } else {
      for (let start = first; start < end; start += batch) {
        const length = Math.min(batch, end - start);
        await queue.addBulk(Array.from({ length }, (_, i) => ({ name: 'noop', data: { n: start + i }, opts: OPTIONS })));
      }
    }
    console.log('done');
  }
  await queue.close();
}

const [role, ...given] = process.argv.slice(2);
if (role === 'worker') work(...given);
else produce(...given);
