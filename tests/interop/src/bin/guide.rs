//! The programs of the README and of the guides, as they stand there: `PROGRAM=NAME guide [ARGUMENT…]`.

use std::env;
use std::process::{ExitCode, exit};

use rescind::{Config, Dialect, Router};
use serde_json::{Value, json};

/// The block of a page that `build.rs` took out of it under this name.
macro_rules! block {
    ($name:ident) => {
        include!(concat!(env!("OUT_DIR"), "/", stringify!($name), ".rs"));
    };
}

/// A block that is a whole program.
macro_rules! program {
    ($name:ident) => {
        mod $name {
            block!($name);

            pub(super) fn run() -> std::process::ExitCode {
                std::process::Termination::report(main())
            }
        }
    };
}

program!(readme);
program!(acp_agent);
program!(language_server);
program!(one_thread);
program!(gateway);

mod typed_acp_agent {
    block!(typed_acp_agent);

    #[tokio::main(flavor = "current_thread")]
    pub(super) async fn run() -> std::process::ExitCode {
        let stdio = rescind::tokio::stdio(super::Config::server(super::Dialect::ACP_V1));
        router().serve(&stdio.incoming).await;
        std::process::ExitCode::SUCCESS
    }
}

/// The guide serves an editor of its own, in memory.
#[allow(dead_code, reason = "its main is not run")]
mod language_server_with_progress {
    block!(language_server_with_progress);

    #[tokio::main(flavor = "current_thread")]
    pub(super) async fn run() -> i32 {
        serve(&rescind::tokio::stdio(Config::server(Dialect::LSP_3_17)).incoming).await
    }
}

/// Serves MCP, and responds to each `tools/list` with the argument.
#[tokio::main(flavor = "current_thread")]
async fn upstream() -> ExitCode {
    let list = env::args().nth(1).expect("the argument is a list");
    let list: Value = serde_json::from_str(&list).expect("it is JSON");
    let stdio = rescind::tokio::stdio(Config::server(Dialect::MCP_2025_11_25));
    let router = Router::with_state(list)
        .request("initialize", async |_: Value, _| Ok(json!({ "capabilities": { "tools": {} } })))
        .request("tools/list", async |_: Value, cx| Ok(cx.state().clone()));
    router.serve(&stdio.incoming).await;
    ExitCode::SUCCESS
}

fn main() -> ExitCode {
    let program = env::var("PROGRAM").expect("PROGRAM names a program");
    match &*program {
        "readme" => readme::run(),
        "acp_agent" => acp_agent::run(),
        "typed_acp_agent" => typed_acp_agent::run(),
        "language_server" => language_server::run(),
        // A thread of tokio may still wait for input.
        "language_server_with_progress" => exit(language_server_with_progress::run()),
        "one_thread" => one_thread::run(),
        "gateway" => gateway::run(),
        "upstream" => upstream(),
        _ => panic!("no program {program}"),
    }
}
