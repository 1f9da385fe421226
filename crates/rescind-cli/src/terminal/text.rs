//! Text of others that no terminal obeys, and that is no longer than can be read.

use std::fmt::{self, Display, Write as _};
use std::ops::RangeInclusive;

use anstyle::Style;
use protocol_core::WireId;

/// A longer value in a line, such as the params of a notification, is cut.
pub(crate) const VALUE: usize = 200;
/// A longer id is cut.
const ID: usize = 64;
/// A longer message of a trace is cut.
const TRACED: usize = 1024;
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

    /// Makes a line of bytes that no terminal sees. Nothing in it is escaped or cut.
    pub(crate) fn as_it_is(bytes: &[u8]) -> Self {
        Self { out: String::from_utf8_lossy(bytes).into_owned(), shown: 0, cut: 0 }
    }

    /// Adds text, with its unsafe characters escaped.
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

    /// Adds the id that a line is about, if there is one. A long one is cut.
    #[must_use]
    pub(crate) fn about(self, id: Option<&WireId>) -> Self {
        let Some(id) = id else { return self };
        let most = self.shown + ID;
        self.text("id ").bytes(id.as_json().as_bytes(), most).text(": ")
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

    /// Adds a message that something is said behind, and is cut to [`TRACED`].
    #[must_use]
    pub(crate) fn traced(self, bytes: &[u8]) -> Self {
        let most = self.shown + TRACED;
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

/// Characters that are not seen, or that change how others near them are seen.
///
/// They are Unicode's general categories Cf, Zl and Zp (separators of lines), Co (private use) and the
/// noncharacters. Cf is format: zero widths, the byte order mark, overrides of direction and tags. All of
/// plane 14 counts, because it has nothing else.
const UNSEEN: [RangeInclusive<char>; 22] = [
    '\u{ad}'..='\u{ad}',
    '\u{600}'..='\u{605}',
    '\u{61c}'..='\u{61c}',
    '\u{6dd}'..='\u{6dd}',
    '\u{70f}'..='\u{70f}',
    '\u{890}'..='\u{891}',
    '\u{8e2}'..='\u{8e2}',
    '\u{180e}'..='\u{180e}',
    '\u{200b}'..='\u{200f}',
    '\u{2028}'..='\u{202e}',
    '\u{2060}'..='\u{206f}',
    '\u{e000}'..='\u{f8ff}',
    '\u{fdd0}'..='\u{fdef}',
    '\u{feff}'..='\u{feff}',
    '\u{fff9}'..='\u{fffb}',
    '\u{110bd}'..='\u{110bd}',
    '\u{110cd}'..='\u{110cd}',
    '\u{13430}'..='\u{1343f}',
    '\u{1bca0}'..='\u{1bca3}',
    '\u{1d173}'..='\u{1d17a}',
    '\u{e0000}'..='\u{e0fff}',
    // Private use again, in two planes of its own.
    '\u{f0000}'..='\u{10ffff}',
];

/// Whether a terminal obeys it, or a reader would be misled by it.
fn is_obeyed(c: char) -> bool {
    let is_noncharacter = u32::from(c) & 0xfffe == 0xfffe;
    let is_unseen = || UNSEEN.iter().any(|unseen| unseen.contains(&c));
    c.is_control() || is_noncharacter || (c >= *UNSEEN[0].start() && is_unseen())
}

/// Adds a character, the way JSON would escape it if it must not be there itself.
fn push(out: &mut String, c: char) {
    match c {
        '\n' => out.push_str("\\n"),
        '\r' => out.push_str("\\r"),
        '\t' => out.push_str("\\t"),
        c if is_obeyed(c) => {
            for unit in c.encode_utf16(&mut [0; 2]) {
                let _ = write!(out, "\\u{unit:04x}");
            }
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
    fn f68_what_is_not_seen_is_shown() {
        for (name, unseen, shown) in [
            ("soft hyphen", '\u{ad}', "\\u00ad"),
            ("zero width space", '\u{200b}', "\\u200b"),
            ("zero width joiner", '\u{200d}', "\\u200d"),
            ("word joiner", '\u{2060}', "\\u2060"),
            ("pop directional isolate", '\u{2069}', "\\u2069"),
            ("byte order mark", '\u{feff}', "\\ufeff"),
            ("interlinear annotation", '\u{fff9}', "\\ufff9"),
            ("private use", '\u{e000}', "\\ue000"),
            ("tag", '\u{e0041}', "\\udb40\\udc41"),
            ("variation selector of plane 14", '\u{e0100}', "\\udb40\\udd00"),
            ("private use of plane 15", '\u{f0000}', "\\udb80\\udc00"),
            ("noncharacter", '\u{fdd0}', "\\ufdd0"),
            ("noncharacter of plane 0", '\u{fffe}', "\\ufffe"),
            ("noncharacter of plane 1", '\u{1ffff}', "\\ud83f\\udfff"),
        ] {
            assert_eq!(harmless(&format!("a{unseen}b")), format!("a{shown}b"), "{name}");
            let json = harmless_json(&format!("\"{unseen}\""));
            assert_eq!(serde_json::from_str::<char>(&json).unwrap(), unseen, "{name}: {json}");
        }
        let seen = "naïve 日本語 ‐–— “” … € 🙂 ❤\u{fe0f} \u{fffd}";
        assert_eq!(harmless(seen), seen);
        let sorted = UNSEEN.iter().flat_map(|unseen| [unseen.start(), unseen.end()]);
        assert!(sorted.is_sorted());
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
