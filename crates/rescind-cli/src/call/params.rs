//! The params of a call, as they are given: JSON, `@FILE` for what a file holds, or `-` for what
//! standard input does.

use std::path::Path;

use serde_json::value::RawValue;

use crate::input::{self, PARAMS, reason};

/// Reads the params that the command line names, and checks that they are an array or an object.
pub(super) fn read(given: &str) -> Result<Box<RawValue>, String> {
    let (from, read) = match (given, given.strip_prefix('@')) {
        ("-", _) => ("standard input: ".into(), input::standard(PARAMS)),
        (_, Some(file)) => (format!("{file}: "), input::text(Path::new(file), PARAMS)),
        (json, None) => (String::new(), Ok(json.into())),
    };
    let text = read.map_err(|error| format!("{from}{error}"))?;
    parse(&text).map_err(|error| format!("{from}{error}"))
}

/// Parses a JSON array or object.
pub(super) fn parse(text: &str) -> Result<Box<RawValue>, String> {
    let value: Box<RawValue> = serde_json::from_str(text).map_err(|error| {
        let before: usize = text.split_inclusive('\n').take(error.line() - 1).map(str::len).sum();
        let at = before + error.column().saturating_sub(1);
        format!("not JSON at byte {at}: {}", reason(&error))
    })?;
    match value.get().as_bytes().first() {
        Some(b'{' | b'[') => Ok(value),
        _ => Err("params must be a JSON array or object".into()),
    }
}
