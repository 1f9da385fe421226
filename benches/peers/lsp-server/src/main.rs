//! `lsp-server`, both ends in one thread: its framing on buffers and its `ReqQueue`, without its
//! threads and channels. The nearest relative of a core without I/O.

use bench_harness::{Cancelling, Hanging, Held, Laps, Payload, Size, Subject, heap, measure};
use lsp_server::{Message, Notification, ReqQueue, RequestId, Response};
use serde::{Deserialize, Serialize};

/// Requests that are sent before the other side has its turn, where there is a choice.
const TURN: usize = 64;

#[derive(Deserialize, Serialize)]
struct CancelParams {
    id: RequestId,
}

#[derive(Default)]
struct Caller {
    queue: ReqQueue<(), ()>,
    output: Vec<u8>,
}

impl Caller {
    fn call(&mut self, method: &str, payload: Payload) -> RequestId {
        let request = self.queue.outgoing.register(method.to_owned(), payload, ());
        let id = request.id.clone();
        Message::from(request).write(&mut self.output).expect("it is memory");
        id
    }

    fn cancel(&mut self, id: RequestId) {
        let cancel = Notification::new("$/cancelRequest".into(), CancelParams { id });
        Message::from(cancel).write(&mut self.output).expect("it is memory");
    }

    fn read(&mut self, mut input: &[u8], mut settled: impl FnMut(Response)) {
        while let Some(message) = Message::read(&mut input).expect("both ends are ours") {
            let Message::Response(response) = message else { panic!("only responses") };
            self.queue.outgoing.complete(response.id.clone()).expect("it is in flight");
            settled(response);
        }
    }
}

#[derive(Default)]
struct Callee {
    /// The requests. One that hangs holds its [`Hanging`].
    queue: ReqQueue<Option<Hanging>, ()>,
    output: Vec<u8>,
}

impl Callee {
    fn serve(&mut self, mut input: &[u8]) {
        while let Some(message) = Message::read(&mut input).expect("both ends are ours") {
            if let Some(answer) = self.handle(message) {
                Message::from(answer).write(&mut self.output).expect("it is memory");
            }
        }
    }

    fn handle(&mut self, message: Message) -> Option<Response> {
        let incoming = &mut self.queue.incoming;
        match message {
            Message::Request(request) if request.method == "bench/echo" => {
                incoming.register(request.id.clone(), None);
                let (id, payload) = request.extract::<Payload>("bench/echo").expect("a payload");
                incoming.complete(&id);
                Some(Response::new_ok(id, payload))
            }
            Message::Request(request) => {
                incoming.register(request.id, Some(Hanging::new()));
                None
            }
            Message::Notification(notification) => {
                let params: CancelParams =
                    notification.extract("$/cancelRequest").expect("a cancel");
                incoming.cancel(params.id)
            }
            Message::Response(_) => panic!("it calls nobody"),
        }
    }
}

#[derive(Default)]
struct LspServer {
    caller: Caller,
    callee: Callee,
}

impl LspServer {
    /// Every message that waits reaches the other side.
    fn turn(&mut self, settled: impl FnMut(Response)) {
        self.callee.serve(&self.caller.output);
        self.caller.output.clear();
        self.caller.read(&self.callee.output, settled);
        self.callee.output.clear();
    }
}

impl Subject for LspServer {
    const NAME: &'static str = "lsp-server 0.10.0 (framing only)";
    const CANCELLING: Cancelling = Cancelling::Answered;

    fn join(_limit: usize) -> Self {
        Self::default()
    }

    fn echo(&mut self, width: usize, total: usize, payload: &Payload) {
        for _ in 0..total / width {
            for _ in 0..width {
                self.caller.call("bench/echo", payload.clone());
            }
            let mut settled = 0;
            self.turn(|response| {
                let result = response.response_result.expect("an echo");
                let echoed: Payload = serde_json::from_value(result).expect("a payload");
                assert!(echoed == *payload, "what comes back is what was sent");
                settled += 1;
            });
            assert_eq!(settled, width);
        }
    }

    fn cancel(&mut self, width: usize, laps: &mut Laps) {
        let mut calls = Vec::with_capacity(width);
        while laps.begin() {
            let ended = Hanging::ended();
            for _ in 0..width {
                calls.push(self.caller.call("bench/hang", Size::Small.payload()));
            }
            self.turn(|_| panic!("nothing is answered yet"));
            laps.all_run();
            for call in calls.drain(..) {
                self.caller.cancel(call);
            }
            let mut settled = 0;
            self.turn(|response| {
                assert!(response.response_result.is_err_and(|error| error.code == -32800));
                settled += 1;
            });
            laps.end();
            assert_eq!((settled, Hanging::ended() - ended), (width, width));
        }
    }

    fn hold(count: usize) -> Held {
        let (mut caller, mut callee) = (0, 0);
        heap::set_counting(true);
        let mut both = Self::default();
        let mut calls = heap::adding_to(&mut caller, || Vec::with_capacity(count));
        for begun in (0..count).step_by(TURN) {
            heap::adding_to(&mut caller, || {
                for _ in begun..count.min(begun + TURN) {
                    calls.push(both.caller.call("bench/hang", Size::Small.payload()));
                }
            });
            heap::adding_to(&mut callee, || both.callee.serve(&both.caller.output));
            both.caller.output.clear();
        }
        heap::set_counting(false);
        assert_eq!(Hanging::begun(), count);
        std::mem::forget((both, calls));
        Held { caller, callee, handle: size_of::<RequestId>() }
    }
}

fn main() {
    measure::<LspServer>(0);
}
