//! The crate `agent-client-protocol` in both roles, with us as the other side, and with our relay
//! in between. Calls are cancelled by handle, by drop and over several hops, and nested requests
//! are cancelled back.

use rescind_interop::lifecycle;
use rescind_interop::own::{self, OwnClient};
use rescind_interop::peers::{CommandLine, line, relay, serve};
use rescind_interop::sdk::{self, SdkClient};
use tokio::io::{duplex, split};
use tokio::process::{Child, Command};

/// Small enough that a burst fills it.
const PIPE: usize = 4096;

fn sdk_agent() -> CommandLine {
    line(&[env!("CARGO_BIN_EXE_sdk_agent")])
}

fn spawn(command: &[String]) -> Child {
    let mut spawned = Command::new(&command[0]);
    spawned.args(&command[1..]).kill_on_drop(true);
    spawned.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
    spawned.spawn().expect("the agent starts")
}

async fn their_client(command: CommandLine) {
    let mut child = spawn(&command);
    let (stdin, stdout) = child.stdin.take().zip(child.stdout.take()).expect("both are piped");
    let checks = async |client, mut nested| lifecycle::run(&client, &mut nested).await;
    SdkClient::connect(stdout, stdin, checks).await.expect("the connection holds");
}

async fn our_client(command: CommandLine) {
    let (client, mut nested) = OwnClient::spawn(&command);
    lifecycle::run(&client, &mut nested).await;
}

#[tokio::test]
async fn their_client_our_agent_in_process() {
    let (near, far) = duplex(PIPE);
    let (reader, writer) = split(far);
    tokio::spawn(own::agent(reader, writer));
    let (reader, writer) = split(near);
    let checks = async |client, mut nested| lifecycle::run(&client, &mut nested).await;
    SdkClient::connect(reader, writer, checks).await.expect("the connection holds");
}

#[tokio::test]
async fn our_client_their_agent_in_process() {
    let (near, far) = duplex(PIPE);
    let (reader, writer) = split(far);
    tokio::spawn(sdk::agent(reader, writer));
    let (reader, writer) = split(near);
    let (client, mut nested) = OwnClient::connect(reader, writer);
    lifecycle::run(&client, &mut nested).await;
}

#[tokio::test]
async fn their_client_rescind_serve_on_every_runtime() {
    for runtime in ["blocking", "single", "tokio", "smol"] {
        println!("serve --runtime {runtime}");
        let mut command = serve("acp");
        command.extend(line(&["--runtime", runtime]));
        their_client(command).await;
    }
}

#[tokio::test]
async fn our_client_their_agent() {
    our_client(sdk_agent()).await;
}

#[tokio::test]
async fn their_client_our_relay_their_agent() {
    their_client(relay("acp", &sdk_agent())).await;
}

#[tokio::test]
async fn their_client_two_hops_their_agent() {
    their_client(relay("acp", &relay("acp", &sdk_agent()))).await;
}

#[tokio::test]
async fn their_client_our_relay_rescind_serve() {
    their_client(relay("acp", &serve("acp"))).await;
}

#[tokio::test]
async fn our_client_two_hops_their_agent() {
    our_client(relay("acp", &relay("acp", &sdk_agent()))).await;
}
