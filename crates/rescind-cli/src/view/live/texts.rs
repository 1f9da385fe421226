//! The messages of the requests in the table, as far as they find room.

use std::collections::BTreeMap;
use std::mem;

use protocol_record::line::{Direction, Message};

use crate::terminal::harmless;
use crate::view::chart::label;
use crate::view::page::{MESSAGES, TEXT};

/// So many bytes of all messages are kept; then those of the oldest requests go.
pub(super) const TEXTS: usize = 16 << 20;

/// One message of a request.
#[derive(Debug)]
pub(super) struct Text {
    pub(super) t: u64,
    pub(super) hop: String,
    pub(super) dir: Direction,
    /// The kind of the message, in few words.
    pub(super) label: String,
    /// Its first characters, if messages are recorded.
    pub(super) text: Option<String>,
}

impl Text {
    fn bytes(&self) -> usize {
        let strings = [&self.hop, &self.label].map(String::len).iter().sum::<usize>();
        mem::size_of::<Self>() + strings + self.text.as_ref().map_or(0, String::len)
    }
}

/// Messages by the number of their request.
#[derive(Debug, Default)]
pub(super) struct Texts {
    most: usize,
    of: BTreeMap<u64, Vec<Text>>,
    bytes: usize,
}

impl Texts {
    /// None yet; so many bytes of them find room.
    pub(super) const fn new(most: usize) -> Self {
        Self { most, of: BTreeMap::new(), bytes: 0 }
    }

    /// Keeps the parts of a message that are about requests.
    pub(super) fn keep(&mut self, message: &Message<'_>, requests: &[Option<u64>]) {
        for (part, number) in message.parts.iter().zip(requests) {
            let Some(number) = number else { continue };
            let texts = self.of.entry(*number).or_default();
            if texts.len() >= MESSAGES {
                continue;
            }
            let text = Text {
                t: message.t,
                hop: message.hop.to_string(),
                dir: message.dir,
                label: cut(&label(part)),
                text: message.text.as_deref().map(cut),
            };
            self.bytes += text.bytes();
            texts.push(text);
        }
        while self.bytes > self.most {
            let Some((number, _)) = self.of.first_key_value() else { return };
            self.forget(*number);
        }
    }

    pub(super) fn forget(&mut self, number: u64) {
        let texts = self.of.remove(&number).unwrap_or_default();
        self.bytes -= texts.iter().map(Text::bytes).sum::<usize>();
    }

    pub(super) fn of(&self, number: u64) -> &[Text] {
        self.of.get(&number).map_or(&[], Vec::as_slice)
    }
}

/// The beginning of a text, with nothing in it that a terminal obeys.
pub(super) fn cut(text: &str) -> String {
    let mut cut: String = text.chars().take(TEXT).collect();
    if cut.len() < text.len() {
        cut.push('…');
    }
    harmless(&cut)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: usize = 1 << 20;

    /// Messages that are as long as can be, of as many requests as there may be.
    #[test]
    fn g08_messages_are_kept_up_to_so_many_bytes() {
        let mut texts = Texts::new(MOST);
        let text = "\u{1b}".repeat(3_000);
        let line = serde_json::json!({
            "t": 1, "hop": "a", "dir": "sent", "bytes": 9,
            "parts": [{ "kind": "request", "id": 1, "method": text }], "text": text,
        })
        .to_string();
        let message: Message<'_> = serde_json::from_str(&line).unwrap();
        for number in 0..20 {
            for _ in 0..=MESSAGES {
                texts.keep(&message, &[Some(number)]);
            }
            assert!(texts.of(number).len() == MESSAGES && texts.bytes <= MOST);
        }
        assert!(texts.of(0).is_empty() && texts.of(19)[0].label.len() < 7 * TEXT);
        let kept: usize = texts.of.values().flatten().map(Text::bytes).sum();
        assert_eq!(kept, texts.bytes);
        (0..20).for_each(|number| texts.forget(number));
        assert_eq!(texts.bytes, 0);
    }
}
