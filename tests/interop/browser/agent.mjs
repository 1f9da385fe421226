// The agent's side of ABP, in the terms of the browser: an AbortSignal cancels a call.

export class Agent {
  #port;
  /** The function that gets the response to each message, by its id. */
  #awaited = new Map();
  /** The function that gets progress, by its token. */
  #progress = new Map();
  /** Every message that was sent. */
  sent = [];
  /** Messages that nobody awaited. */
  stray = [];

  constructor(port) {
    this.#port = port;
    port.onmessage = (message) => this.#receive(message);
  }

  open() {
    return this.#ask('initialize', { agent: { name: 'page' } });
  }

  /**
   * Calls a capability. Its result says `success`, or `cancelled`. `signal` and `timeout`, in
   * milliseconds, cancel it; `onacknowledged` gets what the app says to that.
   */
  async call(capability, params, options = {}) {
    const { signal, timeout, onprogress, onacknowledged, callId = crypto.randomUUID() } = options;
    if (signal?.aborted) return { callId, success: false, cancelled: true };

    const cancel = (reason) => this.cancel(callId, reason).then(onacknowledged);
    const abort = () => cancel(String(signal.reason));
    const progressToken = onprogress && crypto.randomUUID();
    if (onprogress) this.#progress.set(progressToken, onprogress);
    signal?.addEventListener('abort', abort, { once: true });
    const timer = timeout === undefined ? undefined : setTimeout(cancel, timeout, 'timeout');
    try {
      const named = { callId, timeout, progressToken };
      return await this.#ask('capabilities/call', { capability, params, options: named });
    } finally {
      signal?.removeEventListener('abort', abort);
      clearTimeout(timer);
      this.#progress.delete(progressToken);
    }
  }

  cancel(callId, reason) {
    return this.#ask('capabilities/cancel', { callId, reason });
  }

  #ask(type, payload) {
    const message = { type, id: crypto.randomUUID(), timestamp: Date.now(), payload };
    const answered = new Promise((resolve) => this.#awaited.set(message.id, { type, resolve }));
    this.sent.push(message);
    this.#port.send(message);
    return answered;
  }

  #receive(message) {
    const { type, id, payload } = message;
    const awaited = this.#awaited.get(id);
    if (awaited && type === `${awaited.type}-result`) {
      this.#awaited.delete(id);
      awaited.resolve(payload);
    } else if (type === 'capabilities/progress' && this.#progress.has(payload.progressToken)) {
      this.#progress.get(payload.progressToken)(payload);
    } else {
      this.stray.push(message);
    }
  }
}
