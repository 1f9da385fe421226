//! A server with immediate methods, and the thread that responds writing by itself.
#![cfg(unix)]

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::{self, ThreadId};
use std::time::Duration;

use crate::support::{PATIENCE, Wire, acp, cancel, cancelled, notification, raw, request};
use protocol_blocking::threaded::{Options, Served, Server};
use protocol_blocking::{Answer, Handler, Notification, Request, Responder};
use protocol_core::Refusal;
use serde_json::{Value, json};

/// Reports the thread on which each request was served.
fn saying(
    tell: Sender<(String, ThreadId)>,
) -> Arc<impl Fn(&Request, &mut dyn Responder) -> Answer> {
    let tell = Mutex::new(tell);
    let say = move |what: &str| {
        // A test may have seen enough.
        let _ = tell.lock().unwrap().send((what.to_owned(), thread::current().id()));
    };
    Arc::new(move |request: &Request, responder: &mut dyn Responder| -> Answer {
        say(request.method.as_str());
        match request.method.as_str() {
            "now" | "work" => Ok(raw(&Value::Null)),
            "big" => Ok(raw(&json!("x".repeat(1 << 20)))),
            "bigger" => Ok(raw(&json!("y".repeat(1 << 20)))),
            "slow" => {
                let slept = responder.sleep(PATIENCE);
                say("woken");
                slept?;
                Ok(raw(&Value::Null))
            }
            _ => Err(request.unknown_method()),
        }
    })
}

#[test]
fn f96_the_reading_thread_serves_what_is_immediate_in_the_order_of_the_wire() {
    let (mut wire, stream) = Wire::pair();
    let (tell, told) = channel();
    let served = Server::new(acp()).immediate(["now"]).unix(stream, saying(tell)).unwrap();
    let mut threads = [vec![], vec![]];
    for id in 0..50 {
        wire.request(2 * id, "now", &json!([]));
        assert_eq!(wire.receive()["id"], 2 * id);
        wire.request(2 * id + 1, "work", &json!([]));
        assert_eq!(wire.receive()["id"], 2 * id + 1);
        for (of, method) in threads.iter_mut().zip(["now", "work"]) {
            let (told, thread) = told.recv().unwrap();
            assert_eq!(told, method);
            of.push(thread);
        }
    }
    let [now, work] = threads;
    let worker = work[0];
    assert!(work.iter().all(|thread| *thread == worker), "the reading thread does no work");
    // A worker that looks for more may come first.
    let read: Vec<_> = now.into_iter().filter(|thread| *thread != worker).collect();
    assert!(!read.is_empty() && read.iter().all(|thread| *thread == read[0]), "{read:?}");
    wire.hang_up();
    assert!(served.wait().error.is_none());
}

/// The responses fill the socket, the outbox and what waits for it, and nobody reads.
#[test]
fn g03_a_cancel_is_marked_while_responses_are_stuck() {
    for immediate in [vec!["big"], vec!["big", "slow"], vec![]] {
        let (mut wire, stream) = Wire::pair();
        let (tell, told) = channel();
        let mut options = Options::new(acp());
        options.config.limits.unsent_bytes = 4 << 20;
        let server = Server::new(options).workers(2).immediate(immediate.iter().copied());
        let served = server.unix(stream, saying(tell)).unwrap();
        wire.send((1..=12).map(|id| request(id, "big", &json!([]))));
        wire.request(13, "slow", &json!([]));
        let next = || told.recv_timeout(PATIENCE / 2).expect("no handler is held up").0;
        let mut all: Vec<String> = (0..13).map(|_| next()).collect();
        all.sort();
        assert_eq!(all.iter().filter(|method| *method == "big").count(), 12, "{all:?}");
        wire.send([cancel(13)]);
        assert_eq!(next(), "woken", "the cancel is marked before anybody reads");
        wire.request(14, "bigger", &json!([]));
        assert_eq!(next(), "bigger");
        let answers = wire.answers(14);
        for answer in &answers[..12] {
            assert_eq!(answer["result"].as_str().map(str::len), Some(1 << 20));
        }
        assert_eq!(answers[12], cancelled(13));
        assert_eq!(answers[13]["result"].as_str().map(str::len), Some(1 << 20));
        wire.hang_up();
        assert!(served.wait().error.is_none());
    }
}

/// Counts the stops of a session, and takes a while over each.
#[derive(Default)]
struct Stopped {
    begun: AtomicUsize,
    done: AtomicUsize,
}

