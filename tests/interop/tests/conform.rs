//! `rescind conform` on real servers: what it says of each is in docs/conformance-results.md.
//!
//! `BLESS=1` rewrites that page from the peers that are there. Those of `tests/interop/install` are always
//! run; others if `RESCIND_MORE_PEERS` names a folder with them (the page says how it is made).

use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{env, fs};

use protocol_core::Dialect;
use rescind_conform::{Options, Outcome, Program, Report, Request, Verdict, matrix, run};
use rescind_interop::peers::{self, CommandLine};
use serde_json::json;

/// A server, and how it is run.
struct Peer {
    name: &'static str,
    dialect: Dialect,
    command: Option<CommandLine>,
    /// As on the command line of `rescind conform`.
    arguments: &'static str,
}

fn installed() -> Vec<Peer> {
    let everything = "node_modules/@modelcontextprotocol/server-everything/dist/index.js";
    let everything = peers::node(everything).map(|line| [line, vec!["stdio".into()]].concat());
    let pyright = peers::node("node_modules/pyright/langserver.index.js");
    let pyright = pyright.map(|line| [line, vec!["--stdio".into()]].concat());
    let peer = |name, dialect, command, arguments| Peer { name, dialect, command, arguments };
    vec![
        peer("clangd 19", Dialect::LSP_3_17, peers::clangd(), ""),
        peer(
            "MCP TypeScript SDK 1.32.2",
            Dialect::MCP,
            peers::node("mcp_server.mjs"),
            "--allow-tools",
        ),
        peer("server-everything 2026.8.31", Dialect::MCP, everything, ""),
        peer("ACP TypeScript SDK 2.4.0", Dialect::ACP_V1, peers::node("acp_agent.mjs"), SLEEP),
        peer(
            "agent-client-protocol 5.0.0",
            Dialect::ACP_V1,
            own(env!("CARGO_BIN_EXE_sdk_agent")),
            SLEEP,
        ),
        peer("MCP Python SDK 2.3.0", Dialect::MCP, peers::python("mcp_server.py"), "--allow-tools"),
        peer("pyright 1.1.414", Dialect::LSP_3_17, pyright, "--language python"),
        peer(
            "tower-lsp-server 0.23.0",
            Dialect::LSP_3_17,
            own(env!("CARGO_BIN_EXE_tower_server")),
            ASK,
        ),
        peer("debugpy 1.8.22", Dialect::DAP, peers::python_module("debugpy.adapter"), ""),
    ]
}

/// Servers in the folder of `RESCIND_MORE_PEERS`.
fn more() -> Vec<Peer> {
    let Some(folder) = env::var_os("RESCIND_MORE_PEERS").map(PathBuf::from) else { return vec![] };
    let peer = |name, dialect, program: &str, arguments: &[&str], options| {
        // Those without a folder are the system's.
        let own = folder.join(program);
        let program =
            if program.contains('/') { own } else { peers::on_path(program).unwrap_or(own) };
        let words = [program.to_string_lossy().into_owned()].into_iter();
        let words = words.chain(arguments.iter().map(|word| (*word).into())).collect();
        Peer { name, dialect, command: program.is_file().then_some(words), arguments: options }
    };
    let lsp = |name, program, arguments, options| {
        peer(name, Dialect::LSP_3_17, program, arguments, options)
    };
    let fastmcp = Path::new(env!("CARGO_MANIFEST_DIR")).join("python/fastmcp_server.py");
    let fastmcp = fastmcp.to_string_lossy();
    vec![
        lsp(
            "typescript-language-server 6.0.2",
            "node_modules/.bin/typescript-language-server",
            &["--stdio"],
            "--language typescript",
        ),
        lsp("pylsp 1.15.0", "py/bin/pylsp", &[], "--language python"),
        lsp("ty 0.0.105", "py/bin/ty", &["server"], "--language python"),
        lsp("gopls 0.5.0", "gopls", &["serve"], ""),
        peer("fastmcp 4.1.2", Dialect::MCP, "py/bin/python", &[&fastmcp], "--allow-tools"),
        peer("lldb-dap 19", Dialect::DAP, "lldb-dap-19", &[], ""),
    ]
}

/// What the demo of tower-lsp-server has.
const ASK: &str = r#"--reverse workspace/executeCommand '{"command":"ask","arguments":[]}'"#;

/// Agents made for our tests, which have no more than these methods.
const SLEEP: &str =
    r#"--open /dev/null --slow sleep '{"ms":"$MS"}' --reverse nested '{"ms":"$MS"}'"#;

fn own(program: &str) -> Option<CommandLine> {
    Some(peers::line(&[program]))
}

impl Peer {
    fn options(&self) -> Options {
        let mut options = Options::new(self.dialect.clone());
        options.allow_tools = self.arguments.contains("--allow-tools");
        options.language = self.arguments.strip_prefix("--language ").map(Into::into);
        if self.arguments == SLEEP {
            options.open = Some(vec![]);
            options.slow = Some(Request::new("sleep", json!({ "ms": "$MS" })));
            options.reverse = Some(Request::new("nested", json!({ "ms": "$MS" })));
        }
        if self.arguments == ASK {
            let params = json!({ "command": "ask", "arguments": [] });
            options.reverse = Some(Request::new("workspace/executeCommand", params));
        }
        options.patience = Duration::from_secs(10);
        options
    }

    fn test(&self) -> Option<Report> {
        let command = self.command.as_ref()?;
        let target = Program::new(command.iter().map(Into::into).collect());
        let report = run(&target, &self.options(), |_| {})
            .unwrap_or_else(|error| panic!("{}: {error}", self.name));
        println!("{}: {}, {:.1} s", self.name, report.summary(), report.took.as_secs_f64());
        Some(report)
    }
}

