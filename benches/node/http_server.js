// `node http_server.js REVISION` is the MCP server over HTTP of benches/users/http, on the TypeScript SDK. The second major
// version serves 2026-07-28 and the first one the revisions with sessions.
import { createServer } from "node:http";
import { z } from "zod";

const info = { name: "bench", version: "0" };
const echoed = { text: z.string() };
const counted = { text: z.string(), to: z.number() };
const said = (text) => ({ content: [{ type: "text", text }] });

async function count({ text, to }, progressToken, notify) {
  for (let progress = 1; progress <= to; progress++) {
    await notify({ method: "notifications/progress", params: { progressToken, progress } });
  }
  return said(text);
}

async function withSessions() {
  const { McpServer } = await import("@modelcontextprotocol/sdk/server/mcp.js");
  const { StreamableHTTPServerTransport } = await import("@modelcontextprotocol/sdk/server/streamableHttp.js");
  const sessions = new Map();
  return async (request, response) => {
    let transport = sessions.get(request.headers["mcp-session-id"]);
    if (!transport) {
      transport = new StreamableHTTPServerTransport({
        sessionIdGenerator: () => crypto.randomUUID(),
        onsessioninitialized: (id) => sessions.set(id, transport),
      });
      const server = new McpServer(info);
      server.registerTool("echo", { inputSchema: echoed }, ({ text }) => said(text));
      server.registerTool("count", { inputSchema: counted }, (it, extra) =>
        count(it, extra._meta.progressToken, extra.sendNotification),
      );
      await server.connect(transport);
    }
    await transport.handleRequest(request, response);
  };
}

async function withoutSessions() {
  const { createMcpHandler, McpServer } = await import("@modelcontextprotocol/server");
  const { toNodeHandler } = await import("@modelcontextprotocol/node");
  const handler = createMcpHandler(() => {
    const server = new McpServer(info);
    server.registerTool("echo", { inputSchema: z.object(echoed) }, ({ text }) => said(text));
    server.registerTool("count", { inputSchema: z.object(counted) }, (it, { mcpReq }) =>
      count(it, mcpReq._meta.progressToken, mcpReq.notify),
    );
    return server;
  });
  return toNodeHandler(handler);
}

const serve = process.argv[2] === "2026-07-28" ? withoutSessions : withSessions;
const server = createServer(await serve());
server.listen(0, "127.0.0.1", () => console.log(`127.0.0.1:${server.address().port}`));
