// `node clangd_client.mjs COMMAND…` edits a file in clangd, thirty times, and cancels a request on it
// each time. Prints how the requests were answered, as JSON.
import assert from "node:assert/strict";
import { CANCELLED, connect } from "./lsp_connection.mjs";

const connection = connect(process.argv.slice(2));
connection.listen();

const uri = "file:///interop.cpp";
const text = "#include <map>\n#include <string>\n#include <vector>\nint main() { return 0; }\n";

const { capabilities } = await connection.sendRequest("initialize", {
  processId: null,
  rootUri: null,
  capabilities: {},
});
assert.ok(capabilities.hoverProvider);
await connection.sendNotification("initialized", {});
await connection.sendNotification("textDocument/didOpen", {
  textDocument: { uri, languageId: "cpp", version: 1, text },
});

const counts = { cancelled: 0, result: 0 };
for (let version = 2; version < 32; version++) {
  connection.sendNotification("textDocument/didChange", {
    textDocument: { uri, version },
    contentChanges: [{ text: `${text}int v${version};\n` }],
  });
  const params = { textDocument: { uri } };
  const { request, cancel } = connection.cancellable("textDocument/documentSymbol", params);
  cancel();
  const answer = await request.then(() => "result", (error) => error.code);
  assert.ok(["result", CANCELLED].includes(answer), `${answer}`);
  counts[answer === CANCELLED ? "cancelled" : "result"] += 1;
}

// The server is alive, and knows the last text.
const symbols = await connection.sendRequest("textDocument/documentSymbol", { textDocument: { uri } });
assert.deepEqual(symbols.map(({ name }) => name), ["main", "v31"]);
await connection.sendRequest("shutdown");
await connection.sendNotification("exit");
await connection.exited;
console.log(JSON.stringify(counts));
process.exit(0);
