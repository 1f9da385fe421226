//! The tests, run on each runtime; see `spans.rs`.

use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::{join, select};
use protocol_async::{Failure, Incoming, Options, Peer, RpcError};
use protocol_core::{CallOptions, Config, Dialect};
use serde_json::{Value, json};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Subscriber};
use tracing_subscriber::layer::{Context, Layer};

use super::{Router, Shared, open, run};
use crate::far::Far;
use crate::pipe::{ENDLESS, pipe};
use crate::recorder::{record, record_all, record_with};

/// Runs a test, and beside it the work that it needs.
async fn beside(test: impl Future<Output = ()>, other: impl Future) {
    let other = async {
        other.await;
        std::future::pending::<()>().await;
    };
    select(Box::pin(test), Box::pin(other)).await;
}

/// A test with both ends of a connection.
fn with_pair(dialect: Dialect, test: impl AsyncFnOnce((Peer, Incoming), (Peer, Incoming))) {
    let (near_reader, far_writer) = pipe(4 << 10);
    let (far_reader, near_writer) = pipe(4 << 10);
    let (client, server) = (Config::client(dialect.clone()), Config::server(dialect));
    let (near, near_incoming, near_driver) = open(near_reader, near_writer, client.into());
    let (far, far_incoming, far_driver) = open(far_reader, far_writer, server.into());
    let drivers = join(near_driver, far_driver);
    run(beside(test((near, near_incoming), (far, far_incoming)), drivers));
}

/// A test whose far end is played by hand.
fn with_far(options: Options, capacity: usize, test: impl AsyncFnOnce(Peer, Incoming, Far)) {
    let (far_reader, writer) = pipe(capacity);
    let (reader, far_writer) = pipe(ENDLESS);
    let (peer, incoming, driver) = open(reader, writer, options);
    run(beside(test(peer, incoming, Far::new(far_reader, far_writer)), driver));
}

fn acp() -> Options {
    Config::client(Dialect::ACP_V1).into()
}

#[test]
fn a_round_trip_is_a_call_and_a_request() {
    let seen = record();
    with_pair(Dialect::ACP_V1, async |(peer, _), (_, incoming)| {
        let offset = Shared::new(0);
        let router = Router::new().request("add", async move |(a, b): (i64, i64), _| {
            tracing::info!("the host's own");
            Ok(a + b + *offset)
        });
        let call = async {
            assert_eq!(peer.call::<i64>("add", (1, 2)).await.unwrap(), 3);
            seen.expect(&[
                "call add begins:",
                "call add has jsonrpc.request.id=1",
                "request add begins: jsonrpc.request.id=\"1\"",
                "INFO the host's own in request add",
                "DEBUG answered outcome=\"result\" duration=0.0 in request add",
                "request add ends",
                "DEBUG settled outcome=\"result\" duration=0.0 in call add",
                "call add ends",
            ]);
        };
        beside(call, router.serve(&incoming)).await;
    });
    assert_eq!(seen.lines(), ["DEBUG closed reason=\"shutdown\""; 2]);
}

#[test]
fn an_error_is_its_code_and_nothing_else() {
    let seen = record();
    with_pair(Dialect::ACP_V1, async |(peer, _), (_, incoming)| {
        let router = Router::new()
            .request("fail", async |(): (), _| Err::<(), _>(RpcError::new(-7, "hunter2").into()));
        let call = async {
            peer.call::<()>("fail", ()).await.unwrap_err();
            seen.expect(&[
                "call fail begins:",
                "call fail has jsonrpc.request.id=1",
                "request fail begins: jsonrpc.request.id=\"1\"",
                "request fail has rpc.response.status_code=\"-7\"",
                "request fail has error.type=\"-7\"",
                "request fail has otel.status_code=\"ERROR\"",
                "DEBUG answered outcome=\"error\" code=-7 duration=0.0 in request fail",
                "request fail ends",
                "call fail has rpc.response.status_code=\"-7\"",
                "call fail has error.type=\"-7\"",
                "call fail has otel.status_code=\"ERROR\"",
                "DEBUG settled outcome=\"error\" code=-7 duration=0.0 in call fail",
                "call fail ends",
            ]);
        };
        beside(call, router.serve(&incoming)).await;
    });
}

