//! Messages of a hostile peer that take as much memory as they can.

use protocol_core::{Dialect, Envelope};
use protocol_testkit::Hostile;

use crate::bytes::Bytes;

/// Texts that are long in one place, as the content of a JSON string of so many bytes.
const TEXTS: [fn(usize) -> String; 5] = [
    |len| "x".repeat(len),
    |len| format!("\\n{}", "x".repeat(len.saturating_sub(2))),
    // The last escape makes a buffer double that was just full.
    |len| format!("\\n{}\\n", "x".repeat(len.saturating_sub(4))),
    |len| "\\n".repeat(len / 2),
    |len| "\\u0041".repeat(len / 6),
];

/// Writes the next message that the bytes choose, of at most about so many bytes.
pub(crate) fn message(
    bytes: &mut Bytes<'_>,
    dialect: &Dialect,
    most: usize,
    nth: usize,
) -> Vec<u8> {
    let kind = bytes.byte() % 16;
    let number = usize::from(bytes.byte() % 64) + nth;
    let len = match bytes.byte() % 6 {
        0 => 1,
        1 => 14,
        2 => 63,
        3 => 300,
        4 => most / 2,
        _ => most.saturating_sub(150),
    };
    let text = (bytes.pick(&TEXTS))(len.min(most));
    let id = match bytes.byte() % 4 {
        0 => format!("{number}"),
        1 => format!("\"{number}\""),
        2 => format!("\"{number}{text}\""),
        _ => format!("\"{}{number}\"", "\\n".repeat(bytes.byte().into())),
    };
    let message = Message { dialect, id: &id, text: &text };
    match kind {
        0 => Hostile::ALL[number % Hostile::ALL.len()].message(&id, dialect),
        1 => "[".repeat(len).into_bytes(),
        2 => format!("{}{}", "[".repeat(len / 2), "]".repeat(len / 2)).into_bytes(),
        3 => message.request("m", "{}"),
        4 => message.request(&text, "{}"),
        5 => message.notification(&text, "{}"),
        6 => message.notification("note", &format!(r#"{{"{text}":1}}"#)),
        7 => message.cancel(),
        8 => message.progress(),
        9 => message.request("tool/call", &message.token()),
        10 => message.result(number % 8),
        11 => message.error(number % 8),
        12 => message.batch(|message, at| message.with(&format!("{at}")).request("m", "{}")),
        13 => message.batch(|message, _| message.notification("note", "{}")),
        14 => message.batch(|message, at| match at % 3 {
            0 => format!(r#"{{"id":{}}}"#, message.id).into_bytes(),
            1 => b"1".to_vec(),
            _ => message.cancel(),
        }),
        _ => message.batch(|message, at| match at % 2 {
            0 => message.error(at % 8),
            _ => message.request("tool/call", &message.token()),
        }),
    }
}

#[derive(Clone, Copy)]
struct Message<'a> {
    dialect: &'a Dialect,
    id: &'a str,
    text: &'a str,
}

impl<'a> Message<'a> {
    fn with(self, id: &'a str) -> Self {
        Self { id, ..self }
    }

    fn request(self, method: &str, params: &str) -> Vec<u8> {
        let id = self.id;
        match self.dialect.envelope {
            Envelope::JsonRpc => {
                format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#)
            }
            Envelope::Abp if method == "tool/call" => {
                let options = format!(r#"{{"callId":{id}}}"#);
                let payload = format!(r#"{{"capability":"work","options":{options}}}"#);
                format!(r#"{{"type":"capabilities/call","id":{id},"payload":{payload}}}"#)
            }
            Envelope::Abp => format!(r#"{{"type":"{method}","id":{id},"payload":{params}}}"#),
            Envelope::Dap => format!(
                r#"{{"seq":{id},"type":"request","command":"{method}","arguments":{params}}}"#
            ),
        }
        .into_bytes()
    }

    fn notification(self, method: &str, params: &str) -> Vec<u8> {
        match self.dialect.envelope {
            Envelope::JsonRpc => {
                format!(r#"{{"jsonrpc":"2.0","method":"{method}","params":{params}}}"#)
            }
            Envelope::Abp => format!(r#"{{"type":"{method}","payload":{params}}}"#),
            Envelope::Dap => {
                format!(r#"{{"seq":1,"type":"event","event":"{method}","body":{params}}}"#)
            }
        }
        .into_bytes()
    }

    /// The dialect's cancel of this id, with the text as its reason.
    fn cancel(self) -> Vec<u8> {
        let (id, reason) = (self.id, self.text);
        let cancel = Hostile::Cancel.message(id, self.dialect);
        let cancel = String::from_utf8(cancel).expect("it is JSON");
        // The reason stands behind each member that names the request.
        cancel.replacen(id, &format!(r#"{id},"reason":"{reason}""#), 1).into_bytes()
    }

    /// Params with progress tokens for every dialect.
    fn token(self) -> String {
        let id = self.id;
        format!(
            r#"{{"_meta":{{"progressToken":{id}}},"progressToken":{id},"sessionId":{id},"workDoneToken":{id},"partialResultToken":"{}"}}"#,
            self.text
        )
    }

    fn progress(self) -> Vec<u8> {
        let method = self.dialect.progress.first().map_or("note", |rule| &*rule.method);
        let token = format!("\"{}\"", self.text);
        self.notification(method, &self.with(&token).token())
    }

    fn result(self, number: usize) -> Vec<u8> {
        let text = self.text;
        match self.dialect.envelope {
            Envelope::JsonRpc => format!(r#"{{"jsonrpc":"2.0","id":{number},"result":"{text}"}}"#),
            Envelope::Abp => format!(
                r#"{{"type":"capabilities/call-result","id":"{number}","payload":{{"success":true,"data":"{text}"}}}}"#
            ),
            Envelope::Dap => format!(
                r#"{{"seq":1,"type":"response","request_seq":{number},"success":true,"body":"{text}"}}"#
            ),
        }
        .into_bytes()
    }

    fn error(self, number: usize) -> Vec<u8> {
        let text = self.text;
        match self.dialect.envelope {
            Envelope::JsonRpc => {
                let error = format!(r#"{{"code":-32800,"message":"{text}","data":1}}"#);
                format!(r#"{{"jsonrpc":"2.0","id":{number},"error":{error}}}"#)
            }
            Envelope::Abp => {
                let error = format!(r#"{{"code":"{text}","message":"{text}"}}"#);
                let payload = format!(r#"{{"success":false,"error":{error}}}"#);
                format!(
                    r#"{{"type":"capabilities/call-result","id":"{number}","payload":{payload}}}"#
                )
            }
            Envelope::Dap => format!(
                r#"{{"seq":1,"type":"response","request_seq":{number},"success":false,"message":"{text}"}}"#
            ),
        }
        .into_bytes()
    }

    /// A batch of such members, as many as fit into some 8 KiB.
    fn batch(self, member: impl Fn(Self, usize) -> Vec<u8>) -> Vec<u8> {
        let most = self.text.len().max(200);
        let mut batch = b"[".to_vec();
        for at in 0..100 {
            let short = &self.text[..self.text.len() - self.text.len() % 2];
            let short = &short[..short.len().min(most / 4)];
            let member = member(Self { text: short, ..self }, at);
            if at > 0 && batch.len() + member.len() > most {
                break;
            }
            if at > 0 {
                batch.push(b',');
            }
            batch.extend_from_slice(&member);
        }
        batch.push(b']');
        batch
    }
}
