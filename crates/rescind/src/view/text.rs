//! What a peer wrote, as text that a terminal only shows.

use std::fmt::Write;

/// The text, with whatever would be obeyed and not shown written as an escape: control characters, and
/// those that turn the direction of writing.
pub(crate) fn shown(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        if character.is_control() || is_invisible(character) {
            // Writing to a string does not fail.
            let _ = write!(shown, "{}", character.escape_unicode());
        } else {
            shown.push(character);
        }
    }
    shown
}

const fn is_invisible(character: char) -> bool {
    matches!(character,
        '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{2069}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

/// A line of JSON, with the same characters written as JSON's escapes: they stand only in strings.
pub(crate) fn shown_json(json: &str) -> String {
    let mut shown = String::with_capacity(json.len());
    for character in json.chars() {
        if character.is_control() || is_invisible(character) {
            for unit in character.encode_utf16(&mut [0; 2]) {
                // Writing to a string does not fail.
                let _ = write!(shown, "\\u{unit:04x}");
            }
        } else {
            shown.push(character);
        }
    }
    shown
}

/// Milliseconds, as people read them.
pub(crate) fn milliseconds(micros: u64) -> String {
    format!("{}.{:03} ms", micros / 1000, micros % 1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn f68_control_characters_are_shown_and_not_obeyed() {
        let written = "a\u{1b}]52;c;aGk=\u{7}\u{9b}2J\r\n\u{202e}é";
        let said = r"a\u{1b}]52;c;aGk=\u{7}\u{9b}2J\u{d}\u{a}\u{202e}é";
        assert_eq!(shown(written), said);
        let json = serde_json::to_string(&format!("{written}\u{e0001}")).unwrap();
        let said = shown_json(&json);
        assert!(!said.contains(|it: char| it.is_control() || is_invisible(it)), "{said}");
        assert_eq!(serde_json::from_str::<String>(&said).unwrap(), format!("{written}\u{e0001}"));
    }
}
