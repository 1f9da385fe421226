//! The same server in the envelope of the Debug Adapter Protocol.

use std::io::BufRead;
use std::sync::Arc;

use serde_json::{Value, json};

use super::{Fault, Protocol, Server};

/// Returns the next message, or `None` at the end.
pub(super) fn frame(input: &mut impl BufRead) -> Option<String> {
    let mut length = None;
    loop {
        let mut line = String::new();
        if input.read_line(&mut line).ok()? == 0 {
            return None;
        }
        match line.trim_end() {
            "" => break,
            header => {
                let value = header.strip_prefix("Content-Length: ");
                length = length.or(value.and_then(|value| value.parse().ok()));
            }
        }
    }
    let mut message = vec![0; length?];
    input.read_exact(&mut message).ok()?;
    String::from_utf8(message).ok()
}

pub(super) fn framed(message: &str) -> String {
    format!("Content-Length: {}\r\n\r\n{message}", message.len())
}

/// The same with a length in characters: that is a fault.
pub(super) fn framed_by_characters(message: &str) -> String {
    format!("Content-Length: {}\r\n\r\n{message}", message.chars().count())
}

impl Server {
    pub(super) fn take_dap(self: &Arc<Self>, message: &str) {
        let Ok(message) = serde_json::from_str::<Value>(message) else { return };
        let (seq, command) = (message["seq"].to_string(), message["command"].as_str());
        let command = command.unwrap_or_default().to_owned();
        self.lock().commands.insert(seq.clone(), command.clone());
        if command != self.cancel_method() {
            return self.request(&seq, &command, &message["arguments"]);
        }
        let named = message["arguments"]["requestId"].to_string();
        let is_second = !self.lock().acknowledged.insert(named);
        let is_lost = match self.fault {
            Fault::NeverAcknowledges => true,
            Fault::AcknowledgesOnce => is_second,
            _ => false,
        };
        if !is_lost {
            self.answer(&seq, &json!({ "result": null }));
        }
        let mut arguments = message.get("arguments").cloned();
        if let Some(progress) = arguments.as_ref().and_then(|it| it["progressId"].as_str()) {
            let id: u64 = progress.trim_start_matches('p').parse().unwrap_or(0);
            arguments = Some(json!({ "requestId": id }));
        }
        self.cancel(arguments);
    }

    /// Reports the start or the end of the progress of a request.
    pub(super) fn report_work(&self, event: &str, id: &str, token: Option<&str>) {
        let kind = if event == "progressStart" { "begin" } else { "end" };
        match (self.protocol, token) {
            (Protocol::Lsp, Some(token)) => return self.report(token, kind),
            (Protocol::Dap, _) => {}
            _ => return,
        }
        let mut body = json!({ "progressId": format!("p{id}") });
        if event == "progressStart" {
            body["requestId"] = json!(id.parse::<u64>().unwrap_or(0));
            body["title"] = json!("slow");
            body["cancellable"] = json!(true);
        }
        self.say(json!({ "seq": 0, "type": "event", "event": event, "body": body }).to_string());
    }

    pub(super) fn answer_dap(&self, id: &str, result: &Value) {
        let command = self.lock().commands.get(id).cloned().unwrap_or_default();
        let mut answer = json!({
            "seq": 0,
            "type": "response",
            "request_seq": id.parse::<u64>().unwrap_or(0),
            "command": command,
            "success": result.get("error").is_none(),
        });
        match &result["error"]["code"] {
            Value::Null => answer["body"] = result["result"].clone(),
            code if *code == -32800 => answer["message"] = json!("cancelled"),
            _ => answer["message"] = json!("no"),
        }
        self.say(answer.to_string());
    }
}