fn failed(report: &Report) -> Vec<&Outcome> {
    report
        .outcomes
        .iter()
        .filter(|outcome| matches!(outcome.verdict, Verdict::Fail { .. }))
        .collect()
}

/// What is known of these peers comes out.
fn known_truths(name: &str, report: &Report) {
    let fails = |id: &str| failed(report).iter().any(|outcome| outcome.id == id);
    let holds = |id: &str| {
        (report.outcomes.iter()).any(|outcome| outcome.id == id && outcome.verdict == Verdict::Pass)
    };
    if name.starts_with("MCP TypeScript") || name.starts_with("server-everything") {
        assert!(fails("cancel/id-zero"), "id 0 can be cancelled in {name}");
        assert!(holds("cancel/one-read"), "no request can be cancelled in {name}");
    }
    if name.starts_with("MCP Python") {
        assert!(fails("cancel/other-type"), "\"7\" and 7 are two ids in {name}");
    }
    if name.starts_with("clangd") {
        assert_eq!(failed(report).len(), 0, "{name}");
        assert!(holds("cancel/one-read"), "no request can be cancelled in {name}");
    }
    if name.starts_with("pylsp") {
        assert!(fails("honour/one-read"), "{name} honours a cancel");
    }
    if name.starts_with("typescript-language-server") {
        assert!(fails("honour/whole"), "{name} answers a cancel with all of its result");
    }
    if name.starts_with("tower-lsp") {
        assert!(fails("load/asking"), "{name} reads on while it waits for its client");
    }
    if name.starts_with("debugpy") || name.starts_with("lldb-dap") {
        assert_eq!(report.count("not applicable"), report.outcomes.len() - 3, "{name}");
        assert!(holds("output/clean"), "{name}");
    }
}

#[test]
fn what_is_known_of_real_servers_comes_out() {
    let peers: Vec<Peer> = installed().into_iter().chain(more()).collect();
    let mut tested: Vec<(&Peer, Report)> = Vec::new();
    for peer in &peers {
        tested.extend(peer.test().map(|report| (peer, report)));
        if env::var_os("BLESS").is_some() {
            let page =
                Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/conformance-results.md");
            fs::write(page, page_of(&tested)).unwrap();
        }
    }
    for (peer, report) in &tested {
        known_truths(peer.name, report);
    }
}

fn page_of(tested: &[(&Peer, Report)]) -> String {
    let mut page = String::from(HEAD);
    for protocol in ["lsp", "mcp", "acp", "dap"] {
        let columns: Vec<(&str, &Report)> = tested
            .iter()
            .filter(|(peer, _)| peer.dialect.name.starts_with(protocol))
            .map(|(peer, report)| (peer.name, report))
            .collect();
        page += &format!("## {protocol}\n\n{}\n", matrix(&columns));
        for (peer, report) in
            tested.iter().filter(|(peer, _)| peer.dialect.name.starts_with(protocol))
        {
            page += &section(peer, report);
        }
    }
    page
}

fn section(peer: &Peer, report: &Report) -> String {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let root = here.ancestors().nth(2).unwrap_or(here).to_string_lossy().into_owned();
    let more = env::var("RESCIND_MORE_PEERS").unwrap_or_else(|_| "/nowhere".into());
    let command = peer.command.as_ref().map(|words| words.join(" ")).unwrap_or_default();
    let command = command.replace(&format!("{root}/"), "").replace(&more, "more");
    let command = command.split(' ').map(|word| match word.split_once("/debug/") {
        Some((_, program)) => format!("tests/interop/target/debug/{program}"),
        None => word.into(),
    });
    let command: Vec<String> = command.collect();
    let space = if peer.arguments.is_empty() { "" } else { " " };
    let mut out = format!(
        "### {}\n\nIt says that it is {}, and speaks `{}`: {}.\n\n```sh\nrescind conform server --dialect {} {}{space}-- {}\n```\n\n",
        peer.name,
        match report.facts["server"].as_str() {
            Some("") | None => "nobody".into(),
            Some(name) => format!("`{name}`"),
        },
        report.facts["dialect"].as_str().unwrap_or_default(),
        report.summary(),
        peer.dialect.name,
        peer.arguments,
        command.join(" "),
    );
    for outcome in failed(report) {
        let why: String = outcome.verdict.why().unwrap_or_default().chars().take(300).collect();
        out += &format!("- `--only {}` ({}): {why}\n", outcome.id, outcome.level);
    }
    if !failed(report).is_empty() {
        out.push('\n');
    }
    out
}

const HEAD: &str = "\
# What real servers do

`rescind conform` on servers that our tests use, each in the version that is named: what was seen, with the line that shows it
again. These are facts about versions, no grades: SHOULD is a recommendation, information is nobody's duty, and what a server does
not do it may have good reasons for. The checks are told in [conformance.md](conformance.md).

This page is generated. The peers come from `tests/interop/install`, and more of them by

```sh
mkdir more && cd more
npm install typescript-language-server@6.0.2 typescript@5.9.3
python3 -m venv py && py/bin/pip install python-lsp-server==1.15.0 ty==0.0.105 fastmcp==4.1.2
apt-get install gopls lldb-19
RESCIND_MORE_PEERS=$PWD BLESS=1 cargo test --manifest-path ../tests/interop/Cargo.toml --test conform
```

*holds* was seen to hold, *does not hold* was seen not to, *?* could not be tried or nothing was seen either way; an empty cell is not
asked for by the protocol that is spoken.

";
