// Doubles numbers: node receiver.mjs 127.0.0.1:7117 thumbnails 30
import { randomUUID } from "node:crypto";
import { uptime } from "node:os";
import { fileURLToPath } from "node:url";
import grpc from "@grpc/grpc-js";
import loader from "@grpc/proto-loader";

const [address, queue, wanted] = process.argv.slice(2);
const proto = fileURLToPath(new URL("stanchion.proto", import.meta.url));
const { v1 } = grpc.loadPackageDefinition(loader.loadSync(proto, { keepCase: true, longs: Number, defaults: true })).stanchion;
const client = new v1.Queues(address, grpc.credentials.createInsecure());

const receiver = randomUUID();
const held = new Map(); // held jobs, until their outcomes are confirmed
const epochs = new Map(); // the highest one seen of each slice
let newly = 0;

const stamp = () => Math.round(uptime() * 1e6); // a clock that includes sleep
const stream = client.Receive();
const up = (message) => stream.write({ stamp_us: stamp(), ...message });
const hello = (answer) => ({ receiver, queues: [queue], holding: [...held.values()], answer });

function outcome(job, late) {
  const lease = { id: job.id, token: job.token, queue: job.queue };
  const slice = JSON.stringify([job.queue, job.slice]);
  epochs.set(slice, Math.max(job.epoch, epochs.get(slice) ?? 0));
  if (late || job.epoch < epochs.get(slice)) return { ...lease, refused: {} };
  held.set(job.id, lease);
  const { number } = JSON.parse(job.payload);
  return { ...lease, commit: { result: JSON.stringify({ doubled: 2 * number }) } };
}

let stamps;
stream.on("data", (down) => {
  if (down.lease_us) stamps ??= setInterval(() => up({}), down.lease_us / 6000);
  for (const { queue, slice, epoch } of down.slices) epochs.set(JSON.stringify([queue, slice]), epoch);
  for (const { id } of [...down.settled, ...down.lost]) held.delete(id);
  newly += down.newly;
  const late = stamp() > down.heard_us + down.lease_left_us;
  const outcomes = down.jobs.map((job) => outcome(job, late));
  if (outcomes.length) up({ outcomes });
  if (down.report) up({ hello: hello(true) });
  if (newly >= wanted) {
    clearInterval(stamps);
    up({ goodbye: true });
    stream.end();
  }
});
stream.on("error", (error) => {
  console.error(error.message); // a lasting program would open another stream, with all held jobs
  process.exitCode = 1;
});
stream.on("end", () => {
  console.log(`${wanted} jobs done, ${newly} newly`);
  client.close();
});
up({ hello: hello(false), capacity: 8 });