#[test]
fn a_cancel_is_seen_on_both_sides() {
    let seen = record();
    with_pair(Dialect::ACP_V1, async |(peer, _), (_, incoming)| {
        let router = Router::new().request("slow", async |(): (), cx| {
            let cause = cx.cancellation().cancelled().await;
            tracing::info!(%cause, "stopping");
            Err::<(), _>(Failure::Cancelled)
        });
        let call = async {
            let sent = peer.call::<()>("slow", ());
            peer.flushed().await;
            sent.cancel();
            // No second one.
            sent.cancellation_handle().cancel();
            sent.await.unwrap_err();
            seen.expect(&[
                "call slow begins:",
                "call slow has jsonrpc.request.id=1",
                "DEBUG cancelled cause=\"caller\" in call slow",
                "request slow begins: jsonrpc.request.id=\"1\"",
                "DEBUG cancelled cause=\"peer\" in request slow",
                "INFO stopping cause=peer in request slow",
                "request slow has error.type=\"cancelled\"",
                "request slow has otel.status_code=\"ERROR\"",
                "DEBUG answered outcome=\"cancelled\" duration=0.0 in request slow",
                "request slow ends",
                "call slow has rpc.response.status_code=\"-32800\"",
                "call slow has error.type=\"-32800\"",
                "call slow has otel.status_code=\"ERROR\"",
                "DEBUG settled outcome=\"cancelled\" cause=\"caller\" code=-32800 duration=0.0 in call slow",
                "call slow ends",
            ]);
        };
        beside(call, router.serve(&incoming)).await;
    });
}

#[test]
fn a_call_that_is_withdrawn_was_cancelled_first() {
    let seen = record();
    with_far(acp(), ENDLESS, async |peer, _incoming, _far| {
        drop(peer.call::<()>("slow", ()));
        let prepared = peer.prepare::<()>("later", (), CallOptions::default());
        let handle = prepared.cancellation_handle();
        let sent = prepared.publish();
        handle.cancel();
        drop(sent);
        seen.expect(&[
            "call slow begins:",
            "call slow has jsonrpc.request.id=1",
            "DEBUG cancelled cause=\"dropped\" in call slow",
            "call slow has error.type=\"dropped\"",
            "call slow has otel.status_code=\"ERROR\"",
            "DEBUG settled outcome=\"cancelled\" cause=\"dropped\" duration=0.0 in call slow",
            "call slow ends",
            "call later begins:",
            "call later has jsonrpc.request.id=2",
            "DEBUG cancelled cause=\"caller\" in call later",
            "call later has error.type=\"caller\"",
            "call later has otel.status_code=\"ERROR\"",
            "DEBUG settled outcome=\"cancelled\" cause=\"caller\" duration=0.0 in call later",
            "call later ends",
        ]);
    });
}

#[test]
fn a_nested_call_is_inside_its_request() {
    let seen = record();
    with_pair(Dialect::ACP_V1, async |(peer, near), (far, incoming)| {
        let asked = Router::new().request("ask", async |(): (), _| Ok(true));
        let router = Router::new()
            .request("outer", async |(): (), cx| Ok(cx.call::<bool>("ask", ()).await?));
        let call = async {
            assert!(peer.call::<bool>("outer", ()).await.unwrap());
            seen.expect(&[
                "call outer begins:",
                "call outer has jsonrpc.request.id=1",
                "request outer begins: jsonrpc.request.id=\"1\"",
                "call ask begins in request outer:",
                "call ask has jsonrpc.request.id=1",
                "request ask begins: jsonrpc.request.id=\"1\"",
                "DEBUG answered outcome=\"result\" duration=0.0 in request ask",
                "request ask ends",
                "DEBUG settled outcome=\"result\" duration=0.0 in call ask",
                "call ask ends",
                "DEBUG answered outcome=\"result\" duration=0.0 in request outer",
                "request outer ends",
                "DEBUG settled outcome=\"result\" duration=0.0 in call outer",
                "call outer ends",
            ]);
        };
        beside(beside(call, router.serve(&incoming)), asked.serve(&near)).await;
        drop(far);
    });
}

