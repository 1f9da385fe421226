//! The payloads that are sent and come back.

use serde::{Deserialize, Serialize};

/// The params of every request, and the result of every echo.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Payload {
    /// A text of any length.
    pub text: String,
    /// The nested parts. The member is not on the wire while there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<Node>,
}

/// A part of a nested payload.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Node {
    /// A short text.
    pub name: String,
    /// A small number.
    pub value: i64,
    /// A flag, for a JSON boolean.
    pub open: bool,
    /// The parts of this part.
    pub nodes: Vec<Node>,
}

/// The payloads that are measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// `{"text":"hello"}`: a request of 72 to 77 bytes.
    Small,
    /// 21 nodes in two levels: 1 KiB.
    Nested1K,
    /// 1,885 nodes in three levels: 100 KiB.
    Nested100K,
    /// One text of 1 MiB without escapes.
    Text1M,
}

impl Size {
    /// Every size that is measured.
    pub const ALL: [Self; 4] = [Self::Small, Self::Nested1K, Self::Nested100K, Self::Text1M];

    /// The name in metrics.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Small => "small",
            Self::Nested1K => "nested_1k",
            Self::Nested100K => "nested_100k",
            Self::Text1M => "text_1m",
        }
    }

    /// Returns a payload of this size.
    #[must_use]
    pub fn payload(self) -> Payload {
        match self {
            Self::Small => Payload { text: "hello".into(), nodes: Vec::new() },
            Self::Nested1K => Payload { text: String::new(), nodes: nodes(4, 2) },
            Self::Nested100K => Payload { text: String::new(), nodes: nodes(12, 3) },
            Self::Text1M => {
                let words = "the quick brown fox jumps over the lazy dog 0123456789 ABCDEFGH ";
                Payload { text: words.repeat((1 << 20) / words.len()), nodes: Vec::new() }
            }
        }
    }
}

fn nodes(fan: i64, levels: u32) -> Vec<Node> {
    if levels == 0 {
        return Vec::new();
    }
    let node = |value| Node {
        name: format!("node {value}"),
        value,
        open: value % 2 == 0,
        nodes: nodes(fan, levels - 1),
    };
    (0..fan).map(node).collect()
}
