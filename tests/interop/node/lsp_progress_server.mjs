// A server on vscode-languageserver. `index` reports progress of its own until its button is pressed, and `search`
// reports under the client's token until the request is cancelled.
import { LSPErrorCodes, ResponseError, createConnection } from "vscode-languageserver/node";

const connection = createConnection(process.stdin, process.stdout);
connection.onInitialize(() => ({ capabilities: {} }));

// Until something is cancelled, if that has not happened yet.
const cancelled = (token) =>
  token.isCancellationRequested ||
  new Promise((resolve) => token.onCancellationRequested(() => resolve(true)));

connection.onRequest("index", async () => {
  const progress = await connection.window.createWorkDoneProgress();
  progress.begin("Index", 0, undefined, true);
  await cancelled(progress.token);
  progress.done();
  return { indexed: false };
});
connection.onRequest("search", async ({ workDoneToken }, token) => {
  const progress = connection.window.attachWorkDoneProgress(workDoneToken);
  progress.begin("Search", 0, undefined, true);
  await cancelled(token);
  progress.done();
  throw new ResponseError(LSPErrorCodes.RequestCancelled, "cancelled");
});
connection.onRequest("echo", (params) => params);
connection.listen();
