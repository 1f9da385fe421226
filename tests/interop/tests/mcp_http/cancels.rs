//! The time until the handler of a server hears of a cancel over HTTP, directly and behind released bridges.
//!
//! The witness is a tool of the server, whose response arrives at the client that has cancelled. So each time includes the
//! way back.

use std::future::Future;
use std::time::Duration;

use rescind::http::Rules;
use rescind_interop::mcp::http::{Measured, OwnClient, TIMES, sdk_cancels, serve_own, serve_sdk};
use rescind_interop::mcp::sdk::discovers;
use rescind_interop::peers::{CommandLine, line, node, python, rescind};
use rmcp::service::ClientLifecycleMode;
use tokio::net::TcpListener;
use tokio::process::Command;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::Served;

/// The most time that half of the cancels take, on a machine with nothing else to do.
const SOON: Duration = Duration::from_millis(25);

/// Longer than a client takes, and any bridge.
const PATIENCE: Duration = Duration::from_secs(120);

/// The rounds of a loaded machine that a cancel may take beside that.
const ROUNDS: u32 = 10;

fn median(mut times: Vec<Duration>) -> Duration {
    assert_eq!(times.len() as u64, TIMES);
    times.sort_unstable();
    times[times.len() / 2]
}

/// Half of the cancels arrived soon.
#[track_caller]
fn soon(name: &str, measured: Measured) {
    let [cancel, round] = [measured.cancels, measured.rounds].map(median);
    println!("{name}: cancel {cancel:.1?}, round {round:.1?}");
    assert!(cancel <= SOON + ROUNDS * round, "{name}: {cancel:?} where a round takes {round:?}");
}

/// Waits for a client, and fails if the handler never hears of a cancel.
async fn heard<T>(name: &str, client: impl Future<Output = T>) -> T {
    let heard = timeout(PATIENCE, client).await;
    heard.unwrap_or_else(|_| panic!("{name}: the handler heard of no cancel"))
}

/// A server in this process, until this is dropped.
async fn hosted<F>(serve: impl FnOnce(TcpListener) -> F) -> (JoinSet<()>, String)
where
    F: Future<Output = std::io::Result<()>> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback has a free port");
    let address = format!("http://{}/mcp", listener.local_addr().expect("it is bound"));
    let (mut serving, served) = (JoinSet::new(), serve(listener));
    serving.spawn(async move { served.await.expect("the listener stays") });
    (serving, address)
}

/// A client that is a script against our server.
async fn script(client: Option<CommandLine>, mode: &str, rules: &'static Rules) {
    let Some(client) = client else { return };
    let (_serving, address) = hosted(|listener| serve_own(listener, rules)).await;
    let (name, mut command) = (client.join(" "), Command::new(&client[0]));
    command.args(&client[1..]).args([mode, &address]).kill_on_drop(true);
    let output = heard(&name, command.output()).await.expect("the client runs");
    let said = String::from_utf8_lossy(&output.stdout);
    let problems = String::from_utf8_lossy(&output.stderr);
    let (times, end) = said.trim_end().rsplit_once('\n').unwrap_or_default();
    assert!(output.status.success() && end == "timed out", "{said}\n{problems}");
    let mut measured = Measured::default();
    for line in times.lines() {
        let (cancel, round) = line.split_once(' ').expect("two times");
        let time = |ms: &str| Duration::from_secs_f64(ms.parse::<f64>().expect("a time") / 1e3);
        measured.cancels.push(time(cancel));
        measured.rounds.push(time(round));
    }
    let name = name.rsplit('/').next().unwrap_or_default();
    soon(&format!("{name} {mode}, our server in {}", rules.version), measured);
}

