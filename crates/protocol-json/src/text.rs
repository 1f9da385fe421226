//! Texts that are one value.

use alloc::borrow::Cow;

use serde::de::IgnoredAny;
use serde_json::value::RawValue;

use crate::raw::raw;
use crate::scan::{Json, is_plain};

/// The value that a text is, without the space around it. `None` if it is not exactly one value.
///
/// ```
/// let value = protocol_json::value(" 1e3\n").ok_or("it is JSON")?;
/// assert_eq!(value.get(), "1e3");
/// assert!(protocol_json::value("1 2").is_none());
/// # Ok::<(), &str>(())
/// ```
#[must_use]
pub fn value(text: &str) -> Option<&RawValue> {
    let json = Json::of(text);
    let begin = json.space(0);
    let (end, _) = json.value(begin, &mut 0)?;
    json.end(end).map(|()| raw(&text[begin..end]))
}

/// Calls `take` with every element of a text that is one array. Returns `None` if it is no array, or no JSON;
/// `take` has been called with the elements before the place where that shows.
///
/// ```
/// let mut elements = Vec::new();
/// protocol_json::array("[1, [2]]", |element| elements.push(element.get())).ok_or("it is an array")?;
/// assert_eq!(elements, ["1", "[2]"]);
/// # Ok::<(), &str>(())
/// ```
pub fn array<'m>(text: &'m str, mut take: impl FnMut(&'m RawValue)) -> Option<()> {
    let json = Json::of(text);
    let (mut byte, mut at) = json.token(json.is(b'[', json.space(0))?)?;
    while byte != b']' {
        let (end, _) = json.value(at, &mut 0)?;
        take(raw(&text[at..end]));
        (byte, at) = json.token(end)?;
        match byte {
            b',' => at = json.space(at + 1),
            b']' => {}
            _ => return None,
        }
    }
    json.end(at + 1)
}

/// What a token says if it is a string, borrowed where it has no escapes. `None` for any other text, and
/// for a string with a lone surrogate, which can't be decoded.
///
/// ```
/// assert_eq!(protocol_json::string(r#""a\tb""#).as_deref(), Some("a\tb"));
/// assert_eq!(protocol_json::string("1"), None);
/// ```
#[must_use]
pub fn string(token: &str) -> Option<Cow<'_, str>> {
    let text = token.strip_prefix('"')?.strip_suffix('"')?;
    match is_plain(text) {
        true => Some(Cow::Borrowed(text)),
        false => serde_json::from_str(token).ok().map(Cow::Owned),
    }
}

/// About where a text that is no JSON stops being JSON: the byte, from 0, that `serde_json` tells, which is asked
/// because errors need not be fast. It is at the end if only more is missing.
///
/// ```
/// assert_eq!(protocol_json::broken_at("[1,\n2;]"), 5);
/// ```
#[must_use]
pub fn broken_at(text: &str) -> usize {
    let Err(error) = serde_json::from_str::<IgnoredAny>(text) else { return text.len() };
    let lines = text.split_inclusive('\n').take(error.line().saturating_sub(1));
    let before: usize = lines.map(str::len).sum();
    (before + error.column().saturating_sub(1)).min(text.len())
}
