// `node http_server.mjs 1|2` is a server over HTTP on an MCP TypeScript SDK of that major version, on a free port that it
// prints. Its tool `sleep` works until it is cancelled; `witness` answers when so many of those have begun, or were
// cancelled.
import { EventEmitter, once } from "node:events";
import { createServer } from "node:http";
import { setTimeout } from "node:timers/promises";
import { z } from "zod";

const seen = { begun: 0, cancelled: 0 };
const news = new EventEmitter().setMaxListeners(0);
const note = (what) => {
  seen[what]++;
  news.emit("note");
};
const done = { content: [{ type: "text", text: "{}" }] };

async function sleep({ ms }, signal) {
  note("begun");
  await setTimeout(ms, undefined, { signal }).catch((error) => {
    note("cancelled");
    throw error;
  });
  return done;
}

async function witness({ of, times }) {
  while (seen[of] < times) await once(news, "note");
  return done;
}

const info = { name: "interop", version: "0" };
const slept = { ms: z.number() };
const witnessed = { of: z.enum(["begun", "cancelled"]), times: z.number() };

const versions = {
  async 1() {
    const { McpServer } = await import("@modelcontextprotocol/sdk/server/mcp.js");
    const { StreamableHTTPServerTransport } =
      await import("@modelcontextprotocol/sdk/server/streamableHttp.js");
    const sessions = new Map();
    return async (request, response) => {
      let transport = sessions.get(request.headers["mcp-session-id"]);
      if (!transport) {
        transport = new StreamableHTTPServerTransport({
          sessionIdGenerator: () => crypto.randomUUID(),
          onsessioninitialized: (id) => sessions.set(id, transport),
        });
        const server = new McpServer(info);
        server.registerTool("sleep", { inputSchema: slept }, (it, { signal }) => sleep(it, signal));
        server.registerTool("witness", { inputSchema: witnessed }, witness);
        await server.connect(transport);
      }
      await transport.handleRequest(request, response);
    };
  },
  async 2() {
    const { createMcpHandler, McpServer } = await import("@modelcontextprotocol/server");
    const { toNodeHandler } = await import("@modelcontextprotocol/node");
    const handler = createMcpHandler(() => {
      const server = new McpServer(info);
      const inputSchema = z.object(slept);
      server.registerTool("sleep", { inputSchema }, (it, { mcpReq }) => sleep(it, mcpReq.signal));
      server.registerTool("witness", { inputSchema: z.object(witnessed) }, witness);
      return server;
    });
    return toNodeHandler(handler);
  },
};

const server = createServer(await versions[process.argv[2]]());
server.listen(0, "127.0.0.1", () => console.log(`http://127.0.0.1:${server.address().port}/mcp`));