/// Made elsewhere, such as in a task of its own, it is inside the request that is its parent.
#[test]
fn a_call_on_behalf_of_a_request_is_inside_it_wherever_it_is_made() {
    let seen = record();
    with_far(acp(), ENDLESS, async |peer, incoming, mut far| {
        far.send(&[r#"{"jsonrpc":"2.0","id":"a-1","method":"outer"}"#]).await;
        let Ok(protocol_async::Arrival::Request(_, responder)) = incoming.receive().await else {
            panic!("no request");
        };
        let options = CallOptions::default().parent(responder.handle());
        let elsewhere = tracing::info_span!(target: "host", "elsewhere");
        elsewhere.in_scope(|| {
            peer.call_with::<()>("ask", (), options).detach();
            peer.call::<()>("other", ()).detach();
        });
        responder.in_span(|| tracing::info!("the host's own"));
        seen.expect(&[
            "request outer begins: jsonrpc.request.id=\"a-1\"",
            "elsewhere  begins:",
            "call ask begins in request outer:",
            "call ask has jsonrpc.request.id=1",
            "call other begins in elsewhere :",
            "call other has jsonrpc.request.id=2",
            "INFO the host's own in request outer",
        ]);
        drop(responder);
    });
}

#[test]
fn late_duplicate_and_stray_responses_are_told_apart() {
    let seen = record();
    with_far(acp(), ENDLESS, async |peer, incoming, mut far| {
        let options = CallOptions::default().timeout(Duration::from_secs(9));
        peer.call_with::<()>("slow", (), options).await.unwrap_err();
        seen.expect(&[
            "call slow begins:",
            "call slow has jsonrpc.request.id=1",
            "call slow has error.type=\"deadline\"",
            "call slow has otel.status_code=\"ERROR\"",
            "DEBUG settled outcome=\"timed_out\" cause=\"deadline\" duration=9.0 in call slow",
            "call slow ends",
        ]);
        let answer = |id| format!(r#"{{"jsonrpc":"2.0","id":{id},"result":"hunter2"}}"#);
        far.send(&[&answer("1"), &answer("1"), &answer("99"), &answer("\"hunter2\"")]).await;
        // The late one is no arrival.
        for _ in 0..3 {
            incoming.receive().await.unwrap();
        }
        seen.expect(&[
            "DEBUG violation violation=\"late_response\" jsonrpc.request.id=\"1\"",
            "WARN violation violation=\"duplicate_response\" jsonrpc.request.id=\"1\"",
            "WARN violation violation=\"unknown_response\" jsonrpc.request.id=\"99\"",
            "WARN violation violation=\"unknown_response\"",
        ]);
    });
}

#[test]
fn violations_and_what_was_missed_are_events() {
    let seen = record();
    let mut options = acp();
    options.inbox_bytes = 300;
    with_far(options, ENDLESS, async |_peer, incoming, mut far| {
        far.send(&["hunter2"]).await;
        far.send(&[r#"{"jsonrpc":"2.0","method":"n"}"#; 9]).await;
        while !matches!(
            incoming.receive().await,
            Ok(protocol_async::Arrival::Missed { count: 1.. })
        ) {}
        let seen = seen.lines();
        let [violation, missed] = &*seen else { panic!("{seen:?}") };
        assert_eq!(violation, "WARN violation violation=\"parse\"");
        assert!(missed.starts_with("WARN missed count="), "{missed}");
    });
}

#[test]
fn room_that_is_gone_and_there_again_are_events() {
    let seen = record();
    let mut options = acp();
    options.config.limits.unsent_messages = 1;
    with_far(options, 10, async |peer, _incoming, mut far| {
        while peer.try_notify("n", ()).is_ok() {}
        peer.try_notify("n", ()).unwrap_err();
        seen.expect(&["DEBUG no room"]);
        far.read().await;
        peer.ready().await;
        seen.expect(&["DEBUG room"]);
        peer.call::<()>("m", [(); 0]).detach();
        while peer.try_notify("n", ()).is_ok() {}
        seen.lines();
        assert!(peer.call::<()>("full", ()).await.is_err());
        seen.expect(&[
            "call full begins:",
            "call full has error.type=\"refused\"",
            "call full has otel.status_code=\"ERROR\"",
            "DEBUG refused reason=\"outbox_full\" in call full",
            "call full ends",
        ]);
    });
}

#[test]
fn the_end_of_a_connection_settles_what_is_in_flight() {
    let seen = record();
    with_far(acp(), ENDLESS, async |peer, _incoming, mut far| {
        let sent = peer.call::<()>("slow", ());
        peer.flushed().await;
        far.close();
        sent.await.unwrap_err();
        seen.expect(&[
            "call slow begins:",
            "call slow has jsonrpc.request.id=1",
            "call slow has error.type=\"peer_gone\"",
            "call slow has otel.status_code=\"ERROR\"",
            "DEBUG settled outcome=\"connection_lost\" cause=\"peer_gone\" duration=0.0 in call slow",
            "call slow ends",
            "DEBUG closed reason=\"peer_gone\"",
        ]);
    });
}

/// Trouble is reported inside the span, so a host's own log of it shows the message it belongs to. The work beside a
/// handler and the effects of a notification are inside it too.
#[test]
fn everything_done_for_a_message_is_inside_its_span() {
    let seen = record();
    with_far(acp(), ENDLESS, async |_peer, incoming, mut far| {
        let router = Router::new()
            .on_trouble(|trouble| tracing::warn!("{trouble}"))
            .before(|_| {
                tracing::info!("layer");
                Ok(())
            })
            .notification("told", async |(): (), _| {
                tracing::info!("handler");
                Ok(())
            })
            .request("ask", async |(): (), cx| {
                cx.spawn(async {
                    tracing::info!("beside");
                    Ok(())
                });
                Ok(())
            });
        far.send(&[
            r#"{"jsonrpc":"2.0","method":"told"}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"unknown"}"#,
            r#"{"jsonrpc":"2.0","id":2,"method":"ask"}"#,
        ])
        .await;
        let answers = async {
            far.line().await;
            far.line().await;
        };
        beside(answers, router.serve(&incoming)).await;
    });
    seen.expect(&[
        "request told begins:",
        "INFO handler in request told",
        "request told ends",
        "request unknown begins: jsonrpc.request.id=\"1\"",
        "INFO layer in request unknown",
        "WARN nobody serves the request \"unknown\" in request unknown",
        "request unknown has rpc.response.status_code=\"-32601\"",
        "request unknown has error.type=\"-32601\"",
        "request unknown has otel.status_code=\"ERROR\"",
        "DEBUG answered outcome=\"error\" code=-32601 duration=0.0 in request unknown",
        "request unknown ends",
        "request ask begins: jsonrpc.request.id=\"2\"",
        "INFO layer in request ask",
        "DEBUG answered outcome=\"result\" duration=0.0 in request ask",
        "INFO beside in request ask",
        "request ask ends",
        "DEBUG closed reason=\"shutdown\"",
    ]);
}

/// The names of OpenTelemetry's conventions for RPC, and for MCP where that is spoken.
#[test]
fn names_are_those_of_opentelemetry() {
    let fields = |dialect: Dialect| {
        let seen = record_all();
        with_far(Config::client(dialect).into(), ENDLESS, async |peer, incoming, mut far| {
            peer.call::<()>("tools/call", ()).detach();
            let request = r#"{"jsonrpc":"2.0","id":7,"method":"roots/list"}"#;
            far.send(&[request]).await;
            incoming.receive().await.unwrap();
        });
        let begun = |name: &str| {
            let lines = seen.lines.lock().unwrap().clone();
            lines.into_iter().find(|line| line.starts_with(name)).unwrap()
        };
        (begun("call"), begun("request"))
    };
    let (call, request) = fields(Dialect::MCP_2025_11_25);
    assert_eq!(
        call,
        "call tools/call begins: otel.name=\"tools/call\" otel.kind=\"client\" \
         rpc.system.name=\"jsonrpc\" mcp.method.name=\"tools/call\" jsonrpc.protocol.version=\"2.0\""
    );
    assert_eq!(
        request,
        "request roots/list begins: otel.name=\"roots/list\" otel.kind=\"server\" \
         rpc.system.name=\"jsonrpc\" mcp.method.name=\"roots/list\" jsonrpc.protocol.version=\"2.0\" \
         jsonrpc.request.id=\"7\""
    );
    let (call, _) = fields(Dialect::ACP_V1);
    assert!(!call.contains("mcp"), "{call}");
}

/// A long name of a method is the peer's to choose, and a long id too.
#[test]
fn g08_what_the_peer_chose_is_cut() {
    let seen = record();
    with_far(acp(), ENDLESS, async |_peer, incoming, mut far| {
        let (id, method) = ("x".repeat(200), "x".repeat(900));
        far.send(&[&format!(r#"{{"jsonrpc":"2.0","id":"{id}","method":"{method}"}}"#)]).await;
        incoming.receive().await.unwrap();
        let seen = seen.lines().remove(0);
        let cut = "x".repeat(128);
        assert_eq!(seen, format!("request {cut} begins: jsonrpc.request.id=\"{cut}\""));
    });
}

/// Every place that can hold a secret is tried. These are params, results, error messages and their data, reasons of
/// cancels, and progress. A handler's failure and panic, and input that is no message at all, are tried too.
#[test]
fn f37_nothing_of_params_results_or_messages_is_ever_told() {
    const SECRET: &str = "hunter2";
    let seen = record_all();
    with_pair(Dialect::MCP_2025_11_25, async |(peer, near), (far, incoming)| {
        let echo =
            Router::new().on_trouble(|_| {}).request("echo", async |text: Value, _| Ok(text));
        let router = Router::new()
            .on_trouble(|_| {})
            .request("echo", async |text: Value, cx| {
                cx.progress(json!({"progress": 1, "message": SECRET})).await?;
                let echo: Value = cx.call("echo", text).await?;
                cx.notify("told", &echo).await?;
                Ok(echo)
            })
            .request("fail", async |(text,): (String,), _| {
                Err::<(), _>(RpcError { data: None, ..RpcError::new(-1, text) }.into())
            })
            .request("internal", async |(text,): (String,), _| {
                Err::<(), _>(Failure::internal(text))
            })
            .request("misfit", async |_: u8, _| Ok(()))
            .request("panic", async |(text,): (String,), _| -> Result<(), _> { panic!("{text}") })
            .request("slow", async |_: Value, cx| {
                cx.cancellation().cancelled().await;
                Ok(SECRET.to_owned())
            })
            .notification("told", async |_: u8, _| Ok(()));
        let calls = async {
            let params = json!({"text": SECRET, "_meta": {"progressToken": SECRET}});
            peer.call::<Value>("echo", params).await.unwrap();
            for method in ["fail", "internal", "misfit", "panic", "unknown"] {
                peer.call::<Value>(method, [SECRET]).await.unwrap_err();
            }
            // The result is not of this type.
            peer.call::<u8>("echo", [SECRET]).await.unwrap_err();
            let slow = peer.call::<Value>("slow", [SECRET]);
            peer.flushed().await;
            slow.cancel_with_reason(SECRET);
            slow.await.unwrap_err();
            let mut options = CallOptions::default();
            options.timeout = Some(Duration::from_secs(1));
            peer.call_with::<Value>("slow", [SECRET], options).await.unwrap_err();
            peer.notify("told", [SECRET]).await.unwrap();
            peer.flushed().await;
        };
        beside(beside(calls, router.serve(&incoming)), echo.serve(&near)).await;
        drop(far);
    });
    let with_hand = async |_peer: Peer, incoming: Incoming, mut far: Far| {
        far.send(&[
            SECRET,
            r#"{"jsonrpc":"2.0","id":"hunter2","result":"hunter2"}"#,
            r#"{"jsonrpc":"2.0","id":"hunter2","params":"hunter2"}"#,
            r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"hunter2"}}"#,
            r#"{"hunter2":"hunter2"}"#,
        ])
        .await;
        for _ in 0..4 {
            incoming.receive().await.unwrap();
        }
    };
    with_far(Config::client(Dialect::MCP_2025_11_25).into(), ENDLESS, with_hand);
    let seen = seen.lines();
    assert!(seen.len() > 60 && !seen.iter().any(|line| line.contains(SECRET)), "{seen:#?}");
}

/// The token is a secret: any peer that shows the token of an operation can cancel it.
#[test]
fn f10_the_token_of_an_operation_is_never_told() {
    let seen = record_all();
    let mut token = String::new();
    let server = Config::server(Dialect::ERLMCP).into();
    with_far(server, ENDLESS, async |_peer, incoming, mut far| {
        let request = r#"{"jsonrpc":"2.0","id":1,"method":"tool/call","params":{"name":"x"}}"#;
        far.send(&[request]).await;
        let begun: Value = serde_json::from_str(&far.line().await.unwrap()).unwrap();
        token = begun["result"]["cancellationToken"].as_str().unwrap().to_owned();
        let Ok(protocol_async::Arrival::Request(_, responder)) = incoming.receive().await else {
            panic!("no request");
        };
        let cancel = |id: &str| {
            let params = json!({"cancellationToken": token});
            format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"cancel","params":{params}}}"#)
        };
        let as_id = format!("\"{token}\"");
        let answer = format!(r#"{{"jsonrpc":"2.0","id":{as_id},"result":1}}"#);
        far.send(&[&cancel("2"), &cancel("3"), &cancel(&as_id), &answer]).await;
        responder.cancellation().cancelled().await;
        incoming.receive().await.unwrap();
        drop(responder);
    });
    let seen = seen.lines();
    assert!(seen.iter().any(|line| line.contains("cancelled cause=\"peer\"")), "{seen:#?}");
    assert!(!seen.iter().any(|line| line.contains(&token)), "{token}: {seen:#?}");
}

/// A server may well send its log to its client, so a subscriber may use any handle at any event.
#[test]
fn a_subscriber_may_use_the_connection_that_it_is_told_of() {
    let peer: Arc<Mutex<Option<Peer>>> = Arc::default();
    let seen = record_with(Sends { peer: peer.clone(), is_busy: AtomicBool::new(false) });
    let mut options = acp();
    options.config.limits.unsent_messages = 20;
    with_far(options, 64, async |near, incoming, mut far| {
        *peer.lock().unwrap() = Some(near.clone());
        far.send(&["oops", r#"{"jsonrpc":"2.0","id":1,"method":"ask"}"#]).await;
        incoming.receive().await.unwrap();
        let Ok(protocol_async::Arrival::Request(_, responder)) = incoming.receive().await else {
            panic!("no request");
        };
        let options = CallOptions::default().parent(responder.handle());
        drop(near.call_with::<()>("ask", (), options));
        responder.respond_with_failure(Failure::Cancelled);
        while near.try_notify("n", ()).is_ok() {}
        beside(near.ready(), async { while far.read().await {} }).await;
        far.close();
        near.closed().await;
        *peer.lock().unwrap() = None;
    });
    let seen = seen.lines().join("\n");
    for told in ["violation", "no room", "DEBUG room", "answered", "settled", "closed"] {
        assert!(seen.contains(told), "{told}: {seen}");
    }
}

/// A layer that sends the peer a notification at every span and event.
struct Sends {
    peer: Arc<Mutex<Option<Peer>>>,
    /// Set while a notification is sent: the layer is called for its effects too.
    is_busy: AtomicBool,
}

impl Sends {
    fn send(&self) {
        if self.is_busy.swap(true, SeqCst) {
            return;
        }
        let peer = self.peer.lock().unwrap().clone();
        if let Some(peer) = peer {
            let _ = peer.try_notify("log", ());
        }
        self.is_busy.store(false, SeqCst);
    }
}

impl<S: Subscriber> Layer<S> for Sends {
    fn on_new_span(&self, _: &Attributes<'_>, _: &Id, _: Context<'_, S>) {
        self.send();
    }

    fn on_record(&self, _: &Id, _: &Record<'_>, _: Context<'_, S>) {
        self.send();
    }

    fn on_event(&self, _: &Event<'_>, _: Context<'_, S>) {
        self.send();
    }

    fn on_close(&self, _: Id, _: Context<'_, S>) {
        self.send();
    }
}
