// `node pyright_client.mjs COMMAND…` edits a file in pyright, and asks for what an editor asks for while one types:
// each question is cancelled by the next.
import assert from "node:assert/strict";
import { CANCELLED, connect } from "./lsp_connection.mjs";

const connection = connect(process.argv.slice(2));
// Pyright asks its client for its configuration, and to be told of files.
connection.onRequest("workspace/configuration", ({ items }) => items.map(() => ({})));
connection.onRequest("client/registerCapability", () => null);
connection.listen();

const uri = "file:///interop.py";
const line = (version) => `def f${version}(x: int) -> list[str]:\n    return [str(x)] * ${version}\n`;
let text = "";
for (let version = 0; version < 40; version++) text += line(version);

const workspace = { configuration: true };
await connection.sendRequest("initialize", { processId: null, rootUri: null, capabilities: { workspace } });
await connection.sendNotification("initialized", {});
await connection.sendNotification("textDocument/didOpen", {
  textDocument: { uri, languageId: "python", version: 1, text },
});

const questions = [];
for (let version = 2; version < 8; version++) {
  text += line(version * 1000);
  connection.sendNotification("textDocument/didChange", { textDocument: { uri, version }, contentChanges: [{ text }] });
  for (const method of ["textDocument/hover", "textDocument/references", "textDocument/completion"]) {
    const position = { line: 2 * version, character: 5 };
    const params = { textDocument: { uri }, position, context: { includeDeclaration: true } };
    const { request, cancel } = connection.cancellable(method, params);
    questions.push(request.then(() => "result", ({ code }) => code));
    if (method !== "textDocument/hover") setTimeout(cancel, 4 * version);
  }
  await new Promise((then) => setTimeout(then, 40));
}
const answers = await Promise.all(questions);
// A position in a text that has changed since is an error of its own.
assert.ok(answers.includes("result") && answers.includes(CANCELLED), String(answers));
await connection.sendRequest("textDocument/documentSymbol", { textDocument: { uri } });
await connection.sendRequest("shutdown");
await connection.sendNotification("exit");
await connection.exited;
console.log(JSON.stringify(answers));
process.exit(0);
