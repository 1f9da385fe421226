// A client on vscode-jsonrpc: `node lsp_guide.mjs plain|diagnostics|progress|quiet COMMAND…` drives a language server
// of the guides, whose search for references takes long in a long text. One with progress knows the text, and
// publishes diagnostics too. The others take the lines above the place for it. `quiet` drives one with progress, and
// is a client without.
// It prints the name of each check that held, and exits 1 at the first that did not.
import assert from "node:assert/strict";
import { setTimeout } from "node:timers/promises";
import { CANCELLED, code, connect } from "./lsp_connection.mjs";

const [kind, ...command] = process.argv.slice(2);
const hasProgress = kind === "progress";
const knowsText = hasProgress || kind === "quiet";
const hasDiagnostics = kind !== "plain";
const connection = connect(command);

// Notifications in the order in which they come, and those who wait for one.
const told = [];
const waiting = [];
const tell = (params) => (waiting.length ? waiting.shift()(params) : told.push(params));
const next = async () => told.shift() ?? new Promise((resolve) => waiting.push(resolve));
connection.onNotification("textDocument/publishDiagnostics", tell);
connection.onNotification("$/progress", tell);
const tokens = [];
connection.onRequest("window/workDoneProgress/create", ({ token }) => tokens.push(token) && null);
connection.listen();

// A long search that is not cancelled has its result after a minute.
const [SHORT, LONG] = [["file:///empty", 0], ["file:///a", 600]];
const place = ([uri, line]) => ({ textDocument: { uri }, position: { line, character: 0 } });
const search = (where) => {
  const asked = { ...place(where), context: { includeDeclaration: true } };
  return connection.cancellable("textDocument/references", asked);
};

// The token of a progress that has begun, as it was announced.
async function begun() {
  const { token, value } = await next();
  assert.deepEqual([tokens.at(-1), value.kind], [token, "begin"]);
  return token;
}

const ended = async () => hasProgress && assert.equal((await next()).value.kind, "end");

const checks = {
  async initialize() {
    const { capabilities } = await connection.sendRequest("initialize", {
      capabilities: hasProgress ? { window: { workDoneProgress: true } } : {},
    });
    assert.equal(capabilities.referencesProvider, true);
    await connection.sendNotification("initialized", {});
  },
  async diagnostics_of_a_document() {
    if (!hasDiagnostics) return;
    const textDocument = { uri: "file:///a", languageId: "text", version: 1, text: "later\nx" };
    await connection.sendNotification("textDocument/didOpen", { textDocument });
    assert.equal((await next()).diagnostics[0].message, "later");
  },
  async request_gets_its_result() {
    const { request } = search(SHORT);
    if (hasProgress) await begun();
    assert.ok(Array.isArray(await request));
    await ended();
  },
  async cancel_in_the_same_write() {
    const { request, cancel } = search(LONG);
    cancel();
    assert.equal(await code(request), CANCELLED);
    // It has begun and ended if the server read the cancel by itself.
    told.length = 0;
  },
  async cancel_while_it_works() {
    const { request, cancel } = search(LONG);
    // One without progress does not say when it has begun.
    await (hasProgress ? begun() : setTimeout(50));
    cancel();
    assert.equal(await code(request), CANCELLED);
    await ended();
  },
  async button_of_the_progress() {
    if (!hasProgress) return;
    const { request } = search(LONG);
    await connection.sendNotification("window/workDoneProgress/cancel", { token: await begun() });
    assert.equal(await code(request), CANCELLED);
    await ended();
  },
  async document_that_is_closed() {
    if (!knowsText) return;
    await connection.sendNotification("textDocument/didClose", { textDocument: { uri: "file:///a" } });
    assert.deepEqual(await search(LONG).request, []);
  },
  async no_progress_that_it_did_not_ask_for() {
    assert.ok(hasProgress || tokens.length === 0);
  },
  async method_that_it_does_not_know() {
    assert.equal(await code(connection.sendRequest("textDocument/hover", place(SHORT))), -32601);
  },
  async shutdown() {
    assert.equal(await connection.sendRequest("shutdown"), null);
    await connection.sendNotification("exit");
    assert.deepEqual(await connection.exited, [0, null]);
  },
};

for (const [name, check] of Object.entries(checks)) {
  await check();
  console.log(name);
}
process.exit(0);
