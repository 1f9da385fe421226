// A vscode-jsonrpc connection to a spawned server.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import rpc from "vscode-jsonrpc/node";

export const LONG = 600_000;
export const CANCELLED = -32800;

export const cancelled = () => new rpc.ResponseError(CANCELLED, "Request cancelled");

export function connect([command, ...args]) {
  const child = spawn(command, args, { stdio: ["pipe", "pipe", "inherit"] });
  const reader = new rpc.StreamMessageReader(child.stdout);
  const writer = new rpc.StreamMessageWriter(child.stdin);
  const connection = rpc.createMessageConnection(reader, writer);
  connection.exited = once(child, "exit");
  connection.cancellable = (method, params) => {
    const source = new rpc.CancellationTokenSource();
    const request = connection.sendRequest(method, params, source.token);
    return { request, cancel: () => source.cancel() };
  };
  return connection;
}

// The code of the error that the request is answered with.
export const code = (request) =>
  request.then(
    (result) => assert.fail(`a result: ${JSON.stringify(result)}`),
    (error) => error.code,
  );
