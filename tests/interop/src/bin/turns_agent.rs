//! Our library on tokio as an agent of ACP, version 2, on standard input and output.

use protocol_core::{Config, Dialect};

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let stdio = protocol_tokio::stdio(Config::server(Dialect::ACP_V2));
    rescind_interop::turns::agent().serve(&stdio.incoming).await;
}
