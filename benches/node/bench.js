// vscode-jsonrpc: both ends in one process, over two in-memory streams. Prints what the Rust peers
// print, under the same names; its floor is JSON.stringify and JSON.parse.
//
//   node bench.js speed MILLISECONDS
//   node --expose-gc bench.js heap COUNT
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { Duplex } from "node:stream";
import * as rpc from "vscode-jsonrpc/node";

const { dependencies } = JSON.parse(
  await readFile(new URL("package.json", import.meta.url), "utf8"),
);
const version = dependencies["vscode-jsonrpc"];
const NAME = `vscode-jsonrpc ${version} (Node ${process.versions.node.split(".")[0]})`;
const CANCELLED = -32800;
const SLICES = 7;

const figure = (metric, value) =>
  console.log(JSON.stringify({ peer: NAME, metric, value: Number(value.toFixed(3)) }));
const cpu = () => {
  const { user, system } = process.cpuUsage();
  return (user + system) * 1000;
};
const wall = () => Number(process.hrtime.bigint());
const percentile = (values, share) =>
  values.sort((a, b) => a - b)[Math.floor((values.length - 1) * share)];

/** The same texts and trees as the harness's `Size`. */
const nodes = (fan, levels) =>
  levels === 0
    ? []
    : Array.from({ length: fan }, (_, value) => ({
        name: `node ${value}`,
        value,
        open: value % 2 === 0,
        nodes: nodes(fan, levels - 1),
      }));
const WORDS = "the quick brown fox jumps over the lazy dog 0123456789 ABCDEFGH ";
const PAYLOADS = {
  small: { text: "hello" },
  nested_1k: { text: "", nodes: nodes(4, 2) },
  nested_100k: { text: "", nodes: nodes(12, 3) },
  text_1m: { text: WORDS.repeat((1 << 20) / WORDS.length) },
};

/** Both ends. */
function join() {
  const end = () =>
    new Duplex({
      read() {},
      write(chunk, _, done) {
        this.other.push(chunk);
        done();
      },
    });
  const [near, far] = [end(), end()];
  [near.other, far.other] = [far, near];
  const connect = (stream) =>
    rpc.createMessageConnection(
      new rpc.StreamMessageReader(stream),
      new rpc.StreamMessageWriter(stream),
    );
  const [client, server] = [connect(near), connect(far)];
  let begun = 0;
  let waiting = [];
  server.onRequest("bench/echo", (payload) => payload);
  server.onRequest("bench/hang", (_, token) => {
    begun++;
    waiting.splice(0).forEach((wake) => wake());
    return new Promise((_, reject) => {
      token.onCancellationRequested(() =>
        reject(new rpc.ResponseError(CANCELLED, "Request cancelled")),
      );
    });
  });
  client.listen();
  server.listen();
  const haveBegun = async (count) => {
    while (begun < count) await new Promise((wake) => waiting.push(wake));
  };
  return { client, haveBegun };
}

async function echo(client, width, total, payload) {
  const expected = JSON.stringify(payload);
  const one = async () => {
    for (let turn = 0; turn < Math.floor(total / width); turn++) {
      const echoed = await client.sendRequest("bench/echo", payload);
      // Comparing texts is cheaper than comparing trees.
      if (payload.nodes ? JSON.stringify(echoed) !== expected : echoed.text !== payload.text) {
        throw new Error("what comes back is not what was sent");
      }
    }
  };
  await Promise.all(Array.from({ length: width }, one));
}

/** As `clock::cpu_per_step` of the harness. */
async function cpuPerStep(milliseconds, grain, work) {
  await work(grain);
  const begun = wall();
  let warm = 0;
  while (warm === 0 || wall() - begun < milliseconds * 1e5) {
    await work(grain);
    warm += grain;
  }
  const step = (wall() - begun) / warm;
  const steps = Math.max(1, Math.floor((milliseconds * 9e5) / SLICES / step / grain)) * grain;
  let least = Infinity;
  for (let slice = 0; slice < SLICES; slice++) {
    const before = cpu();
    await work(steps);
    least = Math.min(least, (cpu() - before) / steps);
  }
  return least;
}

