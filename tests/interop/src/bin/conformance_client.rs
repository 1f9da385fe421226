//! The client that the scenarios of `@modelcontextprotocol/conformance` ask for: `conformance_client URL`.
//!
//! The suite names the scenario and the revision in the environment.

use std::env;
use std::error::Error;

use rescind::core::Shutdown;
use rescind::http::Rules;
use rescind::http::connect::{ClientOptions, connect};
use rescind::{CallError, Config, Peer, Router};
use serde_json::{Value, json};

/// The code of a version that the server does not speak.
const UNSUPPORTED_VERSION: i64 = -32022;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = env::args().next_back().unwrap_or_default();
    let said = env::var("MCP_CONFORMANCE_PROTOCOL_VERSION").unwrap_or_default();
    let rules = Rules::named(&said).unwrap_or(&Rules::MCP_2025_11_25);
    let scenario = env::var("MCP_CONFORMANCE_SCENARIO").unwrap_or_default();
    let config = Config::client(rules.dialect.clone());
    let (peer, incoming, driver) = connect(url.parse()?, config, ClientOptions::default());
    let driver = tokio::spawn(driver);
    let router = Router::new().request("elicitation/create", async |asked: Value, _| {
        let defaults = asked["requestedSchema"]["properties"].as_object().into_iter().flatten();
        let defaults =
            defaults.filter_map(|(name, it)| Some((name.clone(), it.get("default")?.clone())));
        Ok(json!({ "action": "accept", "content": defaults.collect::<Value>() }))
    });
    tokio::spawn(async move { router.serve(&incoming).await });
    let client = Client { peer, rules };
    client.open().await?;
    client.play(&scenario).await?;
    client.peer.shutdown(Shutdown::Drain);
    Ok(driver.await??)
}

struct Client {
    peer: Peer,
    rules: &'static Rules,
}

impl Client {
    /// Opens a session, or finds out what a server without sessions is.
    async fn open(&self) -> Result<(), CallError> {
        if self.rules.has_sessions {
            let capabilities = json!({ "elicitation": { "applyDefaults": true }, "sampling": {} });
            let version = self.rules.version;
            let params = json!({ "protocolVersion": version, "capabilities": capabilities, "clientInfo": info() });
            self.peer.call::<Value>("initialize", params).await?;
            return Ok(self.peer.notify("notifications/initialized", json!({})).await?);
        }
        match self.call("server/discover", json!({})).await {
            // The version was ours, and is among those that the server lists: it is asked again.
            Err(CallError::Error(error)) if error.code == UNSUPPORTED_VERSION => {
                self.call("server/discover", json!({})).await.map(drop)
            }
            // It is optional for a server of a scenario.
            Err(CallError::Error(_)) | Ok(_) => Ok(()),
            Err(error) => Err(error),
        }
    }

    async fn call(&self, method: &str, mut params: Value) -> Result<Value, CallError> {
        if !self.rules.has_sessions {
            params["_meta"] = json!({
                "io.modelcontextprotocol/protocolVersion": self.rules.version,
                "io.modelcontextprotocol/clientInfo": info(),
                "io.modelcontextprotocol/clientCapabilities": { "elicitation": {}, "sampling": {} },
            });
        }
        self.peer.call(method, params).await
    }

    /// Lists the tools and calls them, with the arguments that the scenario wants.
    async fn play(&self, scenario: &str) -> Result<(), CallError> {
        let listed = self.call("tools/list", json!({})).await?;
        if matches!(scenario, "initialize" | "request-metadata" | "json-schema-ref-no-deref") {
            return Ok(());
        }
        let context = env::var("MCP_CONFORMANCE_CONTEXT").unwrap_or_default();
        let context: Value = serde_json::from_str(&context).unwrap_or_default();
        if let Some(calls) = context["toolCalls"].as_array() {
            for call in calls {
                self.call("tools/call", call.clone()).await?;
            }
            return Ok(());
        }
        let tools = listed["tools"].as_array().map_or(&[][..], |tools| tools);
        for tool in tools {
            let schema = &tools[0]["inputSchema"];
            let arguments = match &tool["name"] {
                name if name == "json_schema_echo" => json!({ "schema": schema }),
                _ => json!({ "a": 2, "b": 3 }),
            };
            self.call("tools/call", json!({ "name": tool["name"], "arguments": arguments }))
                .await?;
        }
        if scenario == "http-standard-headers" {
            for (list, each, get, key) in [
                ("resources/list", "resources", "resources/read", "uri"),
                ("prompts/list", "prompts", "prompts/get", "name"),
            ] {
                let listed = self.call(list, json!({})).await?;
                self.call(get, json!({ key: listed[each][0][key] })).await?;
            }
        }
        Ok(())
    }
}

fn info() -> Value {
    json!({ "name": "conformance", "version": "0.0.0" })
}
