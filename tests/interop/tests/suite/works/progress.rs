//! Progress of LSP. vscode-jsonrpc presses the button of our server in `guides.rs`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use protocol_async::{CallError, Peer};
use protocol_core::{CancelOutcome, Config, Dialect};
use protocol_router::Router;
use rescind_interop::peers::{CommandLine, clangd, node, relay, rust_analyzer};
use serde_json::{Value, json};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::time::timeout;

/// Longer than a server takes to index a file on a busy machine.
const PATIENCE: Duration = Duration::from_secs(180);

/// A client of ours in front of a server of theirs.
struct Editor {
    peer: Peer,
    progress: UnboundedReceiver<Value>,
}

impl Editor {
    fn start(command: &[String], folder: &Path) -> Self {
        let mut spawned = Command::new(&command[0]);
        spawned.args(&command[1..]).current_dir(folder);
        let child = protocol_tokio::child(spawned, Config::client(Dialect::LSP_3_17));
        let child = child.expect("the server starts");
        let (told, progress) = unbounded_channel();
        tokio::spawn(async move {
            let router = Router::new()
                .on_trouble(|_| ())
                .request("window/workDoneProgress/create", async |_: Value, _| Ok(Value::Null))
                .notification("$/progress", async move |params: Value, _| {
                    // Nobody listens any more once the checks are over.
                    let _ = told.send(params);
                    Ok(())
                });
            router.serve(&child.incoming).await;
        });
        Self { peer: child.peer, progress }
    }

    async fn open(&self, folder: &Path, options: Value) {
        let window = json!({ "workDoneProgress": true });
        let synchronization = json!({ "didSave": true });
        let asked = json!({
            "processId": null,
            "rootUri": uri(folder),
            "capabilities": { "window": window, "textDocument": { "synchronization": synchronization } },
            "initializationOptions": options,
        });
        self.peer.call::<Value>("initialize", asked).await.expect("it opens");
        self.peer.notify("initialized", json!({})).await.expect("it can be told so");
    }

    /// Waits for progress of this kind for which a test holds.
    async fn progress(&mut self, kind: &str, test: impl Fn(&Value) -> bool) -> Value {
        loop {
            let progress = self.progress.recv().await.expect("the server lives");
            if progress["value"]["kind"] == kind && test(&progress) {
                return progress["token"].clone();
            }
        }
    }

    async fn begun(&mut self, title: &str) -> Value {
        self.progress("begin", |progress| progress["value"]["title"] == title).await
    }

    async fn ended(&mut self, token: &Value) {
        self.progress("end", |progress| progress["token"] == *token).await;
    }

    /// Presses the button of a progress.
    async fn press(&self, token: &Value) {
        let button = "window/workDoneProgress/cancel";
        self.peer.notify(button, json!({ "token": token })).await.expect("there is room");
    }

    async fn shut_down(&self) {
        self.peer.call::<Value>("shutdown", ()).await.expect("it is alive");
        self.peer.notify("exit", ()).await.expect("it can be told so");
    }

    /// Once this is over, the server has read what was sent before.
    async fn echo(&self) {
        self.peer.call::<Value>("echo", json!({ "text": "hé" })).await.expect("an echo");
    }
}

fn uri(path: &Path) -> String {
    format!("file://{}", path.display())
}

/// Makes a folder with these files, anew.
fn folder(test: &str, files: &[(&str, &str)]) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("progress").join(test);
    // It is not there the first time.
    let _ = fs::remove_dir_all(&folder);
    for (name, text) in files {
        let file = folder.join(name);
        fs::create_dir_all(file.parent().expect("it has a folder")).expect("it can be made");
        fs::write(file, text).expect("it is ours");
    }
    folder
}

/// The button stops progress that the server has created. A request's own progress is stopped with the request.
///
/// "Canceling work done progress is done by simply canceling the corresponding request" (3.17, client initiated
/// progress).
async fn vscode_languageserver(test: &str, through: impl Fn(CommandLine) -> CommandLine) {
    let Some(server) = node("lsp_progress_server.mjs") else { return };
    let here = folder(test, &[("x", "")]);
    let mut editor = Editor::start(&through(server), &here);
    let checks = async {
        editor.open(&here, Value::Null).await;
        let sent = editor.peer.call::<Value>("index", json!({}));
        let token = editor.begun("Index").await;
        editor.press(&token).await;
        editor.ended(&token).await;
        assert_eq!(sent.await.expect("a result")["indexed"], false);

        let params = json!({ "workDoneToken": "ours" });
        let sent = editor.peer.call::<Value>("search", params);
        assert_eq!(editor.begun("Search").await, "ours");
        editor.press(&json!("ours")).await;
        editor.echo().await;
        assert!(editor.progress.is_empty(), "the button is for progress of the server's own");
        assert_eq!(sent.stop(), CancelOutcome::Sent);
        editor.ended(&json!("ours")).await;
        let outcome = sent.await;
        assert!(matches!(outcome, Err(CallError::Cancelled { error: Some(_), .. })), "{outcome:?}");
    };
    timeout(PATIENCE, checks).await.expect("the checks end");
}

#[tokio::test]
async fn our_client_vscode_languageserver() {
    vscode_languageserver("vscode", |server| server).await;
}

#[tokio::test]
async fn our_client_our_relay_vscode_languageserver() {
    vscode_languageserver("vscode_relay", |server| relay("lsp", &server)).await;
}

/// A check that would take ten minutes ends when its button is pressed.
#[tokio::test]
async fn our_client_rust_analyzer() {
    let Some(server) = rust_analyzer() else { return };
    let package =
        "[package]\nname = \"here\"\nversion = \"0.0.0\"\nedition = \"2024\"\n[workspace]\n";
    let files = [("Cargo.toml", package), ("src/main.rs", "fn main() {}\n")];
    let here = folder("rust_analyzer", &files);
    let mut editor = Editor::start(&server, &here);
    let checks = async {
        let options = json!({
            "cachePriming": { "enable": false },
            "cargo": { "buildScripts": { "enable": false }, "sysroot": null },
            "check": { "overrideCommand": ["sleep", "600"] },
            "procMacro": { "enable": false },
        });
        editor.open(&here, options).await;
        let token = editor.begun("sleep 600").await;
        editor.press(&token).await;
        editor.ended(&token).await;
        editor.shut_down().await;
    };
    timeout(PATIENCE, checks).await.expect("the checks end");
}

/// It has no button, and pressing it all the same does no harm.
#[tokio::test]
async fn our_client_clangd() {
    let Some(mut server) = clangd() else { return };
    server.push("--background-index".into());
    let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join("progress/clangd");
    let compile =
        json!([{ "directory": place, "file": "b.cpp", "arguments": ["c++", "-c", "b.cpp"] }]);
    let (text, compile) = ("int one() { return 1; }\n", compile.to_string());
    let files = [("a.cpp", text), ("b.cpp", text), ("compile_commands.json", compile.as_str())];
    let here = folder("clangd", &files);
    let mut editor = Editor::start(&server, &here);
    let checks = async {
        editor.open(&here, Value::Null).await;
        let document = json!({
            "uri": uri(&here.join("b.cpp")), "languageId": "cpp", "version": 1, "text": text,
        });
        let opened = json!({ "textDocument": document });
        editor.peer.notify("textDocument/didOpen", opened).await.expect("there is room");
        let token = editor.begun("indexing").await;
        editor.press(&token).await;
        editor.ended(&token).await;
        editor.shut_down().await;
    };
    timeout(PATIENCE, checks).await.expect("the checks end");
}
