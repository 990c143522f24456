// Pushes elements of 100 bytes in batches of 100, and handles them with 100 slots: node bullmq.mjs PORT ELEMENTS
import { Queue, Worker } from "bullmq";

const [port, elements] = process.argv.slice(2).map(Number);
const connection = { host: "127.0.0.1", port, maxRetriesPerRequest: null };
const queue = new Queue("bench", { connection, defaultJobOptions: { removeOnComplete: true } });
await queue.waitUntilReady();
const batch = Array.from({ length: 100 }, () => ({ name: "job", data: { payload: "x".repeat(100) } }));
const seconds = (start) => Number(process.hrtime.bigint() - start) / 1e9;

let start = process.hrtime.bigint();
for (let pushed = 0; pushed < elements; pushed += batch.length) await queue.addBulk(batch);
const push = seconds(start);

start = process.hrtime.bigint();
let handled = 0;
const worker = new Worker("bench", async () => {}, { connection, concurrency: 100 });
await new Promise((resolve) => worker.on("completed", () => ++handled === elements && resolve()));
console.log(JSON.stringify({ push, work: seconds(start) }));
await worker.close();
await queue.close();
