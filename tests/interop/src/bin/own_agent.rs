//! Our library on tokio as an agent on standard input and output.

#[tokio::main(flavor = "current_thread")]
async fn main() {
    rescind_interop::own::agent(tokio::io::stdin(), tokio::io::stdout()).await;
    // tokio reads standard input on a thread that nothing can interrupt.
    std::process::exit(0);
}
