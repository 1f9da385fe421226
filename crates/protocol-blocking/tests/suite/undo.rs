//! Steps undo the work of a request that failed, on each way of running a handler.
#![cfg(unix)]

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::support::{PATIENCE, Runtime, Wire, acp, cancel, notification, raw};
use protocol_blocking::single::{FdTransport, Host};
use protocol_blocking::{
    Answer, Failure, Handler, Notification, Request, Responder, Undo, UndoLimits, Undone, threaded,
};
use protocol_core::CloseReason;
use serde_json::json;

const ALL: [Runtime; 4] =
    [Runtime::Threaded(1), Runtime::Threaded(3), Runtime::Server(2), Runtime::Single];

/// A handler whose steps report when they run.
struct Undoes(Sender<String>);

impl Undoes {
    fn tell(&self, what: impl ToString) {
        // A test may have seen enough.
        let _ = self.0.send(what.to_string());
    }

    fn step(&self, name: &'static str) -> Undo {
        let tell = self.0.clone();
        Undo::new(move |_| {
            let _ = tell.send(name.to_owned());
            Ok(())
        })
    }
}

impl Handler for Undoes {
    fn request(&self, request: &Request, responder: &mut dyn Responder) -> Answer {
        responder.undo_with(self.step("one"))?;
        responder.undo_with(self.step("two"))?;
        match request.method.as_str() {
            "works" => return Ok(raw(&json!(7))),
            "waits" => {
                self.tell("waits");
                responder.sleep(PATIENCE * 100)?;
            }
            "panics" => panic!("on purpose"),
            "for ever" => responder.undo_with(Undo::new(|_| Ok(())).within(Duration::MAX))?,
            "steps panic" => {
                responder.undo_with(Undo::new(|_| panic!("on purpose")))?;
                responder.undo_with(Undo::new(|_| Err(Failure::internal("why"))))?;
            }
            "steps hang" => {
                let hang = |until: Instant| {
                    thread::sleep(until.saturating_duration_since(Instant::now()));
                    thread::sleep(Duration::from_millis(1));
                    Ok(())
                };
                responder.undo_with(Undo::new(hang).within(Duration::from_millis(1)))?;
                responder.undo_with(Undo::new(hang).within(Duration::from_millis(2)))?;
            }
            _ => {
                responder.undo_with(self.step("three"))?;
                responder.undo_with(self.step("four"))?;
                let fifth = responder.undo_with(self.step("five")).unwrap_err();
                self.tell(fifth);
                return Err(fifth.into());
            }
        }
        Err(Failure::internal("why"))
    }

    fn notification(
        &self,
        _: &Notification,
        responder: &mut dyn Responder,
    ) -> std::ops::ControlFlow<()> {
        self.tell(responder.undo_with(self.step("never")).unwrap_err());
        std::ops::ControlFlow::Continue(())
    }

    fn failed(&self, _: &Request, _: &protocol_blocking::Internal) {}

    fn undone(&self, request: &Request, undone: &Undone) {
        self.tell(format_args!("{}: {undone}", request.method));
        assert!(undone.number > 0 && undone.is_done(), "a panic here stops no step");
    }

    fn undo_limits(&self) -> UndoLimits {
        let mut limits = UndoLimits::default();
        (limits.steps, limits.time) = (4, PATIENCE);
        limits
    }
}

fn start(runtime: Runtime) -> (Wire, Receiver<String>, JoinHandle<CloseReason>) {
    let (wire, stream) = Wire::pair();
    let (tell, told) = channel();
    let handler = Undoes(tell);
    let running = thread::spawn(move || match runtime {
        Runtime::Threaded(workers) => {
            let (_, incoming) = threaded::unix(stream, acp()).unwrap();
            threaded::serve(&incoming, workers, &handler)
        }
        Runtime::Single => {
            let transport = FdTransport::new(stream.try_clone().unwrap(), stream);
            Host::new(transport, acp()).run(&handler).unwrap()
        }
        _ => {
            let server = threaded::Server::new(acp()).workers(2);
            server.unix(stream, Arc::new(handler)).unwrap().wait().reason
        }
    });
    (wire, told, running)
}

fn expect(told: &Receiver<String>, all: &[&str], what: &str) {
    let seen: Vec<String> = told.try_iter().collect();
    assert_eq!(seen, all, "{what}");
}

#[test]
fn undo_runs_the_latest_step_first_before_the_response() {
    for runtime in ALL {
        let (mut wire, told, running) = start(runtime);
        for (id, method, code, before) in [
            (1, "panics", -32603, &[][..]),
            (2, "steps panic", -32603, &["4 failed", "3 panicked"]),
            (3, "steps hang", -32603, &["4 ran out of time", "3 ran out of time"]),
            (4, "for ever", -32603, &["3 is done"]),
            (5, "waits", -32800, &[]),
        ] {
            wire.request(id, method, &json!([]));
            if method == "waits" {
                assert_eq!(told.recv_timeout(PATIENCE).unwrap(), "waits");
                wire.send([cancel(id)]);
            }
            assert_eq!(wire.receive()["error"]["code"], code, "{method} on {runtime:?}");
            let outcome = |end: &str| format!("{method}: undo step {end}");
            let mut all: Vec<String> = before.iter().map(|end| outcome(end)).collect();
            all.extend(["two".into(), outcome("2 is done"), "one".into(), outcome("1 is done")]);
            let all: Vec<&str> = all.iter().map(String::as_str).collect();
            expect(&told, &all, method);
        }
        wire.hang_up();
        assert_eq!(running.join().unwrap(), CloseReason::PeerGone);
    }
}

#[test]
fn undo_never_runs_after_a_success_and_has_a_limit() {
    for runtime in ALL {
        let (mut wire, told, running) = start(runtime);
        wire.request(1, "works", &json!([]));
        assert_eq!(wire.receive()["result"], 7);
        wire.send([notification("any", &json!([]))]);
        let refused = told.recv_timeout(PATIENCE).unwrap();
        assert_eq!(refused, "the work is over, or can't be undone", "{runtime:?}");
        wire.request(2, "many", &json!([]));
        assert_eq!(wire.receive()["error"]["code"], -32603);
        let seen: Vec<String> = told.try_iter().collect();
        assert_eq!(seen[0], "the work has too many undo steps (limits.steps)", "{runtime:?}");
        let steps = ["four", "three", "two", "one"];
        let ran: Vec<&String> = seen[1..].iter().step_by(2).collect();
        assert_eq!(ran, steps, "{runtime:?}");
        wire.hang_up();
        assert_eq!(running.join().unwrap(), CloseReason::PeerGone);
    }
}

#[test]
fn undo_runs_when_the_peer_hangs_up() {
    for runtime in ALL {
        let (mut wire, told, running) = start(runtime);
        wire.request(1, "waits", &json!([]));
        assert_eq!(told.recv_timeout(PATIENCE).unwrap(), "waits");
        wire.hang_up();
        assert_eq!(running.join().unwrap(), CloseReason::PeerGone);
        let all = ["two", "waits: undo step 2 is done", "one", "waits: undo step 1 is done"];
        expect(&told, &all, "hang-up");
    }
}