function floor(times, payload) {
  for (let id = 0; id < times; id++) {
    const request = JSON.parse(
      JSON.stringify({ jsonrpc: "2.0", id, method: "bench/echo", params: payload }),
    );
    const response = JSON.parse(
      JSON.stringify({ jsonrpc: "2.0", id: request.id, result: request.params }),
    );
    if (response.result.text !== payload.text) throw new Error("it was written above");
  }
}

/** One lap of W2; returns when it began, when all handlers ran, and when all were answered. */
async function cancelLap({ client, haveBegun }, clock, width, begunBefore) {
  const begun = clock();
  const sent = Array.from({ length: width }, () => {
    const source = new rpc.CancellationTokenSource();
    const request = client.sendRequest("bench/hang", PAYLOADS.small, source.token);
    return { source, code: request.then(() => 0, (error) => error.code) };
  });
  await haveBegun(begunBefore + width);
  const running = clock();
  sent.forEach(({ source }) => source.cancel());
  const codes = await Promise.all(sent.map(({ code }) => code));
  const ended = clock();
  assert(codes.every((code) => code === CANCELLED), "each is answered as cancelled");
  return { cycle: (ended - begun) / width, cancel: (ended - running) / width };
}

async function speed(milliseconds) {
  const { client } = join();
  // Until it is compiled.
  await echo(client, 64, 20_000, PAYLOADS.small);
  for (const [name, payload] of Object.entries(PAYLOADS)) {
    const floorCost = () => cpuPerStep(milliseconds / 2, 1, (times) => floor(times, payload));
    const before = await floorCost();
    for (const width of name === "small" ? [1, 64, 1024] : [1]) {
      const work = (total) => echo(client, width, total, payload);
      figure(`w1.${name}.${width}.cpu_ns`, await cpuPerStep(milliseconds, width, work));
    }
    figure(`floor.${name}.cpu_ns`, Math.min(before, await floorCost()));
  }
  const latencies = [];
  for (let time = 0; time < 10_000; time++) {
    const begun = wall();
    await echo(client, 1, 1, PAYLOADS.small);
    latencies.push(wall() - begun);
  }
  figure("w1.small.1.p50_ns", percentile(latencies, 0.5));
  figure("w1.small.1.p99_ns", percentile(latencies, 0.99));

  const ends = join();
  let begun = 0;
  const lap = async (clock, width) => {
    const took = await cancelLap(ends, clock, width, begun);
    begun += width;
    return took;
  };
  const cycle = await cpuPerStep(milliseconds, 1, async (laps) => {
    for (let time = 0; time < laps; time++) await lap(() => 0, 1);
  });
  figure("w2.1.cycle_cpu_ns", cycle);
  const cancels = [];
  for (let time = 0; time < 2_000; time++) cancels.push((await lap(wall, 1)).cancel);
  figure("w2.1.p50_ns", percentile(cancels, 0.5));
  figure("w2.1.p99_ns", percentile(cancels, 0.99));
  const many = [];
  for (let time = 0; time < 10; time++) many.push(await lap(cpu, 1024));
  const least = (of) => percentile(many.slice(2).map(of), 0.1);
  figure("w2.1024.cancel_cpu_ns", least(({ cancel }) => cancel));
  figure("w2.1024.cycle_cpu_ns", least(({ cycle }) => cycle));
}

async function heap(count) {
  const { client, haveBegun } = join();
  // A connection that nobody can reach any more is no connection.
  globalThis.held = client;
  const used = () => {
    global.gc();
    const { heapUsed, external } = process.memoryUsage();
    return heapUsed + external;
  };
  const before = used();
  const sent = [];
  for (let begun = 1; begun <= count; begun++) {
    const { token } = new rpc.CancellationTokenSource();
    sent.push(client.sendRequest("bench/hang", PAYLOADS.small, token));
    if (begun % 64 === 0) await haveBegun(begun);
  }
  await haveBegun(count);
  figure(`w3.${count}.both_bytes`, (used() - before) / sent.length);
}

const [mode, amount] = process.argv.slice(2);
await { speed, heap }[mode](Number(amount));
process.exit(0);
