// A client on an MCP TypeScript SDK, of major version 1 or 2: `node mcp_client.mjs 1|2 REVISION COMMAND…`
// opens a server that has the tools of `rescind serve`, which has to speak that revision, and cancels.
// It prints the name of each check that held, and exits 1 at the first that did not. That the server
// is silent after a cancel is seen on the wire, by the tap in front of it. The checks that WITHOUT
// names, with commas, are left out. A command that is an address is a server over HTTP.
import assert from "node:assert/strict";
import { EventEmitter, once } from "node:events";

const LONG = 600_000;
const TIMED_OUT = { 1: -32001, 2: "REQUEST_TIMEOUT" };

const [major, revision, command, ...args] = process.argv.slice(2);
const isHttp = command.startsWith("http://");
const info = { name: "interop", version: "0" };

// The events of the requests that the server sends us.
const nested = new EventEmitter();
const untilCancelled = async (signal) => {
  nested.emit("started");
  if (!signal.aborted) await once(signal, "abort");
  nested.emit("cancelled");
  throw signal.reason;
};

// The parts that differ between the two versions: a client, its transport, and the call of a tool.
const versions = {
  async 1() {
    const { Client } = await import("@modelcontextprotocol/sdk/client/index.js");
    const { StdioClientTransport } = await import("@modelcontextprotocol/sdk/client/stdio.js");
    const { z } = await import("zod");
    const client = new Client(info);
    const sleep = z.object({ method: z.literal("sleep"), params: z.object({ ms: z.number() }) });
    client.setRequestHandler(sleep, (_, { signal }) => untilCancelled(signal));
    const call = (params, options) => client.callTool(params, undefined, options);
    if (!isHttp) return { client, call, transport: new StdioClientTransport({ command, args }) };
    const { StreamableHTTPClientTransport } =
      await import("@modelcontextprotocol/sdk/client/streamableHttp.js");
    return { client, call, transport: new StreamableHTTPClientTransport(new URL(command)) };
  },
  async 2() {
    const { Client } = await import("@modelcontextprotocol/client");
    const { StdioClientTransport } = await import("@modelcontextprotocol/client/stdio");
    const { z } = await import("zod");
    const client = new Client(info, { versionNegotiation: { mode: "auto" } });
    const params = z.object({ ms: z.number() });
    client.setRequestHandler("sleep", { params }, (_, { mcpReq }) => untilCancelled(mcpReq.signal));
    const call = (params, options) => client.callTool(params, options);
    if (!isHttp) return { client, call, transport: new StdioClientTransport({ command, args }) };
    const { StreamableHTTPClientTransport } = await import("@modelcontextprotocol/client");
    return { client, call, transport: new StreamableHTTPClientTransport(new URL(command)) };
  },
};

const { client, call, transport } = await versions[major]();
// The negotiated version is told to transports; one of stdio has no use for it.
let negotiated;
const tell = transport.setProtocolVersion?.bind(transport);
transport.setProtocolVersion = (version) => {
  negotiated = version;
  tell?.(version);
};
await client.connect(transport);

const tool = (name, args, options) => call({ name, arguments: args }, options);
const said = (result) => JSON.parse(result.content[0].text);
const slept = async (ms) => assert.deepEqual(said(await tool("sleep", { ms })), { slept_ms: ms });
const code = (request) =>
  request.then(
    (result) => assert.fail(`a result: ${JSON.stringify(result)}`),
    (error) => error.code,
  );

const checks = {
  async opens() {
    assert.equal(negotiated ?? client.getNegotiatedProtocolVersion(), revision);
    assert.equal(client.getServerVersion().name, "rescind");
  },
  async lists_tools() {
    const { tools } = await client.listTools();
    const names = tools.map(({ name }) => name);
    assert.deepEqual(names, ["echo", "sleep", "count", "stubborn", "fail", "nested", "outcome"]);
  },
  async echo() {
    assert.deepEqual(said(await tool("echo", { text: "hé" })), { text: "hé" });
  },
  async progress() {
    const seen = [];
    const onprogress = ({ progress, total }) => seen.push([progress, total]);
    await tool("count", { to: 3, every_ms: 20 }, { onprogress });
    // The SDK drops progress that it reads together with the answer.
    assert.deepEqual(seen, [[1, 3], [2, 3], [3, 3]].slice(0, Math.max(1, seen.length)));
  },
  async failure_is_a_result() {
    const result = await tool("fail", { code: -5, message: "no luck" });
    assert.equal(result.isError, true);
  },
  async cancel() {
    const abort = new AbortController();
    const request = tool("sleep", { ms: LONG }, { signal: abort.signal });
    // A request that has not left is never cancelled on the wire.
    await slept(1);
    abort.abort("enough");
    await assert.rejects(request);
  },
  async cancel_stops_progress() {
    const abort = new AbortController();
    const arrived = new EventEmitter();
    const first = once(arrived, "progress");
    const request = tool("count", { to: LONG, every_ms: 1 }, {
      signal: abort.signal,
      onprogress: () => arrived.emit("progress"),
    });
    await first;
    abort.abort();
    await assert.rejects(request);
    // Long enough for many more.
    await slept(50);
    await slept(1);
  },
  async cancel_that_is_ignored() {
    const abort = new AbortController();
    const request = tool("stubborn", { ms: 300 }, { signal: abort.signal });
    await slept(1);
    abort.abort();
    await assert.rejects(request);
    // Long enough for its answer.
    await slept(400);
  },
  async cancel_cascades_back() {
    const abort = new AbortController();
    const [started, cancelled] = [once(nested, "started"), once(nested, "cancelled")];
    const request = tool("nested", { ms: LONG }, { signal: abort.signal });
    await started;
    abort.abort();
    await assert.rejects(request);
    await cancelled;
  },
  async timeout_cancels() {
    assert.equal(await code(tool("sleep", { ms: LONG }, { timeout: 50 })), TIMED_OUT[major]);
  },
  async progress_resets_the_timeout() {
    const options = { timeout: 1_000, resetTimeoutOnProgress: true, onprogress: () => {} };
    assert.equal(said(await tool("count", { to: 12, every_ms: 100 }, options)).counted, 12);
  },
  async progress_does_not_reset_the_hard_cap() {
    // The SDK looks at the cap when progress arrives, and then says nothing to the server (B21),
    // whose answer comes late.
    const late = new EventEmitter();
    client.onerror = (error) => /unknown message ID/.test(error.message) && late.emit("answer");
    const answered = once(late, "answer");
    const options = { timeout: 10_000, maxTotalTimeout: 200, resetTimeoutOnProgress: true };
    const request = tool("count", { to: 30, every_ms: 20 }, { ...options, onprogress: () => {} });
    assert.equal(await code(request), TIMED_OUT[major]);
    await answered;
    client.onerror = undefined;
  },
  async every_third_of_many() {
    // Fewer at a time than the server has workers.
    for (let round = 0; round < 11; round++) {
      const abort = new AbortController();
      const requests = Array.from({ length: 9 }, (_, index) => {
        if (index % 3 !== 0) return slept(1);
        return assert.rejects(tool("sleep", { ms: LONG }, { signal: abort.signal }));
      });
      await slept(1);
      abort.abort();
      await Promise.all(requests);
    }
  },
  async still_alive() {
    assert.deepEqual(said(await tool("echo", { n: 1 })), { n: 1 });
  },
};

const without = (process.env.WITHOUT ?? "").split(",");
for (const [name, check] of Object.entries(checks)) {
  if (without.includes(name)) continue;
  await check();
  console.log(name);
}
await client.close();
process.exit(0);
