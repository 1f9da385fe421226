//! `stub FILE`: a server of MCP on standard streams, whose calls go on until they are cancelled. It adds a `c` to the file
//! for each cancel, and an `e` at its end.

use std::fs::{File, OpenOptions};
use std::io::{Write, stdin};

use serde_json::{Value, json};

fn main() -> std::io::Result<()> {
    let path = std::env::args().nth(1).unwrap_or_default();
    let mut told: File = OpenOptions::new().append(true).create(true).open(path)?;
    for line in stdin().lines() {
        let message: Value = serde_json::from_str(&line?)?;
        match message["method"].as_str() {
            Some("initialize") => {
                let info = json!({ "name": "stub", "version": "0" });
                let result = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": info });
                println!("{}", json!({ "jsonrpc": "2.0", "id": message["id"], "result": result }));
            }
            Some("tools/call") => {
                let token = &message["params"]["_meta"]["progressToken"];
                let params = json!({ "progressToken": token, "progress": 1 });
                let begun = json!({ "jsonrpc": "2.0", "method": "notifications/progress", "params": params });
                println!("{begun}");
            }
            Some("notifications/cancelled") => told.write_all(b"c")?,
            _ => {}
        }
    }
    told.write_all(b"e")
}
