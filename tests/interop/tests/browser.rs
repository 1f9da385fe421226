//! A page in headless Chromium as an ABP agent, over its own WebSocket and over postMessage, and as
//! an ABP app.

use std::process::Stdio;
use std::time::Duration;

use futures_util::StreamExt;
use protocol_async::{Arrival, CallError, Incoming, Peer};
use protocol_core::{CallOptions, CancelOutcome, Cause, Config, Dialect, Role};
use protocol_tokio::TokioTimer;
use protocol_websocket::{Origins, connect, settings};
use rescind_interop::browser::{Chromium, Pages};
use rescind_interop::peers::{chromium, rescind};
use serde_json::value::to_raw_value;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::{Child, Command};
use tokio::time::{sleep, timeout};
use tokio_tungstenite::{WebSocketStream, accept_hdr_async_with_config};

/// Longer than a browser takes on a loaded machine.
const PATIENCE: Duration = Duration::from_secs(60);

fn abp(role: Role) -> Config {
    match role {
        Role::Client => Config::client(Dialect::ABP),
        Role::Server => Config::server(Dialect::ABP),
    }
}

/// Listens for the WebSocket of a local page.
struct Listener(TcpListener);

impl Listener {
    async fn bind() -> Self {
        Self(TcpListener::bind("127.0.0.1:0").await.expect("there is a port"))
    }

    fn url(&self) -> String {
        format!("ws://{}", self.0.local_addr().expect("it has an address"))
    }

    async fn accept(&self) -> WebSocketStream<TcpStream> {
        let (stream, _) = self.0.accept().await.expect("somebody connects");
        stream.set_nodelay(true).expect("it is a socket");
        let settings = Some(settings(&abp(Role::Server).limits));
        let accepted = accept_hdr_async_with_config(stream, &Origins::local(), settings).await;
        accepted.expect("it is a WebSocket")
    }
}

/// `rescind serve` on a WebSocket, and its address.
async fn serve() -> (Child, String) {
    let mut child = Command::new(rescind())
        .args(["serve", "--dialect", "abp", "--listen", "ws://127.0.0.1:0"])
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .expect("rescind starts");
    let mut lines = BufReader::new(child.stderr.take().expect("it is piped")).lines();
    let first = lines.next_line().await.expect("it can be read").expect("it says where it is");
    let url = first.strip_prefix("listening on ").expect("it listens").into();
    // It must not be stopped by what it says about bad messages.
    tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
    (child, url)
}

/// An app that does one thing at a time, and remembers what it began.
async fn desk(incoming: Incoming) {
    let mut begun = vec![];
    while let Ok(arrival) = incoming.receive().await {
        let Arrival::Request(request, responder) = arrival else { continue };
        let params: Value = request.params().unwrap_or_default();
        let answer = match request.method.as_str() {
            "work" => {
                begun.push(params["label"].clone());
                sleep(Duration::from_millis(params["ms"].as_u64().unwrap_or_default())).await;
                json!({ "label": params["label"] })
            }
            "begun" => json!(begun),
            _ => json!({}),
        };
        responder.respond(to_raw_value(&answer).expect("it is JSON"));
    }
}

#[tokio::test]
async fn a_page_is_the_agent_over_a_web_socket_and_over_post_message() {
    let Some(command) = chromium() else { return };
    let (_serving, serve) = serve().await;
    let listener = Listener::bind().await;
    let desk_url = listener.url();
    tokio::spawn(async move {
        loop {
            let socket = listener.accept().await;
            let (_, incoming, driver) = connect(socket, TokioTimer::start(), abp(Role::Server));
            tokio::spawn(driver);
            tokio::spawn(desk(incoming));
        }
    });
    let mut pages = Pages::serve();
    let told = [("serve", &*serve), ("desk", &desk_url), ("frames", &pages.other_origin())];
    let browser = Chromium::open(&command, "agent", &pages.url("agent.html", &told));

    let mut passed = vec![];
    let mut problems = vec![];
    loop {
        let report = timeout(PATIENCE, pages.reports.recv()).await;
        let report = report.ok().flatten();
        let report = report.unwrap_or_else(|| panic!("after {passed:?}: {}", browser.said()));
        match report.problem {
            _ if report.name == "over" => break,
            Some(problem) => problems.push(format!("{}: {problem}", report.name)),
            None => passed.push(report.name),
        }
    }
    println!("{}", passed.join("\n"));
    assert!(problems.is_empty(), "{}", problems.join("\n"));
    for way in ["webSocket: ", "postMessage: "] {
        let count = passed.iter().filter(|name| name.starts_with(way)).count();
        assert_eq!(count, 16, "{way}{passed:?}");
    }
}

/// A page that is an app, and the socket of its caller.
struct AppPage {
    _browser: Chromium,
    _pages: Pages,
    socket: WebSocketStream<TcpStream>,
}

impl AppPage {
    async fn open(command: &[String], name: &str) -> Self {
        let listener = Listener::bind().await;
        let pages = Pages::serve();
        let url = pages.url("app.html", &[("agent", &listener.url())]);
        let browser = Chromium::open(command, name, &url);
        let socket = timeout(PATIENCE, listener.accept()).await;
        let socket = socket.unwrap_or_else(|_| panic!("{}", browser.said()));
        Self { _browser: browser, _pages: pages, socket }
    }
}

