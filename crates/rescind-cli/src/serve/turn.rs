//! A turn of the demonstration methods: its pieces and its end.

use std::borrow::Cow;
use std::time::Duration;

use protocol_blocking::Answer;
use serde::Deserialize;
use serde_json::value::to_raw_value;
use serde_json::{Value, json};

/// Pieces that a prompt is answered in. They take 4 s, so there is time to stop it.
pub(super) const CHUNKS: u32 = 20;

/// Time between two of them.
pub(super) const CHUNK_EVERY: Duration = Duration::from_millis(200);

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Session {
    pub(super) session_id: String,
}

/// A notification to send.
pub(super) type Update = (Cow<'static, str>, Value);

/// One piece of the answer to a prompt.
pub(super) fn chunk(session: &Session, chunk: u32) -> Update {
    let update = json!({
        "sessionId": session.session_id,
        "update": {
            "sessionUpdate": "agent_message_chunk",
            "content": { "type": "text", "text": format!("{chunk} of {CHUNKS}\n") },
        },
    });
    ("session/update".into(), update)
}

/// The response to a prompt that nobody stopped.
pub(super) fn end() -> Answer {
    Ok(to_raw_value(&json!({ "stopReason": "end_turn" }))?)
}
