//! The known bugs that show from outside, tried on the SDKs and on us: docs/interop.md. `BLESS=1` rewrites it.

mod acp;
mod mcp;
mod wire;

use std::path::Path;
use std::{env, fs, thread};

#[test]
fn docs_say_what_each_does() {
    let (acp, mcp) = thread::scope(|scope| {
        let acp = scope.spawn(acp::table);
        let mcp = mcp::table();
        (acp.join().expect("the rows of ACP hold"), mcp)
    });
    let (Some(acp), Some(mcp)) = (acp, mcp) else { return };
    print!("{acp}\n{mcp}");
    let document = include_str!("page").replace("{acp}", &acp).replace("{mcp}", &mcp);
    committed(&document);
}

fn committed(document: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/interop.md");
    if env::var("BLESS").as_deref() == Ok("1") {
        fs::write(path, document).expect("docs/ can be written to");
    } else {
        let committed = fs::read_to_string(path).expect("docs/interop.md is committed");
        assert_eq!(committed, document, "BLESS=1 rewrites it");
    }
}
