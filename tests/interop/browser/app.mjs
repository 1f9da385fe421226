// The app's side of ABP, as its document describes it: an AbortController for each operation. One
// operation runs at a time; the others wait for their turn.

export class App {
  #port;
  #capabilities;
  #isOpen = false;
  /** Operations without a result, by call id. */
  #active = new Map();
  /** The ends of the other operations, by call id. */
  #ended = new Map();
  #turn = Promise.resolve();

  /** `capabilities` are functions of the params, a signal, and what reports progress. */
  constructor(port, capabilities) {
    this.#port = port;
    this.#capabilities = capabilities;
    port.onmessage = (message) => this.#receive(message);
  }

  async #receive({ type, id, payload }) {
    const answer = await this.#answer(type, payload);
    if (answer) this.#send(`${type}-result`, id, answer);
  }

  #send(type, id, payload) {
    this.#port.send({ type, id, timestamp: Date.now(), payload });
  }

  #answer(type, payload) {
    const closed = { code: 'NOT_INITIALIZED', message: 'no session', retryable: false };
    switch (type) {
      case 'initialize':
        this.#isOpen = true;
        return { app: { name: 'page' }, capabilities: Object.keys(this.#capabilities) };
      case 'capabilities/call': {
        const callId = payload.options.callId;
        return this.#isOpen ? this.#call(callId, payload) : { callId, success: false, error: closed };
      }
      case 'capabilities/cancel':
        return this.#isOpen
          ? this.#cancel(payload)
          : { callId: payload.callId, cancelled: false, reason: closed.message, error: closed };
      default:
        return undefined;
    }
  }

  async #call(callId, { capability, params, options }) {
    const controller = new AbortController();
    this.#active.set(callId, controller);
    const before = this.#turn;
    let over;
    this.#turn = new Promise((resolve) => (over = resolve));
    await before;
    try {
      controller.signal.throwIfAborted();
      const progress = (value) => {
        const { progressToken } = options;
        this.#send('capabilities/progress', crypto.randomUUID(), { progressToken, value });
      };
      const data = await this.#capabilities[capability](params, controller.signal, progress);
      this.#ended.set(callId, { cancelled: false, reason: 'Operation already completed' });
      return { callId, success: true, data };
    } catch (error) {
      if (controller.signal.aborted) {
        this.#ended.set(callId, { cancelled: true });
        return { callId, success: false, cancelled: true };
      }
      const failure = { code: 'OPERATION_FAILED', message: String(error), retryable: false };
      return { callId, success: false, error: failure };
    } finally {
      this.#active.delete(callId);
      over();
    }
  }

  #cancel({ callId, reason }) {
    const controller = this.#active.get(callId);
    if (!controller) {
      const unknown = { cancelled: false, reason: 'Operation not found' };
      return { callId, ...(this.#ended.get(callId) ?? unknown) };
    }
    controller.abort(new DOMException(reason ?? 'cancelled', 'AbortError'));
    return { callId, cancelled: true };
  }
}
