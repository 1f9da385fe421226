//! Messages that no well-behaved peer writes, and framing. The one place where messages are built
//! by hand: all others are written by a real connection.

use protocol_core::{CancelRule, Dialect, Envelope, Framing, code};

/// A message that no well-behaved peer writes at that moment: stray, late, twice, or malformed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Hostile {
    /// A request of any id, also of one in flight, or of one that no request may have.
    Request,
    /// A result, also to nothing that was asked.
    Result,
    /// An error response whose code does not mean cancelled.
    Error,
    /// An error response that means cancelled, with code -32800 in JSON-RPC.
    CancelError,
    /// A response with a result and an error.
    ///
    /// It is malformed, and its call has to settle all the same (B1).
    ResultAndError,
    /// A response without `jsonrpc`, which is malformed too.
    NoVersion,
    /// A response whose code is a string, which is malformed too.
    CodeIsText,
    /// Neither method nor result nor error.
    Empty,
    /// The same with params, as only requests have them.
    OnlyParams,
    /// A request whose params are a number.
    ParamsAreNumber,
    /// A request without `jsonrpc`.
    RequestNoVersion,
    /// A cancel of any id, also of nothing.
    Cancel,
    /// A cancel that names no id.
    CancelOfNothing,
    /// Two requests and the cancel of the first, in one batch.
    ///
    /// The cancel is not lost, and the batch ends (B9, B32).
    Batch,
    /// An empty batch.
    EmptyBatch,
    /// A member of a batch that is no message, beside a notification.
    BatchOfNumbers,
    /// A number where a message should be.
    Number,
    /// Half a message.
    NotJson,
    /// Bytes that are not UTF-8.
    NotUtf8,
    /// A message of 700 bytes, which is too long where [`small`](crate::small) limits are.
    TooLong,
}

impl Hostile {
    /// All of them.
    pub const ALL: [Self; 20] = [
        Self::Request,
        Self::Result,
        Self::Error,
        Self::CancelError,
        Self::ResultAndError,
        Self::NoVersion,
        Self::CodeIsText,
        Self::Empty,
        Self::OnlyParams,
        Self::ParamsAreNumber,
        Self::RequestNoVersion,
        Self::Cancel,
        Self::CancelOfNothing,
        Self::Batch,
        Self::EmptyBatch,
        Self::BatchOfNumbers,
        Self::Number,
        Self::NotJson,
        Self::NotUtf8,
        Self::TooLong,
    ];

    /// Ids that are easily confused, and values that are no ids.
    ///
    /// No two are taken for one, and no request becomes a notification (B14, B15).
    pub const IDS: [&'static str; 12] = [
        "1",
        "2",
        "3",
        "\"1\"",
        "null",
        "1.5",
        "true",
        "[]",
        "3000000000",
        "\"\\u0031\"",
        "\"\"",
        "0",
    ];