impl Handler for Stopped {
    fn request(&self, request: &Request, _: &mut dyn Responder) -> Answer {
        match request.method.as_str() {
            // All workers are busy for a moment, and look for more at about the same time.
            "work" => (0..100).for_each(|_| thread::yield_now()),
            _ => assert_eq!(self.begun.load(Ordering::SeqCst), self.done.load(Ordering::SeqCst)),
        }
        Ok(raw(&json!(self.done.load(Ordering::SeqCst))))
    }

    fn notification(&self, _: &Notification, _: &mut dyn Responder) -> ControlFlow<()> {
        self.begun.fetch_add(1, Ordering::SeqCst);
        (0..100).for_each(|_| thread::yield_now());
        self.done.fetch_add(1, Ordering::SeqCst);
        ControlFlow::Continue(())
    }
}

/// A prompt after a stop would otherwise begin before the stop is handled, and be stopped by it.
#[test]
fn g03_nothing_later_begins_before_what_is_immediate_was_handled() {
    let (mut wire, stream) = Wire::pair();
    let handler = Arc::new(Stopped::default());
    let server = Server::new(acp()).workers(4).immediate(["stop"]);
    let served = server.unix(stream, handler.clone()).unwrap();
    let mut last = 0;
    for turn in 1..=200 {
        let stop = notification("stop", &json!([]));
        let work = (1..=4).map(|id| request(last + id, "work", &json!([])));
        let prompts = (5..=6).map(|id| request(last + id, "prompt", &json!([])));
        wire.send(work.chain([stop]).chain(prompts));
        last += 6;
        let responses = wire.answers(6);
        for prompt in &responses[4..] {
            assert_eq!(prompt["result"], turn, "{prompt}");
        }
    }
    wire.hang_up();
    assert!(served.wait().error.is_none());
}

#[test]
fn g03_what_is_immediate_is_served_while_an_immediate_handler_of_the_only_worker_waits() {
    let (mut wire, stream) = Wire::pair();
    let (tell, told) = channel();
    let tell = Mutex::new(tell);
    let handler = move |request: &Request, responder: &mut dyn Responder| -> Answer {
        if request.method == "first" {
            tell.lock().unwrap().send(()).unwrap();
            // The second request arrives meanwhile.
            thread::sleep(Duration::from_millis(50));
            responder.sleep(PATIENCE)?;
        }
        Ok(raw(&Value::Null))
    };
    let server = Server::new(acp()).immediate(["first", "second"]);
    let served = server.unix(stream, Arc::new(handler)).unwrap();
    // The worker takes the first one as it looks for more, or a thread that is begun for it.
    wire.send([request(1, "work", &json!([])), request(2, "first", &json!([]))]);
    assert_eq!(wire.receive()["id"], 1);
    told.recv().unwrap();
    wire.request(3, "second", &json!([]));
    assert_eq!(wire.receive()["id"], 3);
    wire.send([cancel(2)]);
    assert_eq!(wire.receive(), cancelled(2));
    wire.hang_up();
    assert!(served.wait().error.is_none());
}

/// Every request but `short` waits until an immediate one behind it was served. The thread that reads has left them all.
#[test]
fn what_is_immediate_is_served_while_every_worker_waits_for_it() {
    let cases: [(usize, &[&str]); 4] = [
        (1, &["work", "now"]),
        (2, &["work", "work", "now", "now"]),
        (1, &["short", "waits", "now", "now"]),
        (1, &["takes", "note", "now"]),
    ];
    for (workers, methods) in cases {
        let (mut wire, stream) = Wire::pair();
        let (tell, told) = channel();
        let (tell, told) = (Mutex::new(tell), Mutex::new(told));
        let handler = move |request: &Request, responder: &mut dyn Responder| -> Answer {
            match request.method.as_str() {
                "now" => tell.lock().unwrap().send(()).unwrap(),
                "short" => {}
                method => {
                    // Here it lets others be served.
                    if method == "waits" {
                        responder.checkpoint()?;
                    }
                    while method == "takes" && responder.take_notification("note").is_none() {
                        thread::yield_now();
                    }
                    told.lock().unwrap().recv_timeout(PATIENCE / 2).expect("it is served");
                }
            }
            Ok(raw(&json!("done")))
        };
        let server = Server::new(acp()).workers(workers).immediate(["now", "waits"]);
        // Again and again, so that a thread is needed while the one before it comes or goes.
        let methods = methods.repeat(100);
        let served = server.unix(stream, Arc::new(handler)).unwrap();
        wire.send(methods.iter().zip(1..).map(|(method, id)| match *method {
            "note" => notification(method, &json!([])),
            method => request(id, method, &json!([])),
        }));
        for _ in methods.iter().filter(|method| **method != "note") {
            assert_eq!(wire.receive()["result"], "done", "{methods:?}");
        }
        wire.hang_up();
        assert!(served.wait().error.is_none());
    }
}

