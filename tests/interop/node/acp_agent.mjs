// An agent on the ACP TypeScript SDK, with the methods of `rescind serve`, and two
// that await their own cancel and fail.
import { Readable, Writable } from "node:stream";
import { setTimeout as sleep } from "node:timers/promises";
import { agent, ndJsonStream } from "@agentclientprotocol/sdk";

const raw = (params) => params;

const connection = agent()
  .onRequest("echo", raw, ({ params }) => params)
  .onRequest("sleep", raw, async ({ params, signal }) => {
    // An aborted sleep throws an AbortError, to which the SDK responds with -32800.
    await sleep(params.ms, null, { signal });
    return { slept_ms: params.ms };
  })
  .onRequest("stubborn", raw, async ({ params }) => {
    await sleep(params.ms);
    return { slept_ms: params.ms };
  })
  .onRequest("inline", raw, ({ signal }) => sleep(600_000, null, { signal }))
  .onRequest("panic", raw, () => {
    throw new Error("on purpose");
  })
  .onRequest("nested", raw, ({ params, signal, client }) =>
    client.request("sleep", params, { cancellationSignal: signal }),
  )
  .connect(ndJsonStream(Writable.toWeb(process.stdout), Readable.toWeb(process.stdin)));

await connection.closed;
process.exit(0);