async fn next_progress(incoming: &Incoming) -> Value {
    loop {
        match incoming.receive().await {
            Ok(Arrival::Notification(progress)) => {
                assert_eq!(progress.method, "capabilities/progress");
                return progress.params().expect("it is JSON");
            }
            Ok(_) => {}
            Err(_) => panic!("the page is gone"),
        }
    }
}

async fn begun(peer: &Peer) -> Value {
    peer.call("begun", json!({})).await.expect("it is answered")
}

#[tokio::test]
async fn a_page_is_the_app_and_we_are_the_agent() {
    let Some(command) = chromium() else { return };
    let AppPage { socket, _browser, _pages } = AppPage::open(&command, "app").await;
    // The caller is the client, though the page made the connection.
    let (peer, incoming, driver) = connect(socket, TokioTimer::start(), abp(Role::Client));
    let driver = tokio::spawn(driver);

    // Before the session there is nothing.
    let early = peer.call::<Value>("begun", json!({})).await;
    assert!(matches!(early, Err(CallError::Error(_))), "{early:?}");
    let session: Value = peer.call("initialize", json!({})).await.expect("it opens");
    assert_eq!(session["app"]["name"], "page");

    // A call, with progress.
    let done: Value = peer.call("export.pdf", json!({ "pages": 2 })).await.expect("it works");
    assert_eq!(done, json!({ "pages": 2 }));

    // Cancelled during: both answers come, and the page has stopped.
    let during = peer.call::<Value>("export.pdf", json!({ "pages": 100_001 }));
    while next_progress(&incoming).await["value"]["pages"] != 100_001 {}
    assert_eq!(during.cancel(), CancelOutcome::Sent);
    let outcome = timeout(PATIENCE, during).await.expect("it settles");
    assert!(matches!(outcome, Err(CallError::Cancelled { .. })), "{outcome:?}");

    // Cancelled before its turn: it never begins.
    let ahead = peer.call::<Value>("export.pdf", json!({ "pages": 30 }));
    while next_progress(&incoming).await["value"]["pages"] != 30 {}
    let waiting = peer.call::<Value>("export.pdf", json!({ "pages": 7 }));
    peer.flushed().await;
    assert_eq!(waiting.cancel(), CancelOutcome::Sent);
    let outcome = timeout(PATIENCE, waiting).await.expect("it settles");
    assert!(matches!(outcome, Err(CallError::Cancelled { .. })), "{outcome:?}");
    assert_eq!(ahead.await.expect("it is not harmed"), json!({ "pages": 30 }));
    assert_eq!(begun(&peer).await, json!([2, 100_001, 30]));

    // Completed while the cancel is on its way: the result is unharmed.
    let cork = peer.cork();
    let raced = peer.call::<Value>("begun", json!({}));
    assert_eq!(raced.cancel(), CancelOutcome::Sent);
    drop(cork);
    let outcome = timeout(PATIENCE, raced).await.expect("it settles");
    assert_eq!(outcome.expect("the page was done first"), json!([2, 100_001, 30]));

    // A deadline frees us at once, and the page is told.
    let options = CallOptions::default().timeout(Duration::from_millis(100));
    let late = peer.call_with::<Value>("export.pdf", json!({ "pages": 100_002 }), options);
    let outcome = late.await;
    assert!(matches!(outcome, Err(CallError::TimedOut { cause: Cause::Deadline })), "{outcome:?}");
    let free = timeout(PATIENCE, begun(&peer)).await.expect("the page is free again");
    assert_eq!(free, json!([2, 100_001, 30, 100_002]));

    // The page goes.
    let lost = timeout(PATIENCE, peer.call::<Value>("hangUp", json!({}))).await;
    let lost = lost.expect("it settles");
    assert!(matches!(lost, Err(CallError::ConnectionLost { .. })), "{lost:?}");
    drop((peer, incoming));
    driver.await.expect("it ends").expect("a goodbye is no error");
}

#[tokio::test]
async fn a_page_is_the_app_and_rescind_call_the_agent() {
    let Some(command) = chromium() else { return };
    let AppPage { socket: page, _browser, _pages } = AppPage::open(&command, "called").await;
    // Both connect to us, and we pass every message on as it is.
    let listener = Listener::bind().await;
    let url = listener.url();
    let call = Command::new(rescind())
        .args(["call", "--dialect", "abp", "--connect", &url, "--cancel-after", "300ms"])
        .args(["export.pdf", r#"{"pages":100000}"#])
        .output();
    let passing_on = async {
        let (to_page, from_page) = page.split();
        let (to_call, from_call) = listener.accept().await.split();
        let _ = tokio::join!(from_page.forward(to_call), from_call.forward(to_page));
    };
    let output = tokio::select! {
        output = call => output.expect("it runs"),
        () = async { passing_on.await; std::future::pending().await } => unreachable!(),
        () = sleep(PATIENCE) => panic!("it does not end"),
    };
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.contains("cancelled export.pdf after "), "{said}");
    assert!(said.contains(r#""pages":100000"#), "progress is shown: {said}");
}
