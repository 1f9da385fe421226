//! Names of methods.

use std::fmt;
use std::ops::Deref;

use compact_str::CompactString;

/// The name of a method: a string that needs no allocation up to 24 bytes.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct Method(CompactString);

impl Method {
    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Deref for Method {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl From<&str> for Method {
    fn from(name: &str) -> Self {
        Self(name.into())
    }
}

impl From<String> for Method {
    fn from(name: String) -> Self {
        Self(name.into())
    }
}

impl From<Method> for String {
    fn from(method: Method) -> Self {
        method.0.into()
    }
}

impl PartialEq<str> for Method {
    fn eq(&self, name: &str) -> bool {
        self.0 == name
    }
}

impl PartialEq<&str> for Method {
    fn eq(&self, name: &&str) -> bool {
        self.0 == *name
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A method's name for a message: the peer chose how long it is.
pub(crate) fn clip(method: &str) -> &str {
    const LONGEST: usize = 128;
    let mut end = method.len().min(LONGEST);
    while !method.is_char_boundary(end) {
        end -= 1;
    }
    &method[..end]
}
