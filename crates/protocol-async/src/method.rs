//! Methods: their names, and what goes with a name.

use std::borrow::Borrow;
use std::fmt;
use std::ops::Deref;

use compact_str::CompactString;

/// A method as a type: its name, what it takes and what it gives. A notification is one whose
/// result is `()`.
///
/// The types of another crate fit it through a type of one's own, which takes a few lines for all of
/// them. With a trait like that of `lsp_types`:
///
/// ```
/// use protocol_async::{Method, Router};
/// use std::marker::PhantomData;
///
/// # mod lsp_types {
/// #     pub trait Request { type Params; type Result; const METHOD: &'static str; }
/// #     pub enum HoverRequest {}
/// #     impl Request for HoverRequest {
/// #         type Params = (u32, u32);
/// #         type Result = Option<String>;
/// #         const METHOD: &'static str = "textDocument/hover";
/// #     }
/// # }
/// # use lsp_types::HoverRequest;
/// struct Lsp<R>(PhantomData<R>);
///
/// impl<R: lsp_types::Request> Method for Lsp<R> {
///     const NAME: &'static str = R::METHOD;
///     type Params = R::Params;
///     type Result = R::Result;
/// }
///
/// let router = Router::new()
///     .on_request::<Lsp<HoverRequest>, _>(async |at, _| Ok(Some(format!("{at:?}"))));
/// ```
pub trait Method {
    /// Its name on the wire.
    const NAME: &'static str;
    /// What it takes.
    type Params;
    /// What it gives.
    type Result;
}

/// The name of a method: a string that needs no allocation up to 24 bytes.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct MethodName(CompactString);

impl MethodName {
    /// Returns the name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Deref for MethodName {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

/// For look-ups by a string: a name is hashed as one.
impl Borrow<str> for MethodName {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl From<&str> for MethodName {
    fn from(name: &str) -> Self {
        Self(name.into())
    }
}

impl From<String> for MethodName {
    fn from(name: String) -> Self {
        Self(name.into())
    }
}

impl From<MethodName> for String {
    fn from(method: MethodName) -> Self {
        method.0.into()
    }
}

impl PartialEq<str> for MethodName {
    fn eq(&self, name: &str) -> bool {
        self.0 == name
    }
}

impl PartialEq<&str> for MethodName {
    fn eq(&self, name: &&str) -> bool {
        self.0 == *name
    }
}

impl fmt::Display for MethodName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for MethodName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The bytes of a name that is clipped.
pub(crate) const CLIPPED: usize = 128;

/// A method's name for a message: the peer chose how long it is.
pub(crate) fn clip(method: &str) -> &str {
    clip_to(method, CLIPPED)
}

/// As many whole characters of a text as so many bytes hold.
pub(crate) fn clip_to(text: &str, bytes: usize) -> &str {
    let mut end = text.len().min(bytes);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_becomes_a_string_and_a_string_a_name() {
        for name in ["", "session/prompt", &"long".repeat(100)] {
            assert_eq!(String::from(MethodName::from(name.to_owned())), name);
        }
    }
}
