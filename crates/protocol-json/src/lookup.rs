//! Look-ups in values that were checked before.

use alloc::borrow::Cow;
use alloc::vec::Vec;

use memchr::memchr_iter;
use serde_json::value::RawValue;

use crate::members::Members;
use crate::string::string;
use crate::text::array;

/// Returns the value of the member `name` of an object. Returns `None` if the value is no object or has no such member.
/// If the member stands twice, the last one counts.
///
/// ```
/// let params = protocol_json::value(r#"{"id": 7, "reason": "too slow"}"#).ok_or("it is JSON")?;
/// let id = protocol_json::member(params, "id").ok_or("it has an id")?;
/// assert_eq!(id.get(), "7");
/// # Ok::<(), &str>(())
/// ```
#[must_use]
pub fn member<'m>(value: &'m RawValue, name: &str) -> Option<&'m RawValue> {
    Members::of(value.get(), &[name])?.raw(0)
}

/// Follows members of nested objects, from the outermost name to the innermost. A path without names leads to the value
/// itself.
///
/// ```
/// let params = protocol_json::value(r#"{"_meta": {"progressToken": "t"}}"#).ok_or("it is JSON")?;
/// let token = protocol_json::path(params, &["_meta", "progressToken"]).ok_or("it has a token")?;
/// assert_eq!(token.get(), r#""t""#);
/// # Ok::<(), &str>(())
/// ```
#[must_use]
pub fn path<'m>(value: &'m RawValue, names: &[impl AsRef<str>]) -> Option<&'m RawValue> {
    names.iter().try_fold(value, |value, name| member(value, name.as_ref()))
}

/// Returns the text that a value says, if it is a string. It does what [`string`](crate::string) does for tokens.
///
/// ```
/// let value = protocol_json::value(r#" "a\tb" "#).ok_or("it is JSON")?;
/// assert_eq!(protocol_json::text(value).as_deref(), Some("a\tb"));
/// # Ok::<(), &str>(())
/// ```
#[must_use]
pub fn text(value: &RawValue) -> Option<Cow<'_, str>> {
    string(value.get())
}

/// Returns whether a string in this value may be equal to one of `texts`. It compares bytes, and reads no JSON, so it
/// takes little time.
///
/// ```
/// let value = protocol_json::value(r#"{"state": "running"}"#).ok_or("it is JSON")?;
/// assert!(protocol_json::may_say(value, &["idle", "running"]));
/// assert!(!protocol_json::may_say(value, &["idle"]));
/// # Ok::<(), &str>(())
/// ```
#[must_use]
pub fn may_say(value: &RawValue, texts: &[impl AsRef<str>]) -> bool {
    let json = value.get().as_bytes();
    let holds = |text: &[u8]| {
        let starts = |first| memchr_iter(first, json).any(|at| json[at..].starts_with(text));
        text.first().is_none_or(|first| starts(*first))
    };
    // Letters and digits have one escape. Other bytes may have a short one.
    let is_other = |byte: &u8| !byte.is_ascii_alphanumeric();
    let may_hold = |text: &[u8]| holds(text) || text.iter().any(is_other);
    texts.iter().any(|text| may_hold(text.as_ref().as_bytes())) || holds(br"\u")
}

/// Calls `take` with the text that a value is, or with each text of the array that it is. Elements that are no strings
/// are passed over.
///
/// ```
/// let mut versions = Vec::new();
/// let value = protocol_json::value(r#"["1.0", 2, "3.0"]"#).ok_or("it is JSON")?;
/// protocol_json::each_text(value, |version| versions.push(version));
/// assert_eq!(versions, ["1.0", "3.0"]);
/// # Ok::<(), &str>(())
/// ```
pub fn each_text<'m>(value: &'m RawValue, mut take: impl FnMut(Cow<'m, str>)) {
    let mut take_text = |value| text(value).into_iter().for_each(&mut take);
    if array(value.get(), &mut take_text).is_none() {
        take_text(value);
    }
}

/// Returns the elements of a text that is one array, or the first `most` of them if there are more.
///
/// Returns `None` if the text is no array, or no JSON. The whole text is checked in any case, so a hostile million of
/// elements takes no memory.
///
/// ```
/// let elements = protocol_json::elements("[1, [2], 3]", 2).ok_or("it is an array")?;
/// assert_eq!(elements.iter().map(|element| element.get()).collect::<Vec<_>>(), ["1", "[2]"]);
/// # Ok::<(), &str>(())
/// ```
#[must_use]
pub fn elements(text: &str, most: usize) -> Option<Vec<&RawValue>> {
    let mut elements = Vec::new();
    array(text, |element| {
        if elements.len() < most {
            elements.push(element);
        }
    })?;
    Some(elements)
}

impl<'m, const N: usize> Members<'m, N> {
    /// Finds members as [`of`](Self::of) does, in a value that may be absent or no object. Nothing is found there then.
    ///
    /// ```
    /// use protocol_json::Members;
    ///
    /// let members = Members::within(protocol_json::value("[1]"), &["id"]);
    /// assert_eq!(members, Members::NONE);
    /// ```
    #[must_use]
    pub fn within(value: Option<&'m RawValue>, names: &[&str; N]) -> Self {
        value.and_then(|value| Self::of(value.get(), names)).unwrap_or(Self::NONE)
    }
}
