//! One fault, as it is written: `delay response 2s method tools/* 10% to client`.

use std::time::Duration;

use bytesize::ByteSize;
use protocol_relay::Side;
use wildmatch::WildMatch;

/// A fault of the command line: the value of one `--fault`.
#[derive(Clone, Debug)]
pub(in crate::relay) struct Fault {
    /// As it was written.
    pub(super) text: String,
    pub(super) deed: Deed,
    /// `None`: every kind.
    pub(super) kind: Option<Kind>,
    pub(super) method: Option<WildMatch>,
    /// The share of messages that it strikes, in percent.
    pub(super) percent: f64,
    /// Towards whom; `None`: both.
    pub(super) side: Option<Side>,
}

/// The deed of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Deed {
    Drop,
    /// Others pass it meanwhile.
    Delay(Duration),
    Duplicate,
    /// The connection ends after so many bytes.
    Cut(u64),
}

/// The kind of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Request,
    Notification,
    Cancel,
    Response,
}

const DEEDS: &str = "drop, delay, duplicate, cut";
const KINDS: [(&str, Option<Kind>); 5] = [
    ("request", Some(Kind::Request)),
    ("notification", Some(Kind::Notification)),
    ("cancel", Some(Kind::Cancel)),
    ("response", Some(Kind::Response)),
    ("message", None),
];

/// The words of a fault, each with the place where it stands.
struct Words<'a> {
    rest: std::vec::IntoIter<(usize, &'a str)>,
    end: usize,
}

impl<'a> Words<'a> {
    fn of(text: &'a str) -> Self {
        let place = |word: &str| word.as_ptr() as usize - text.as_ptr() as usize;
        let words: Vec<_> = text.split_whitespace().map(|word| (place(word), word)).collect();
        Self { rest: words.into_iter(), end: text.len() }
    }

    fn next(&mut self, wanted: &str) -> Result<(usize, &'a str), String> {
        self.rest.next().ok_or_else(|| format!("at byte {}: {wanted} is missing", self.end))
    }
}

/// Reads a fault; an error says which word is wrong, and where it stands.
pub(super) fn parse(text: &str) -> Result<Fault, String> {
    let mut words = Words::of(text);
    let (at, word) = words.next(&format!("one of {DEEDS}"))?;
    let (deed, kind) = match word {
        "drop" => (Deed::Drop, kind(&mut words)?),
        "duplicate" => (Deed::Duplicate, kind(&mut words)?),
        "delay" => {
            let kind = kind(&mut words)?;
            let (at, time) = words.next("a time such as 2s")?;
            let time = crate::duration(time);
            (Deed::Delay(time.map_err(|error| format!("at byte {at}: {error}"))?), kind)
        }
        "cut" => (cut(&mut words)?, None),
        _ => return Err(format!("at byte {at}: `{word}` is none of {DEEDS}")),
    };
    let text = text.to_owned();
    let mut fault = Fault { text, deed, kind, method: None, percent: 100.0, side: None };
    while let Some((at, word)) = words.rest.next() {
        match word {
            "method" => fault.method = Some(WildMatch::new(words.next("a method")?.1)),
            "to" => {
                let (at, whom) = words.next("`client` or `server`")?;
                fault.side = match whom {
                    "client" => Some(Side::Up),
                    "server" => Some(Side::Down),
                    _ => {
                        return Err(format!("at byte {at}: `{whom}` is neither client nor server"));
                    }
                };
            }
            _ => {
                let percent = word.strip_suffix('%').and_then(|number| number.parse().ok());
                let percent = percent.filter(|percent| (0.0..=100.0).contains(percent));
                fault.percent = percent.ok_or_else(|| {
                    format!(
                        "at byte {at}: `{word}` is none of method GLOB, 10%, to client, to server"
                    )
                })?;
            }
        }
    }
    let is_cut = matches!(deed, Deed::Cut(_));
    if is_cut && (fault.method.is_some() || fault.percent < 100.0) {
        return Err("a cut is made after so many bytes, whatever they are".into());
    }
    Ok(fault)
}

/// Reads after how many bytes a connection is cut.
fn cut(words: &mut Words<'_>) -> Result<Deed, String> {
    let (at, after) = words.next("`after`")?;
    if after != "after" {
        return Err(format!("at byte {at}: `{after}` should be `after`"));
    }
    let (at, size) = words.next("a size such as 1MiB")?;
    let bytes = size.parse::<ByteSize>().map_err(|error| format!("at byte {at}: {error}"))?;
    match bytes.as_u64() {
        0 => Err(format!("at byte {at}: `{size}` leaves nothing to cut after")),
        bytes => Ok(Deed::Cut(bytes)),
    }
}

fn kind(words: &mut Words<'_>) -> Result<Option<Kind>, String> {
    let names = KINDS.map(|(name, _)| name).join(", ");
    let (at, word) = words.next(&format!("one of {names}"))?;
    let found = KINDS.iter().find(|(name, _)| *name == word);
    found.map(|(_, kind)| *kind).ok_or_else(|| format!("at byte {at}: `{word}` is none of {names}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_is_read_word_by_word() {
        let fault = parse("drop cancel").unwrap();
        assert_eq!((fault.deed, fault.kind, fault.side), (Deed::Drop, Some(Kind::Cancel), None));
        let fault = parse(" delay  response 2s method tools/* 2.5% to client ").unwrap();
        assert_eq!(fault.deed, Deed::Delay(Duration::from_secs(2)));
        assert_eq!((fault.kind, fault.side), (Some(Kind::Response), Some(Side::Up)));
        assert!(fault.method.unwrap().matches("tools/call"));
        assert!((fault.percent - 2.5).abs() < 1e-9);
        assert_eq!(parse("cut after 1MiB to server").unwrap().deed, Deed::Cut(1 << 20));
        assert_eq!(parse("duplicate message").unwrap().kind, None);
    }

    #[test]
    fn what_is_wrong_in_a_fault_is_named_with_its_place() {
        for (text, error) in [
            ("", "at byte 0: one of drop, delay, duplicate, cut is missing"),
            ("lose cancel", "at byte 0: `lose` is none of drop, delay, duplicate, cut"),
            (
                "drop cancle",
                "at byte 5: `cancle` is none of request, notification, cancel, response, message",
            ),
            ("delay response", "at byte 14: a time such as 2s is missing"),
            ("cut before 3", "at byte 4: `before` should be `after`"),
            ("cut after 0B", "at byte 10: `0B` leaves nothing to cut after"),
            (
                "drop cancel 200%",
                "at byte 12: `200%` is none of method GLOB, 10%, to client, to server",
            ),
            ("drop cancel to me", "at byte 15: `me` is neither client nor server"),
            ("cut after 1MiB 5%", "a cut is made after so many bytes, whatever they are"),
        ] {
            assert_eq!(parse(text).unwrap_err(), error, "{text}");
        }
    }
}