/// Messages that many threads write at once are whole, and all of them come.
#[test]
fn f96_messages_of_many_writers_stay_whole() {
    let (mut wire, stream) = Wire::pair();
    let (tell, told) = channel();
    let server = Server::new(acp()).workers(4).immediate(["now"]);
    let served = server.unix(stream, saying(tell)).unwrap();
    let peer = served.peer().clone();
    let notifier = thread::spawn(move || {
        let text = raw(&json!(["z".repeat(3_000)]));
        let mut sent = 0;
        while sent < 2_000 {
            match peer.try_notify_raw("note", Some(&text)) {
                Ok(()) => sent += 1,
                Err(_) => thread::yield_now(),
            }
        }
    });
    for id in 0..500 {
        wire.request(id, if id % 2 == 0 { "now" } else { "work" }, &json!([]));
    }
    let (mut notes, mut answers) = (0, 0);
    while (notes, answers) != (2_000, 500) {
        let message = wire.receive();
        if message["method"] == "note" { notes += 1 } else { answers += 1 }
    }
    notifier.join().unwrap();
    drop(told);
    wire.hang_up();
    assert!(served.wait().error.is_none());
}

/// Returns a server of `handler` with a small outbox. Its reading thread serves `flood`, or a worker does.
fn flooding(
    is_immediate: bool,
    handler: impl Fn(&Request, &mut dyn Responder) -> Answer + Send + Sync + 'static,
) -> (Wire, Served) {
    let (mut wire, stream) = Wire::pair();
    let mut config = acp();
    config.limits.unsent_bytes = 200_000;
    let server = Server::new(config).immediate(is_immediate.then_some("flood"));
    let served = server.unix(stream, Arc::new(handler)).unwrap();
    wire.request(1, "flood", &json!([]));
    (wire, served)
}

#[test]
fn g08_a_handler_waits_for_a_slow_reader() {
    for is_immediate in [false, true] {
        let (mut wire, served) = flooding(is_immediate, |_, responder| {
            let text = raw(&json!(["x".repeat(100_000)]));
            for _ in 0..50 {
                responder.notify_raw("text", Some(&text))?;
            }
            Ok(raw(&json!("done")))
        });
        for _ in 0..50 {
            assert_eq!(wire.receive()["method"], "text", "immediate: {is_immediate}");
        }
        assert_eq!(wire.receive()["result"], "done");
        wire.hang_up();
        assert!(served.wait().error.is_none());
    }
}

#[test]
fn g03_a_cancel_ends_the_wait_for_room() {
    for is_immediate in [false, true] {
        let (tell, told) = channel();
        let tell = Mutex::new(tell);
        let (mut wire, served) = flooding(is_immediate, move |_, responder| {
            let text = raw(&json!(["x".repeat(100_000)]));
            tell.lock().unwrap().send(None).unwrap();
            loop {
                if let Err(refusal) = responder.notify_raw("text", Some(&text)) {
                    tell.lock().unwrap().send(Some(refusal)).unwrap();
                    return Err(refusal.into());
                }
            }
        });
        let next = || told.recv_timeout(PATIENCE).unwrap();
        assert_eq!(next(), None, "it has begun");
        wire.send([cancel(1)]);
        assert_eq!(next(), Some(Refusal::Withheld), "immediate: {is_immediate}");
        let response = std::iter::from_fn(|| wire.next()).find(|message| message["id"] == 1);
        assert_eq!(response, Some(cancelled(1)));
        wire.hang_up();
        assert!(served.wait().error.is_none());
    }
}

/// The client closes its end while the thread that responded is still in its write.
#[test]
fn g07_a_client_that_goes_with_its_last_response_is_no_error() {
    for _ in 0..1_000 {
        let (mut wire, stream) = Wire::pair();
        let (tell, _told) = channel();
        let served = Server::new(acp()).unix(stream, saying(tell)).unwrap();
        wire.request(1, "work", &json!([]));
        assert_eq!(wire.receive()["id"], 1);
        drop(wire);
        let closed = served.wait();
        assert!(closed.error.is_none(), "{closed:?}");
    }
}
