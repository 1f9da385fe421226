//! JSON text, checked as a whole and taken apart at its outermost level in one pass. What stands inside is not
//! parsed, but handed on as the peer wrote it.
//!
//! ```
//! use protocol_json::Members;
//! use serde_json::value::RawValue;
//!
//! let text = r#"{"id": 7, "method": "build", "params": {"targets": ["a", "b"]}, "more": [1, [2]]}"#;
//! let members = Members::of(text, &["id", "method", "params"]).ok_or("it is no object")?;
//!
//! // The values are there as `RawValue`s, and strings as what they say.
//! assert_eq!(members.raw(2).map(RawValue::get), Some(r#"{"targets": ["a", "b"]}"#));
//! assert_eq!(members.string(1).as_deref(), Some("build"));
//!
//! // And all of them as tokens: the text of a value, without the space around it, which serde reads.
//! let id = members.token(0).ok_or("there is no id")?;
//! assert_eq!(serde_json::from_str::<u64>(id)?, 7);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! - What is accepted is exactly what `serde_json` accepts as a `RawValue`. Where a text stops being JSON,
//!   [`broken_at`] says.
//! - Nothing is recursive, so no text overflows the stack. No memory is taken but a bit for each array or object
//!   that is open, from the 64th on, and for a name with escapes while it is compared.
//! - The rest is what a writer of JSON by hand needs: [`escape`], [`decimal`] and [`one_line`].
//!
//! No std, no `unsafe`. The feature `std` adds `write_value`.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod members;
mod raw;
mod scan;
mod text;
mod write;

pub use members::{Members, Names};
#[cfg(feature = "std")]
pub use raw::write_value;
pub use text::{array, broken_at, string, value};
pub use write::{decimal, escape, one_line};

#[cfg(test)]
mod tests;
