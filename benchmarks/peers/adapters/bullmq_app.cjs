// BullMQ, one worker of Node. Groups, which would keep workspaces apart, are in BullMQ Pro only.
const fs = require("fs");
const readline = require("readline");
const { Queue, Worker } = require("bullmq");

const ledger = fs.openSync(process.env.PEER_LEDGER, "a");
const recover = 1000 * Number(process.env.PEER_RECOVER_SECONDS || 0);
const url = new URL(process.env.PEER_URL);
const server = { host: url.hostname, port: Number(url.port), password: url.password };
const sleep = (seconds) => new Promise((resolve) => setTimeout(resolve, 1000 * seconds));
const now = () => Number(process.hrtime.bigint()) / 1e9;

function note(what, number, workspace) {
  fs.writeSync(ledger, `${what} ${number} ${workspace} ${now().toFixed(6)} ${process.pid}\n`);
}

async function run({ data: { number, workspace, seconds } }) {
  note("start", number, workspace);
  if (seconds) await sleep(seconds);
  note("end", number, workspace);
}

function work() {
  const options = { connection: { ...server, maxRetriesPerRequest: null } };
  if (recover) Object.assign(options, { lockDuration: recover, stalledInterval: recover });
  new Worker("peer", run, { ...options, concurrency: Number(process.env.PEER_SLOTS) });
}

async function produce() {
  const queue = new Queue("peer", { connection: server });
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const began = now();
    for (const [number, workspace, seconds, after] of JSON.parse(line)) {
      if (after) await sleep(Math.max(0, began + after - now()));
      note("publish", number, workspace);
      await queue.add("job", { number, workspace, seconds }, { removeOnComplete: true });
    }
    console.log("published");
  }
  process.exit(0);
}

process.argv[2] === "work" ? work() : produce();
