//! A person's actions on a page, and the effects that can be seen, by the browser's own protocol.

use std::path::Path;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::{WebSocketStream, client_async_with_config};

use super::Chromium;

/// Longer than a browser takes on a loaded machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// The one page of a browser.
#[derive(Debug)]
pub struct DevTools {
    socket: WebSocketStream<TcpStream>,
    session: String,
    last: u64,
    /// The events since this was made: requests to the network, and errors.
    pub events: Vec<Value>,
}

impl DevTools {
    /// Attaches to the page of a browser.
    ///
    /// # Panics
    ///
    /// If the browser does not say where it can be reached, as all others if it does not answer.
    pub async fn attach(browser: &Chromium) -> Self {
        let address = timeout(PATIENCE, async {
            loop {
                let said = browser.said();
                let line = said.lines().find_map(|it| it.strip_prefix("DevTools listening on "));
                match line.filter(|_| said.ends_with('\n')) {
                    Some(address) => break address.trim().to_owned(),
                    None => sleep(Duration::from_millis(20)).await,
                }
            }
        });
        let address = address.await.unwrap_or_else(|_| panic!("{}", browser.said()));
        let host = address.trim_start_matches("ws://").split('/').next().unwrap_or_default();
        let stream = TcpStream::connect(host).await.expect("the browser listens");
        // A picture is one message.
        let limits = WebSocketConfig::default().max_message_size(None).max_frame_size(None);
        let connected = client_async_with_config(&address, stream, Some(limits)).await;
        let (socket, _) = connected.expect("it is a WebSocket");
        let mut tools = Self { socket, session: String::new(), last: 0, events: vec![] };
        let targets = tools.command("Target.getTargets", json!({})).await;
        let pages = targets["targetInfos"].as_array().expect("there are targets");
        let page = pages.iter().find(|it| it["type"] == "page").expect("there is a page");
        let params = json!({ "targetId": page["targetId"], "flatten": true });
        let attached = tools.command("Target.attachToTarget", params).await;
        tools.session = attached["sessionId"].as_str().expect("it is attached").into();
        for domain in ["Page", "Network", "Runtime", "Log"] {
            tools.command(&format!("{domain}.enable"), json!({})).await;
        }
        tools
    }

    /// Asks for something, and gives the result.
    ///
    /// # Panics
    ///
    /// If that is an error.
    pub async fn command(&mut self, method: &str, params: Value) -> Value {
        self.last += 1;
        let mut message = json!({ "id": self.last, "method": method, "params": params });
        if !self.session.is_empty() {
            message["sessionId"] = self.session.as_str().into();
        }
        self.socket.send(Message::text(message.to_string())).await.expect("it is open");
        loop {
            let next = timeout(PATIENCE, self.socket.next()).await;
            let next = next.unwrap_or_else(|_| panic!("{method} is not answered"));
            let next = next.expect("the browser is there").expect("it can be read");
            let Ok(mut said) = serde_json::from_slice::<Value>(&next.into_data()) else { continue };
            if said["id"] == self.last {
                assert_eq!(said["error"], Value::Null, "{method}");
                return said["result"].take();
            }
            if said["method"].is_string() {
                self.events.push(said);
            }
        }
    }

    /// Returns the value of an expression in the page, or the outcome of a promise.
    ///
    /// # Panics
    ///
    /// If it throws.
    pub async fn evaluate(&mut self, expression: &str) -> Value {
        let params = json!({
            "expression": expression,
            "awaitPromise": true,
            "returnByValue": true,
            "userGesture": true,
        });
        let mut evaluated = self.command("Runtime.evaluate", params).await;
        assert_eq!(evaluated["exceptionDetails"], Value::Null, "{expression}");
        evaluated["result"]["value"].take()
    }

    /// Waits until an expression is true.
    ///
    /// # Panics
    ///
    /// If it does not become true.
    pub async fn until(&mut self, expression: &str) {
        let waiting = timeout(PATIENCE, async {
            while self.evaluate(expression).await != true {
                sleep(Duration::from_millis(10)).await;
            }
        });
        assert!(waiting.await.is_ok(), "this never comes true: {expression}");
    }

    /// Presses keys, one after the other: a name such as `ArrowDown`, or a character.
    pub async fn press(&mut self, keys: &[&str]) {
        for key in keys {
            let mut params = json!({ "type": "keyDown", "key": key });
            if key.chars().count() == 1 {
                params["text"] = (*key).into();
            }
            self.command("Input.dispatchKeyEvent", params).await;
            let params = json!({ "type": "keyUp", "key": key });
            self.command("Input.dispatchKeyEvent", params).await;
        }
    }

    /// Shows the page in one of its themes, `light` or `dark`, on a screen of this size.
    pub async fn show(&mut self, theme: &str, width: u32, height: u32) {
        let features = json!([{ "name": "prefers-color-scheme", "value": theme }]);
        self.command("Emulation.setEmulatedMedia", json!({ "features": features })).await;
        let screen =
            json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false });
        self.command("Emulation.setDeviceMetricsOverride", screen).await;
    }

    /// Writes a picture of what can be seen.
    ///
    /// # Panics
    ///
    /// If it can't be written.
    pub async fn picture(&mut self, path: &Path) {
        let taken = self.command("Page.captureScreenshot", json!({ "format": "png" })).await;
        let bytes = STANDARD.decode(taken["data"].as_str().expect("it is a picture"));
        std::fs::write(path, bytes.expect("it is base64")).expect("it can be written");
    }
}
