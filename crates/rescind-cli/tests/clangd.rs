//! `rescind call` against a real language server.

use std::env;
use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::support::rescind;

/// Returns `None` if there is none. The file that `RESCIND_SKIPPED` names gets the reason.
fn clangd() -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let found = ["clangd", "clangd-19"]
        .iter()
        .flat_map(|name| env::split_paths(&path).map(move |folder| folder.join(name)))
        .find(|program| program.is_file());
    if found.is_none() {
        let reason = "clangd is not installed, and the tests that drive it did nothing";
        println!("skipped: {reason}");
        if let Some(file) = env::var_os("RESCIND_SKIPPED") {
            let mut file = fs::File::options().append(true).create(true).open(file).unwrap();
            writeln!(file, "{reason}").unwrap();
        }
    }
    found
}

/// A folder that is gone after the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = env::temp_dir().join(format!("rescind-clangd-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Returns a source file, and the messages that open it and change it.
fn session(folder: &Path) -> (String, String) {
    let mut source = String::from("#include <stddef.h>\n");
    for number in 0..2_000 {
        writeln!(source, "static size_t f{number}(size_t n) {{ return n + {number}; }}").unwrap();
    }
    source.push_str("int main(void) { return (int)f7(1); }\n");
    let file = folder.join("main.c");
    fs::write(&file, &source).unwrap();
    let uri = format!("file://{}", file.display());
    let capabilities = json!({ "processId": null, "rootUri": null, "capabilities": {} });
    let messages = [
        json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": capabilities }),
        json!({ "jsonrpc": "2.0", "method": "initialized", "params": {} }),
        json!({ "jsonrpc": "2.0", "method": "textDocument/didOpen", "params": {
            "textDocument": { "uri": uri, "languageId": "c", "version": 1, "text": source },
        } }),
        json!({ "jsonrpc": "2.0", "method": "textDocument/didChange", "params": {
            "textDocument": { "uri": uri, "version": 2 },
            "contentChanges": [{ "text": format!("{source}\nint one_more;\n") }],
        } }),
    ];
    let open = folder.join("open.jsonl");
    fs::write(&open, messages.map(|message| message.to_string()).join("\n")).unwrap();
    (open.to_str().unwrap().to_owned(), uri)
}

#[test]
fn b09_edit_request_and_cancel_in_one_write() {
    let Some(clangd) = clangd() else { return };
    let folder = Folder::new("cancel");
    let (open, uri) = session(&folder.0);
    let params = json!({ "textDocument": { "uri": uri } }).to_string();
    for _ in 0..10 {
        let said = rescind([
            "call",
            "--dialect",
            "lsp",
            "--open",
            &open,
            "--cancel-after",
            "0",
            "textDocument/documentSymbol",
            &params,
            "--",
            clangd.to_str().unwrap(),
            "--log=error",
        ]);
        assert_eq!(said.code, Some(3), "{said:?}");
        assert!(said.stderr.contains("answered with -32800"), "{said:?}");
    }
}

#[test]
fn a_hover_is_answered() {
    let Some(clangd) = clangd() else { return };
    let folder = Folder::new("hover");
    let (open, uri) = session(&folder.0);
    let position = json!({ "line": 2_001, "character": 6 });
    let params = json!({ "textDocument": { "uri": uri }, "position": position }).to_string();
    let arguments = ["call", "--dialect", "lsp", "--open", &open, "textDocument/hover", &params];
    let said = rescind(arguments.iter().chain(&["--", clangd.to_str().unwrap(), "--log=error"]));
    assert_eq!(said.code, Some(0), "{said:?}");
    let result: Value = serde_json::from_str(&said.stdout).unwrap();
    assert!(result["contents"].to_string().contains("main"), "{result}");
}
