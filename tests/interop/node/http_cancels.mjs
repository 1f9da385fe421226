// `node http_cancels.mjs 1|2 ADDRESS` is a client over HTTP on an MCP TypeScript SDK of that major version. It cancels
// calls of `sleep` by their signal, and one by time-out, and prints the milliseconds until `witness` says that the handler
// has heard it, and beside them those of a question that is responded to at once.
const TIMES = 50;
const ms = 600_000;

const [major, address] = process.argv.slice(2);
const info = { name: "interop", version: "0" };
const versions = {
  async 1() {
    const { Client } = await import("@modelcontextprotocol/sdk/client/index.js");
    const { StreamableHTTPClientTransport } =
      await import("@modelcontextprotocol/sdk/client/streamableHttp.js");
    const client = new Client(info);
    await client.connect(new StreamableHTTPClientTransport(new URL(address)));
    return (name, args, options) => client.callTool({ name, arguments: args }, undefined, options);
  },
  async 2() {
    const { Client, StreamableHTTPClientTransport } = await import("@modelcontextprotocol/client");
    const client = new Client(info, { versionNegotiation: { mode: "auto" } });
    await client.connect(new StreamableHTTPClientTransport(new URL(address)));
    return (name, args, options) => client.callTool({ name, arguments: args }, options);
  },
};

const call = await versions[major]();
for (let times = 1; times <= TIMES; times++) {
  const abort = new AbortController();
  const cancelled = call("witness", { of: "cancelled", times });
  const slept = call("sleep", { ms }, { signal: abort.signal }).catch(() => {});
  await call("witness", { of: "begun", times });
  const asked = performance.now();
  await call("witness", { of: "begun", times });
  const begun = performance.now();
  abort.abort();
  await cancelled;
  console.log(performance.now() - begun, begun - asked);
  await slept;
}
// The call has to reach its handler before.
await call("sleep", { ms }, { timeout: 2_000 }).catch(() => {});
await call("witness", { of: "cancelled", times: TIMES + 1 });
console.log("timed out");
process.exit(0);
