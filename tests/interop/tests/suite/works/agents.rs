//! ACP agents as they are released, with a model that never responds in place of an account.

use std::fs;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use protocol_async::{Peer, SentRequest};
use protocol_core::{CancelOutcome, Config, Dialect};
use protocol_router::Router;
use rescind_interop::model::Model;
use rescind_interop::peers::{CommandLine, node, relay};
use serde_json::{Value, json};
use tokio::time::timeout;

/// Longer than an agent takes to start on a busy machine.
const PATIENCE: Duration = Duration::from_secs(300);

/// An agent, and the way to log in to it.
#[derive(Clone, Copy)]
enum Agent {
    Codex,
    Gemini,
}

impl Agent {
    fn command(self) -> Option<CommandLine> {
        match self {
            Self::Codex => node("node_modules/@zed-industries/codex-acp/bin/codex-acp.js"),
            Self::Gemini => {
                let mut command = node("node_modules/@google/gemini-cli/bundle/gemini.js")?;
                command.push("--acp".into());
                Some(command)
            }
        }
    }

    fn login(self) -> Value {
        let method = match self {
            Self::Codex => "codex-api-key",
            Self::Gemini => "gemini-api-key",
        };
        json!({ "methodId": method })
    }

    /// Writes the settings that lead to the model, and returns the home that has them.
    fn home(self, test: &str, model: &Model) -> PathBuf {
        let home = Path::new(env!("CARGO_TARGET_TMPDIR")).join("agents").join(test);
        let (file, settings) = match self {
            Self::Codex => (".codex/config.toml", codex(&model.url())),
            Self::Gemini => {
                let settings = json!({ "privacy": { "usageStatisticsEnabled": false } });
                (".gemini/settings.json", settings.to_string())
            }
        };
        // An earlier run may have left one.
        let _ = fs::remove_dir_all(&home);
        let file = home.join(file);
        fs::create_dir_all(file.parent().expect("it has a folder")).expect("it can be made");
        fs::write(file, settings).expect("it is ours");
        home
    }
}

fn codex(model: &str) -> String {
    let provider = format!("base_url = \"{model}/v1\"\nenv_key = \"CODEX_API_KEY\"\n");
    let name = "model = \"none\"\nmodel_provider = \"none\"\n";
    format!("{name}[model_providers.none]\nname = \"none\"\nwire_api = \"responses\"\n{provider}")
}

/// A client of ours in a session of an agent.
struct Session {
    peer: Peer,
    id: Value,
    model: Model,
}

impl Session {
    /// Prompts the agent. Returns the call, and the number of its request to the model.
    async fn prompt(&mut self, text: &str) -> (SentRequest<Value>, u32) {
        let prompt = json!([{ "type": "text", "text": text }]);
        let prompt = json!({ "sessionId": self.id, "prompt": prompt });
        let sent = self.peer.call("session/prompt", prompt);
        (sent, self.model.is_asked(text).await)
    }
}

/// Runs checks in a session, unless the agent is not installed.
async fn in_session<F: Future<Output = ()>>(
    test: &str,
    agent: Agent,
    through: impl Fn(CommandLine) -> CommandLine,
    checks: impl FnOnce(Session) -> F,
) {
    let Some(command) = agent.command() else { return };
    let (command, model) = (through(command), Model::start().await);
    let home = agent.home(test, &model);
    let mut spawned = Command::new(&command[0]);
    spawned.args(&command[1..]).current_dir(&home).env("HOME", &home);
    spawned.env("CODEX_API_KEY", "none").env("GEMINI_API_KEY", "none");
    spawned.env("GOOGLE_GEMINI_BASE_URL", model.url()).env_remove("CODEX_HOME");
    spawned.env("NO_PROXY", "127.0.0.1").env("no_proxy", "127.0.0.1");
    let child = protocol_tokio::child(spawned, Config::client(Dialect::ACP_V1));
    let child = child.expect("the agent starts");
    tokio::spawn(async move {
        Router::new().on_trouble(|_| ()).serve(&child.incoming).await;
    });
    let peer = child.peer;
    let checks = async {
        let client = json!({ "protocolVersion": 1, "clientCapabilities": {} });
        peer.call::<Value>("initialize", client).await.expect("it opens");
        peer.call::<Value>("authenticate", agent.login()).await.expect("any key will do");
        let place = json!({ "cwd": home, "mcpServers": [] });
        let opened: Value = peer.call("session/new", place).await.expect("a session");
        checks(Session { peer: peer.clone(), id: opened["sessionId"].clone(), model }).await;
    };
    timeout(PATIENCE, checks).await.expect("the checks end");
}

/// Two turns are stopped by their handles, which hit no other turn.
async fn stops_turns(test: &str, agent: Agent, through: impl Fn(CommandLine) -> CommandLine) {
    let stops = async |mut session: Session| {
        let mut earlier = None;
        for text in ["Do something.", "Do another thing."] {
            let (sent, asked) = session.prompt(text).await;
            let turn = sent.cancellation_handle();
            if let Some(earlier) = earlier.replace(turn.clone()) {
                assert_eq!(earlier.stop(), CancelOutcome::AlreadySettled);
            }
            assert_eq!(turn.stop(), CancelOutcome::Sent);
            assert_eq!(turn.stop(), CancelOutcome::AlreadySent);
            let response = sent.await.expect("the result of a stopped turn");
            assert_eq!(response["stopReason"], "cancelled");
            session.model.is_given_up(asked).await;
        }
    };
    in_session(test, agent, through, stops).await;
}

/// A cancel of the request leaves the turn as it is, and a stop ends it all the same.
async fn stops_after_a_cancel(test: &str, agent: Agent) {
    let stops = async |mut session: Session| {
        let (sent, asked) = session.prompt("Do something.").await;
        assert_eq!(sent.cancel(), CancelOutcome::Sent);
        let unknown = session.peer.call::<Value>("unknown", json!({}));
        unknown.await.expect_err("the agent has read the cancel");
        assert_eq!(sent.stop(), CancelOutcome::Sent);
        let response = sent.await.expect("the result of a stopped turn");
        assert_eq!(response["stopReason"], "cancelled");
        session.model.is_given_up(asked).await;
    };
    in_session(test, agent, |agent| agent, stops).await;
}

#[tokio::test]
async fn our_client_stops_turns_of_codex() {
    stops_turns("codex", Agent::Codex, |agent| agent).await;
}

#[tokio::test]
async fn our_client_stops_turns_of_codex_behind_our_relay() {
    stops_turns("codex_relay", Agent::Codex, |agent| relay("acp", &agent)).await;
}

#[tokio::test]
async fn our_client_stops_turns_of_gemini() {
    stops_turns("gemini", Agent::Gemini, |agent| agent).await;
}

#[tokio::test]
async fn our_client_stops_turns_of_gemini_behind_our_relay() {
    stops_turns("gemini_relay", Agent::Gemini, |agent| relay("acp", &agent)).await;
}

#[tokio::test]
async fn a_stop_ends_a_turn_of_codex_that_a_cancel_left() {
    stops_after_a_cancel("codex_cancel", Agent::Codex).await;
}

#[tokio::test]
async fn a_stop_ends_a_turn_of_gemini_that_a_cancel_left() {
    stops_after_a_cancel("gemini_cancel", Agent::Gemini).await;
}
