//! The crate `rmcp` as a server on standard input and output.

#[tokio::main(flavor = "current_thread")]
async fn main() {
    rescind_interop::mcp::sdk::serve(tokio::io::stdin(), tokio::io::stdout()).await;
    // tokio reads standard input on a thread that nothing can interrupt.
    std::process::exit(0);
}