    /// Returns the id of that number, wrapping around.
    #[must_use]
    pub const fn id(number: u8) -> &'static str {
        Self::IDS[number as usize % Self::IDS.len()]
    }

    /// Returns the message, without framing. In ABP, whose ids are strings, numbers are written as strings
    /// and strings that hold numbers as numbers.
    #[must_use]
    pub fn message(self, id: &str, dialect: &Dialect) -> Vec<u8> {
        match dialect.envelope {
            Envelope::JsonRpc => self.json_rpc(id, dialect),
            Envelope::Abp => self.abp(&swapped(id), dialect),
            Envelope::Dap => self.dap(id, dialect),
        }
    }

    /// Returns the message with the id of that number, as it stands in a stream.
    pub(crate) fn framed(self, id: u8, dialect: &Dialect) -> Vec<u8> {
        framed(&self.message(Self::id(id), dialect), dialect.framing)
    }

    fn json_rpc(self, id: &str, dialect: &Dialect) -> Vec<u8> {
        let two = r#""jsonrpc":"2.0""#;
        let cancelled = code::REQUEST_CANCELLED;
        let text = match self {
            Self::Request => format!(r#"{{{two},"id":{id},"method":"work"}}"#),
            Self::Result => format!(r#"{{{two},"id":{id},"result":null}}"#),
            Self::Error => {
                format!(r#"{{{two},"id":{id},"error":{{"code":-1,"message":"no"}}}}"#)
            }
            Self::CancelError => {
                format!(r#"{{{two},"id":{id},"error":{{"code":{cancelled},"message":"no"}}}}"#)
            }
            Self::ResultAndError => {
                format!(r#"{{{two},"id":{id},"result":1,"error":{{"code":-1,"message":"no"}}}}"#)
            }
            Self::NoVersion => format!(r#"{{"id":{id},"result":1}}"#),
            Self::CodeIsText => {
                format!(r#"{{{two},"id":{id},"error":{{"code":"-1","message":"no"}}}}"#)
            }
            Self::Empty => format!(r#"{{{two},"id":{id}}}"#),
            Self::OnlyParams => format!(r#"{{{two},"id":{id},"params":{{}}}}"#),
            Self::ParamsAreNumber => {
                format!(r#"{{{two},"id":{id},"method":"work","params":1}}"#)
            }
            Self::RequestNoVersion => format!(r#"{{"id":{id},"method":"work"}}"#),
            Self::Cancel => cancel(id, dialect),
            Self::CancelOfNothing => cancel("{}", dialect),
            Self::Batch => {
                let cancel = cancel(id, dialect);
                let request = |id| format!(r#"{{{two},"id":{id},"method":"work"}}"#);
                format!("[{},{},{cancel}]", request(id), request("\"b\""))
            }
            Self::EmptyBatch => "[]".into(),
            Self::BatchOfNumbers => format!(r#"[1,{{{two},"method":"note"}}]"#),
            Self::Number => "1".into(),
            Self::NotJson => format!(r#"{{{two},"id":{id},"method":"wo"#),
            Self::NotUtf8 => return b"{\"jsonrpc\":\"2.0\",\"method\":\"\xff\"}".to_vec(),
            Self::TooLong => {
                format!(r#"{{{two},"id":{id},"method":"{}"}}"#, "x".repeat(660))
            }
        };
        text.into_bytes()
    }

    /// Returns the same in ABP. Where JSON-RPC has a version, there is an answer to something else.
    fn abp(self, id: &str, dialect: &Dialect) -> Vec<u8> {
        let message =
            |kind, payload| format!(r#"{{"type":"{kind}","id":{id},"payload":{payload}}}"#);
        let call = |what: &str| {
            let payload = format!(r#"{{{what}"options":{{"callId":{id}}}}}"#);
            message("capabilities/call", payload)
        };
        let answer =
            |what: &str| message("capabilities/call-result", format!(r#"{{"callId":{id}{what}}}"#));
        let text = match self {
            Self::Request => call(r#""capability":"work","#),
            Self::Result => answer(r#","success":true"#),
            Self::Error => {
                answer(r#","success":false,"error":{"code":"OPERATION_FAILED","message":"no"}"#)
            }
            Self::CancelError => answer(r#","success":false,"cancelled":true"#),
            Self::ResultAndError => answer(r#","data":1"#),
            Self::NoVersion => {
                message("capabilities/cancel-result", r#"{"cancelled":true}"#.into())
            }
            Self::CodeIsText => answer(r#","success":false,"error":{"code":-1,"message":"no"}"#),
            Self::Empty => format!(r#"{{"id":{id}}}"#),
            Self::OnlyParams => format!(r#"{{"id":{id},"payload":{{}}}}"#),
            Self::ParamsAreNumber => call(r#""capability":"work","params":1,"#),
            Self::RequestNoVersion => call(""),
            Self::Batch => {
                let call = call(r#""capability":"work","#);
                format!("[{call},{}]", cancel(id, dialect))
            }
            Self::BatchOfNumbers => r#"[1,{"type":"note"}]"#.into(),
            Self::NotJson => format!(r#"{{"type":"capabilities/call","id":{id},"payl"#),
            Self::NotUtf8 => return b"{\"type\":\"\xff\"}".to_vec(),
            Self::TooLong => call(&format!(r#""capability":"{}","#, "x".repeat(660))),
            Self::Cancel | Self::CancelOfNothing | Self::EmptyBatch | Self::Number => {
                return self.json_rpc(id, dialect);
            }
        };
        text.into_bytes()
    }

    /// Returns the same in DAP. Where JSON-RPC has a version, there is a type.
    fn dap(self, id: &str, dialect: &Dialect) -> Vec<u8> {
        let request = |rest: &str| format!(r#"{{"seq":{id},"type":"request"{rest}}}"#);
        let answer =
            |rest: &str| format!(r#"{{"seq":9,"type":"response","request_seq":{id}{rest}}}"#);
        let text = match self {
            Self::Request => request(r#","command":"work""#),
            Self::Result => answer(r#","success":true,"command":"work""#),
            Self::Error => answer(r#","success":false,"message":"no""#),
            Self::CancelError => answer(r#","success":false,"message":"cancelled""#),
            Self::ResultAndError => answer(r#","message":"no","body":1"#),
            Self::NoVersion => format!(r#"{{"seq":9,"request_seq":{id},"success":true}}"#),
            Self::CodeIsText => answer(r#","success":"false","message":"no""#),
            Self::Empty => format!(r#"{{"seq":{id}}}"#),
            Self::OnlyParams => format!(r#"{{"seq":{id},"arguments":{{}}}}"#),
            Self::ParamsAreNumber => request(r#","command":"work","arguments":1"#),
            Self::RequestNoVersion => request(""),
            Self::Batch => {
                format!("[{},{}]", request(r#","command":"work""#), cancel(id, dialect))
            }
            Self::BatchOfNumbers => r#"[1,{"seq":9,"type":"event","event":"note"}]"#.into(),
            Self::NotJson => format!(r#"{{"seq":{id},"type":"request","comm"#),
            Self::NotUtf8 => return b"{\"type\":\"\xff\"}".to_vec(),
            Self::TooLong => request(&format!(r#","command":"{}""#, "x".repeat(660))),
            Self::Cancel | Self::CancelOfNothing | Self::EmptyBatch | Self::Number => {
                return self.json_rpc(id, dialect);
            }
        };
        text.into_bytes()
    }
}

/// Writes numbers as strings, and strings that hold numbers as numbers.
fn swapped(id: &str) -> String {
    match (id.parse::<f64>(), id.trim_matches('"').parse::<f64>()) {
        (Ok(_), _) => format!("\"{id}\""),
        (_, Ok(_)) => id.trim_matches('"').into(),
        _ => id.into(),
    }
}

/// Returns the dialect's cancel of an id; where it has none on the wire, that of another dialect. One that
/// is a request has an id of its own, and names the operation of the request of that number.
fn cancel(id: &str, dialect: &Dialect) -> String {
    let (method, member) = match &dialect.cancel {
        CancelRule::Notification { method, id, .. } => (&**method, &**id),
        CancelRule::Request { method, id: member, .. } if dialect.envelope == Envelope::Dap => {
            let request = format!(r#"{{"seq":77,"type":"request","command":"{method}","#);
            return format!(r#"{request}"arguments":{{"{member}":{id}}}}}"#);
        }
        CancelRule::Request { method, id: member, .. } => {
            return format!(r#"{{"type":"{method}","id":"c","payload":{{"{member}":{id}}}}}"#);
        }
        CancelRule::Operation { method, token, .. } => {
            let named = match id {
                "{}" => String::new(),
                id => format!(r#""{token}":{}"#, token_of(id)),
            };
            return format!(
                r#"{{"jsonrpc":"2.0","id":"c","method":"{method}","params":{{{named}}}}}"#
            );
        }
        _ => ("$/cancelRequest", "id"),
    };
    format!(r#"{{"jsonrpc":"2.0","method":"{method}","params":{{"{member}":{id}}}}}"#)
}

/// Returns the token of the operation that a request of this number goes on as; another id as it is.
fn token_of(id: &str) -> String {
    id.parse::<u8>()
        .map_or_else(|_| id.into(), |number| format!("\"{}\"", format!("{number:02x}").repeat(16)))
}

/// Returns a message as it stands in a stream.
#[must_use]
pub fn framed(message: &[u8], framing: Framing) -> Vec<u8> {
    match framing {
        Framing::Newline => [message, b"\n"].concat(),
        Framing::ContentLength => {
            let header = format!("Content-Length: {}\r\n\r\n", message.len());
            [header.as_bytes(), message].concat()
        }
        Framing::Whole => message.to_vec(),
    }
}

/// Returns the message in a frame.
#[must_use]
pub fn unframed(frame: &[u8], framing: Framing) -> &[u8] {
    match framing {
        Framing::Newline => frame.strip_suffix(b"\n").unwrap_or(frame),
        Framing::ContentLength => {
            let header = frame.windows(4).position(|four| four == b"\r\n\r\n");
            header.map_or(frame, |at| &frame[at + 4..])
        }
        Framing::Whole => frame,
    }
}
