//! The position where a text stops being JSON.

use serde::de::IgnoredAny;

use crate::scan::{Json, OpenBrackets, closing};

/// Returns the position that `serde_json` would report. Only single tokens are passed to it: it keeps a byte for each open
/// bracket of a whole text, and this keeps a bit.
pub(crate) fn broken_at(text: &str) -> usize {
    let json = Json::of(text);
    let (mut around, mut bracket, mut at) = (OpenBrackets::default(), None, json.space(0));
    loop {
        // A value begins here, or its name.
        if let (Some(b'{'), Some(b'"')) = (bracket, json.peek(at)) {
            let Some(end) = json.leaf(at) else { return at + broken_in(&text[at..]) };
            at = json.space(end);
            if json.peek(at) != Some(b':') {
                return misplaced(text, at);
            }
            at = json.space(at + 1);
        } else if bracket == Some(b'{') {
            return misplaced(text, at);
        }
        match json.peek(at) {
            None => return misplaced(text, at),
            Some(inner @ (b'{' | b'[')) => {
                if let Some(outer) = bracket.replace(inner) {
                    around.push(outer, text.len() - at);
                }
                at = json.space(at + 1);
                if json.peek(at) != Some(closing(inner)) {
                    continue;
                }
            }
            Some(_) => match json.leaf(at) {
                Some(end) => at = json.space(end),
                None => return at + broken_in(&text[at..]),
            },
        }
        // A value ended here, or an empty array or object ends here.
        loop {
            match (json.peek(at), bracket) {
                (Some(b','), Some(_)) => break,
                (Some(byte), Some(open)) if byte == closing(open) => bracket = around.pop(),
                (None, None) => return text.len(),
                _ => return misplaced(text, at),
            }
            at = json.space(at + 1);
        }
        at = json.space(at + 1);
    }
}

/// Returns the position that `serde_json` reports for a byte that should not be there. If the text ends instead, that is
/// the position of its last byte, unless that byte ends a line.
fn misplaced(text: &str, at: usize) -> usize {
    match text.strip_suffix('\n') {
        None if at == text.len() => at.saturating_sub(1),
        _ => at,
    }
}

/// Returns the position that `serde_json` reports in a text that begins with no whole token.
fn broken_in(text: &str) -> usize {
    let Err(error) = serde_json::from_str::<IgnoredAny>(text) else { return text.len() };
    let lines = text.split_inclusive('\n').take(error.line().saturating_sub(1));
    let before: usize = lines.map(str::len).sum();
    (before + error.column().saturating_sub(1)).min(text.len())
}
