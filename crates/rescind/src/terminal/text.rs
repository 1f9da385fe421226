//! What others say, as text: no terminal obeys it, and it is no longer than can be read.

use std::fmt::{self, Display, Write as _};

use anstyle::Style;

/// A longer value in a line, such as the params of a notification, is cut.
pub(crate) const VALUE: usize = 200;
/// A longer line is cut.
const LINE: usize = 4096;

/// A line for people. Everything in it but its own styles is text.
#[derive(Clone, Debug, Default)]
pub struct Line {
    out: String,
    /// Characters that are shown so far.
    shown: usize,
    /// Bytes that are not.
    cut: usize,
}

impl Line {
    /// An empty one.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds text.
    #[must_use]
    pub fn text(mut self, text: impl Display) -> Self {
        // A line takes all text.
        let _ = write!(Part { line: &mut self, most: LINE }, "{text}");
        self
    }

    /// Adds text in a style of ours.
    #[must_use]
    pub fn styled(mut self, style: Style, text: impl Display) -> Self {
        let _ = write!(self.out, "{style}");
        self = self.text(text);
        let _ = write!(self.out, "{style:#}");
        self
    }

    /// The whole line so far in a style of ours.
    #[must_use]
    pub(crate) fn all_styled(mut self, style: Style) -> Self {
        self.out = format!("{style}{}{style:#}", self.out);
        self
    }

    /// Adds what may be long, and is cut to [`VALUE`].
    #[must_use]
    pub(crate) fn value(self, bytes: &[u8]) -> Self {
        let most = self.shown + VALUE;
        self.bytes(bytes, most)
    }

    /// Adds a whole message, cut where the line is.
    #[must_use]
    pub(crate) fn message(self, bytes: &[u8]) -> Self {
        self.bytes(bytes, LINE)
    }

    fn bytes(mut self, bytes: &[u8], most: usize) -> Self {
        // More than that is not shown, however wide its characters; it may be very much more.
        let near = bytes.len().min(4 * most);
        let cut = self.cut;
        let _ = Part { line: &mut self, most }.write_str(&String::from_utf8_lossy(&bytes[..near]));
        self.cut += bytes.len() - near;
        let cut = self.cut - cut;
        if most < LINE && cut > 0 {
            let _ = write!(self.out, "… ({cut} bytes more)");
            self.cut -= cut;
        }
        self
    }

    /// The line as it is printed, with its end.
    pub(crate) fn finish(mut self) -> String {
        if self.cut > 0 {
            let _ = write!(self.out, "… ({} bytes more)", self.cut);
        }
        self.out.push('\n');
        self.out
    }
}

/// Takes text for a line, up to so many characters in the whole.
struct Part<'a> {
    line: &'a mut Line,
    most: usize,
}

impl fmt::Write for Part<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let line = &mut *self.line;
        for (at, c) in text.char_indices() {
            if line.shown >= self.most {
                line.cut += text.len() - at;
                break;
            }
            line.shown += 1;
            push(&mut line.out, c);
        }
        Ok(())
    }
}

/// Whether a terminal obeys it, or it changes how what follows is read: control characters, marks and
/// overrides of direction, and separators of lines.
fn is_obeyed(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Adds a character, the way JSON would escape it if it must not be there itself.
fn push(out: &mut String, c: char) {
    match c {
        '\n' => out.push_str("\\n"),
        '\r' => out.push_str("\\r"),
        '\t' => out.push_str("\\t"),
        c if is_obeyed(c) => {
            let _ = write!(out, "\\u{:04x}", u32::from(c));
        }
        c => out.push(c),
    }
}

/// The text with nothing in it that a terminal obeys.
pub(crate) fn harmless(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    text.chars().for_each(|c| push(&mut out, c));
    out
}

/// The same JSON with nothing in it that a terminal obeys but ends of lines, which are between values.
pub(crate) fn harmless_json(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        match c {
            '\n' => out.push(c),
            '\r' | '\t' => out.push(' '),
            c => push(&mut out, c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn f68_what_a_terminal_would_obey_is_shown() {
        let hostile = "a\u{1b}]52;c;aGk=\u{7}\u{9b}2J\u{7f}\r\n\t\u{202e}\u{2066}\u{2028}\u{85}ü";
        let shown = Line::new().text(hostile).finish();
        let expected =
            "a\\u001b]52;c;aGk=\\u0007\\u009b2J\\u007f\\r\\n\\t\\u202e\\u2066\\u2028\\u0085ü\n";
        assert_eq!(shown, expected);
        assert_eq!(harmless(hostile) + "\n", expected);
        assert_eq!(Line::new().value(hostile.as_bytes()).finish(), expected);
        assert_eq!(Line::new().message(hostile.as_bytes()).finish(), expected);
    }

    #[test]
    fn f68_our_own_styles_are_obeyed_and_no_others() {
        let bold = Style::new().bold();
        let line = Line::new().styled(bold, "\u{1b}[1m").text("x").finish();
        assert_eq!(line, "\u{1b}[1m\\u001b[1m\u{1b}[0mx\n");
    }

    #[test]
    fn f68_json_for_a_terminal_is_the_same_json() {
        let json = "{\"a\":\"\u{9b}2J\u{202e}\",\r\n\t\"b\":1}";
        let harmless = harmless_json(json);
        assert!(!harmless.chars().any(|c| c != '\n' && is_obeyed(c)), "{harmless:?}");
        let value = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
        assert_eq!(value(&harmless), value(json));
    }

    #[test]
    fn f67_lines_and_values_are_cut_and_say_by_how_much() {
        let long = "ü".repeat(16 << 20);
        let value = Line::new().value(long.as_bytes()).text(" end").finish();
        assert_eq!(
            value,
            format!("{}… ({} bytes more) end\n", "ü".repeat(VALUE), long.len() - 2 * VALUE)
        );
        let line = Line::new().text("12").message(long.as_bytes()).text("end").finish();
        let cut = long.len() - 2 * (LINE - 2) + 3;
        assert_eq!(line, format!("12{}… ({cut} bytes more)\n", "ü".repeat(LINE - 2)));
        let bad = Line::new().value(&[b'a', 0xff]).finish();
        assert_eq!(bad, "a\u{fffd}\n");
    }
}
