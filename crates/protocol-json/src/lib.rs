//! Picks a few members out of JSON text in one pass, without parsing the rest.
//!
//! With the crate `rescind` this is `rescind::json`.
//!
//! The text is checked as a whole. Values are returned as the peer wrote them.
//!
//! ```
//! use protocol_json::Members;
//! use serde_json::value::RawValue;
//!
//! let text = r#"{"id": 7, "method": "build", "params": {"targets": ["a", "b"]}, "more": [1, [2]]}"#;
//! let members = Members::of(text, &["id", "method", "params"]).ok_or("it is no object")?;
//!
//! // A member is a `RawValue`, or a decoded string.
//! assert_eq!(members.raw(2).map(RawValue::get), Some(r#"{"targets": ["a", "b"]}"#));
//! assert_eq!(members.string(1).as_deref(), Some("build"));
//!
//! // Its token is the text of the value without the space around it, which serde can parse.
//! let id = members.token(0).ok_or("there is no id")?;
//! assert_eq!(serde_json::from_str::<u64>(id)?, 7);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! - The scanner accepts exactly the text that `serde_json` accepts as a `RawValue`. [`broken_at`] returns the position
//!   where a text stops being JSON.
//! - Nothing is recursive, so no text overflows the stack.
//! - A scan allocates only for a name with escapes, and where arrays and objects are nested more than 64 deep. For the
//!   nesting it reserves about a sixteenth of the rest of the text, once.
//! - [`escape`], [`decimal`] and [`one_line`] are pieces for writing JSON by hand.
//!
//! The crate needs no `std` and has no `unsafe` code. The feature `std` adds `write_value`.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod broken;
mod lookup;
mod members;
mod plain;
mod raw;
mod scan;
mod string;
mod text;
mod write;
mod writer;

pub use lookup::{each_text, elements, may_say, member, path, text};
pub use members::{Members, Names};
pub use string::{string, unescaped};
pub use text::{array, broken_at, value};
#[cfg(feature = "std")]
pub use write::write_value;
pub use write::{decimal, escape, one_line};
pub use writer::{Member, Value, Writer};

#[cfg(test)]
mod tests;