/// Our client against a server, by notification and by a closed stream as the revision has it.
async fn own(name: &str, address: &str, revisions: &[&'static Rules]) {
    for (served, &rules) in revisions.iter().enumerate() {
        let client = OwnClient::connect(address, rules).await;
        let name = format!("our client, {name} in {}", rules.version);
        let measured = heard(&name, client.cancels(served as u64 * (TIMES + 1))).await;
        soon(&name, measured);
    }
}

const BOTH: [&Rules; 2] = [&Rules::MCP_2025_11_25, &Rules::MCP_2026_07_28];

#[tokio::test(flavor = "multi_thread")]
async fn our_client_cancels_our_server_soon() {
    for rules in BOTH {
        let (_serving, address) = hosted(|listener| serve_own(listener, rules)).await;
        own("our server", &address, &[rules]).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn our_client_cancels_rust_soon() {
    let (_serving, address) = hosted(serve_sdk).await;
    own("rmcp", &address, &BOTH).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rust_cancels_our_server_soon() {
    for (rules, opening) in BOTH.into_iter().zip([ClientLifecycleMode::Initialize, discovers()]) {
        let (_serving, address) = hosted(|listener| serve_own(listener, rules)).await;
        let name = format!("rmcp, our server in {}", rules.version);
        let measured = heard(&name, sdk_cancels(&address, opening)).await;
        soon(&name, measured);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn typescript_cancels_our_server_soon() {
    script(node("http_cancels.mjs"), "1", &Rules::MCP_2025_11_25).await;
    script(node("http_cancels.mjs"), "2", &Rules::MCP_2026_07_28).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn python_cancels_our_server_soon() {
    script(python("http_cancels.py"), "legacy", &Rules::MCP_2025_11_25).await;
    script(python("http_cancels.py"), "auto", &Rules::MCP_2026_07_28).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn fastmcp_cancels_our_server_soon() {
    for rules in BOTH {
        script(python("http_cancels.py"), "fastmcp", rules).await;
    }
}

/// A server that is a script.
async fn served(server: Option<CommandLine>, of: &str, revisions: &[&'static Rules]) {
    let Some(mut server) = server else { return };
    server.push(of.into());
    let served = Served::spawn(&server);
    own(server.join(" ").rsplit('/').next().unwrap_or_default(), &served.address, revisions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn our_client_cancels_typescript_soon() {
    served(node("http_server.mjs"), "1", &[&Rules::MCP_2025_11_25]).await;
    served(node("http_server.mjs"), "2", &[&Rules::MCP_2026_07_28]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn our_client_cancels_python_soon() {
    served(python("http_server.py"), "mcp", &BOTH).await;
    served(python("http_server.py"), "fastmcp", &BOTH).await;
}

/// The client is on standard streams or on HTTP, the handler behind HTTP, and the bridges are between. The time is shown
/// and not judged: it is that of another's bridge.
async fn bridged(name: &str, client: OwnClient, handled: u64) {
    let measured = heard(name, client.cancels(handled)).await;
    let [cancel, round] = [measured.cancels, measured.rounds].map(median);
    println!("{name}: cancel {cancel:.1?}, round {round:.1?}");
}

fn mcp_remote(address: &str) -> Option<CommandLine> {
    let program = node("node_modules/mcp-remote/dist/proxy.js")?;
    let folder = format!("MCP_REMOTE_CONFIG_DIR={}", env!("CARGO_TARGET_TMPDIR"));
    Some([line(&["env", &folder]), program, line(&[address])].concat())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_passes_mcp_remote_before_and_behind_our_bridge() {
    let rules = &Rules::MCP_2025_11_25;
    let (_serving, address) = hosted(|listener| serve_own(listener, rules)).await;
    let Some(command) = mcp_remote(&address) else { return };
    bridged("mcp-remote, our server", OwnClient::spawn(&command, rules).await, 0).await;

    let local = "http://127.0.0.1:0/mcp";
    let relay = [line(&[rescind(), "relay", "--listen", local, "--"]), command].concat();
    let relay = Served::spawn(&relay);
    let client = OwnClient::connect(&relay.address, rules).await;
    bridged("our bridge, mcp-remote, our server", client, TIMES + 1).await;
}

/// supergateway has a server on standard streams, which is our relay. Before a server over HTTP it passes no cancel on.
#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_passes_supergateway_in_front_of_our_relay() {
    let Some(program) = node("node_modules/supergateway/dist/index.js") else { return };
    let rules = &Rules::MCP_2025_11_25;
    for is_behind in [false, true] {
        let (_serving, address) = hosted(|listener| serve_own(listener, rules)).await;
        let relay = format!("{} relay --connect {address}", rescind());
        let listening = |port: &str| {
            let more = ["--stateful", "--outputTransport", "streamableHttp", "--port", port];
            [program.clone(), line(&["--stdio", &relay]), line(&more)].concat()
        };
        let (served, said) = Served::on_port(listening);
        std::thread::spawn(move || said.for_each(drop));
        if is_behind {
            let relay = line(&[rescind(), "relay", "--connect", &served.address]);
            let client = OwnClient::spawn(&relay, rules).await;
            bridged("our relay, supergateway, our relay, our server", client, 0).await;
        } else {
            let client = OwnClient::connect(&served.address, rules).await;
            bridged("supergateway, our relay, our server", client, 0).await;
        }
    }
}
