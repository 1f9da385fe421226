//! The names of methods.

use core::borrow::Borrow;
use core::fmt;
use core::ops::Deref;

use alloc::string::String;
use compact_str::CompactString;

/// The name of a method: a string that needs no allocation up to 24 bytes.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
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

/// Allows look-ups by a string, since a name is hashed and ordered as one.
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

/// The most bytes that [`clip`] returns.
pub const CLIPPED: usize = 128;

/// Returns the beginning of a method's name, for an error message: the peer chose the length of the name.
pub fn clip(method: &str) -> &str {
    clip_to(method, CLIPPED)
}

/// Returns as many whole characters of a text as fit into this many bytes.
pub fn clip_to(text: &str, bytes: usize) -> &str {
    let mut end = text.len().min(bytes);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

#[cfg(test)]
mod tests {
    use alloc::borrow::ToOwned;

    use alloc::string::String;

    use super::*;

    #[test]
    fn a_name_becomes_a_string_and_a_string_a_name() {
        for name in ["", "session/prompt", &"long".repeat(100)] {
            assert_eq!(String::from(MethodName::from(name.to_owned())), name);
        }
    }
}
