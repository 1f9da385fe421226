//! Whole texts: one value, one array, or no JSON.

use serde_json::value::RawValue;

use crate::broken;
use crate::raw::raw;
use crate::scan::Json;

/// Returns the value that a text consists of, without the space around it. Returns `None` if the text is not exactly one
/// value.
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

/// Calls `take` with every element of a text that is one array.
///
/// Returns `None` if the text is no array, or no JSON. `take` has been called then with the elements before the place where
/// that shows.
///
/// ```
/// let mut elements = Vec::new();
/// protocol_json::array("[1, [2]]", |element| elements.push(element.get())).ok_or("it is an array")?;
/// assert_eq!(elements, ["1", "[2]"]);
/// # Ok::<(), &str>(())
/// ```
pub fn array<'m>(text: &'m str, mut take: impl FnMut(&'m RawValue)) -> Option<()> {
    let json = Json::of(text);
    let (mut byte, mut at) = json.next(json.byte(b'[', json.space(0))?)?;
    while byte != b']' {
        let (end, _) = json.value(at, &mut 0)?;
        take(raw(&text[at..end]));
        (byte, at) = json.next(end)?;
        match byte {
            b',' => at = json.space(at + 1),
            b']' => {}
            _ => return None,
        }
    }
    json.end(at + 1)
}

/// Returns the position at which a text stops being JSON, as a byte offset.
///
/// It is near the end if the text is only incomplete, and the length of the text if the text is JSON. It is the position
/// that `serde_json` reports, and is found in twice the memory of a scan at most.
///
/// ```
/// assert_eq!(protocol_json::broken_at("[1,\n2;]"), 5);
/// ```
#[must_use]
pub fn broken_at(text: &str) -> usize {
    broken::broken_at(text)
}
