//! Takes the programs of the README and of the guides out of their pages, for `src/bin/guide.rs`.

use std::path::Path;
use std::{env, fs};

/// The name of each program, its page, and the place of its block among the Rust blocks there. The
/// last is the function around the block, if the block is only the body of one.
const PROGRAMS: [(&str, &str, usize, Option<&str>); 7] = [
    ("readme", "README.md", 0, None),
    ("acp_agent", "docs/guide/acp-agent.md", 0, None),
    ("typed_acp_agent", "docs/guide/acp-agent.md", 1, Some("router() -> rescind::Router")),
    ("language_server", "docs/guide/language-server.md", 0, None),
    ("language_server_with_progress", "docs/guide/language-server.md", 1, None),
    ("one_thread", "docs/guide/one-thread.md", 0, None),
    ("gateway", "docs/guide/gateway.md", 0, None),
];

fn main() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let folder = env::var("OUT_DIR").expect("cargo sets it");
    for (name, page, place, around) in PROGRAMS {
        let page = root.join(page);
        println!("cargo::rerun-if-changed={}", page.display());
        let text = fs::read_to_string(&page).expect("the page can be read");
        let blocks = text.split("\n```rust").skip(1).filter_map(|block| block.split_once('\n'));
        let block = blocks.filter_map(|(_, code)| code.split("\n```").next()).nth(place);
        let block = block.unwrap_or_else(|| panic!("{} has no program {place}", page.display()));
        let program = match around {
            Some(head) => format!("fn {head} {{\n{block}\nrouter\n}}\n"),
            None => format!("{block}\n"),
        };
        fs::write(Path::new(&folder).join(format!("{name}.rs")), program).expect("it is ours");
    }
}
