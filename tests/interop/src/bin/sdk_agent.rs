//! The crate `agent-client-protocol` as an agent on standard input and output.

use agent_client_protocol::Error;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    rescind_interop::sdk::agent(tokio::io::stdin(), tokio::io::stdout()).await
}
