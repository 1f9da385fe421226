//! jsonrpsee's own server of WebSockets, with its defaults.

use attacked::Sleep;
use jsonrpsee::RpcModule;
use jsonrpsee::server::Server;
use jsonrpsee::types::ErrorObjectOwned;
use serde_json::Value;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut module = RpcModule::new(());
    module.register_async_method("echo", async |params, _, _| params.parse::<Value>())?;
    module.register_async_method("sleep", async |params, _, _| {
        params.parse::<Sleep>()?.sleep().await;
        Ok::<_, ErrorObjectOwned>(())
    })?;
    let server = Server::builder().build("127.0.0.1:0").await?;
    eprintln!("listening on ws://{}", server.local_addr()?);
    server.start(module).stopped().await;
    Ok(())
}
