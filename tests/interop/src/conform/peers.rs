//! The peers, with the versions that were tested.

use std::env;
use std::path::{Path, PathBuf};

use protocol_core::Dialect;

use super::{How, Peer};
use crate::peers::{self, CommandLine, clangd, line, node, on_path, python, python_module};

/// Names a folder with more peers than `tests/interop/install` has.
const MORE: &str = "RESCIND_MORE_PEERS";

/// All of them, installed or not.
#[must_use]
pub fn peers() -> Vec<Peer> {
    let more = More(env::var_os(MORE).map(PathBuf::from));
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let script = |name: &str| here.join(name).to_string_lossy().into_owned();
    let with =
        |line: Option<CommandLine>, word: &str| line.map(|line| [line, vec![word.into()]].concat());
    let peer = |name, dialect, how, command| Peer { name, dialect, command, how, varying: "" };
    let lsp = |name, how, command| peer(name, Dialect::LSP_3_17, how, command);
    let mcp = |name, how, command| peer(name, Dialect::MCP, how, command);
    let acp = |name, command| peer(name, Dialect::ACP_V1, How::Agent, command);
    let everything = "node_modules/@modelcontextprotocol/server-everything/dist/index.js";
    let mut lspmux = more.command(&["bin/lspmux"]);
    if let Some(command) = &mut lspmux {
        command.insert(0, script("lspmux"));
    }
    vec![
        // At the end of its input its main thread at times waits for a worker that sleeps, for minutes.
        Peer { varying: "end/pending", ..lsp("clangd 19", How::Server, clangd()) },
        lsp(
            "pyright 1.1.414",
            How::Language("python"),
            with(node("node_modules/pyright/langserver.index.js"), "--stdio"),
        ),
        lsp("tower-lsp 0.20.0", How::Asking, own("tower_lsp")),
        // It handles at the same time what it has read together, whatever came first.
        Peer {
            varying: "cancel/before-request",
            ..lsp("tower-lsp-server 0.23.0", How::Asking, own("tower_server"))
        },
        lsp(
            "typescript-language-server 6.0.2",
            How::Language("typescript"),
            more.command(&["node_modules/.bin/typescript-language-server", "--stdio"]),
        ),
        lsp("pylsp 1.15.0", How::Language("python"), more.command(&["py/bin/pylsp"])),
        lsp("ty 0.0.105", How::Language("python"), more.command(&["py/bin/ty", "server"])),
        lsp("gopls 0.5.0", How::Server, more.command(&["gopls", "serve"])),
        mcp("MCP TypeScript SDK 1.32.2", How::AnyTool, node("mcp_server.mjs")),
        mcp("server-everything 2026.8.31", How::Server, with(node(everything), "stdio")),
        mcp("MCP Python SDK 2.3.0", How::AnyTool, python("mcp_server.py")),
        mcp("rmcp 3.9.0", How::Tool, own("rmcp_server")),
        mcp(
            "fastmcp 4.1.2",
            How::AnyTool,
            more.command(&["py/bin/python", &script("python/fastmcp_server.py")]),
        ),
        acp("ACP TypeScript SDK 2.4.0", node("acp_agent.mjs")),
        acp("agent-client-protocol 5.0.0", own("sdk_agent")),
        peer("debugpy 1.8.22", Dialect::DAP, How::Server, python_module("debugpy.adapter")),
        peer("lldb-dap 19", Dialect::DAP, How::Server, more.command(&["lldb-dap-19"])),
        lsp("lspmux 0.3.0", How::Relay, lspmux),
    ]
}

/// The folder of [`MORE`], if there is one.
struct More(Option<PathBuf>);

impl More {
    /// A program in it with its arguments; without a folder in its name it is the system's.
    fn command(&self, words: &[&str]) -> Option<CommandLine> {
        let folder = self.0.as_ref()?;
        let (program, arguments) = words.split_first()?;
        let file = match program.contains('/') {
            true => folder.join(program),
            false => on_path(program)?,
        };
        let program = file.is_file().then(|| file.to_string_lossy().into_owned())?;
        Some([vec![program], line(arguments)].concat())
    }
}

/// A program of this package, beside the one that runs.
fn own(name: &str) -> Option<CommandLine> {
    let ourselves = env::current_exe().ok()?;
    // Tests are in a folder of their own.
    let folder = ourselves.ancestors().skip(1).find(|folder| !folder.ends_with("deps"))?;
    let file = folder.join(name);
    match file.is_file() {
        true => Some(line(&[&file.to_string_lossy()])),
        false => peers::missing(&format!("{name} (cargo build --bins)")),
    }
}

/// A command as the page tells it, without the folders of this machine.
#[must_use]
pub(super) fn shown(command: &[String]) -> String {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let root = here.ancestors().nth(2).unwrap_or(here).to_string_lossy().into_owned();
    let more = env::var(MORE).unwrap_or_else(|_| "/nowhere".into());
    let shown = command.iter().map(|word| match word.split_once("/debug/") {
        Some((_, program)) => format!("tests/interop/target/debug/{program}"),
        None => word.replace(&format!("{root}/"), "").replace(&more, "more"),
    });
    shown
        .map(|word| word.strip_prefix("/usr/bin/").unwrap_or(&word).into())
        .collect::<Vec<String>>()
        .join(" ")
}
