//! The bytes of server-sent events.

use alloc::vec::Vec;

/// Appends an event with this id, if it has one, and these data.
///
/// A line break within the data begins another line `data:`, so the decoded data have the same lines.
pub fn event(id: Option<&str>, data: &[u8], out: &mut Vec<u8>) {
    if let Some(id) = id {
        out.extend_from_slice(b"id: ");
        out.extend(id.bytes().filter(|byte| !matches!(byte, b'\r' | b'\n' | 0)));
        out.push(b'\n');
    }
    let mut rest = data;
    loop {
        let end = rest.iter().position(|byte| matches!(byte, b'\r' | b'\n'));
        out.extend_from_slice(b"data: ");
        out.extend_from_slice(&rest[..end.unwrap_or(rest.len())]);
        out.push(b'\n');
        let Some(end) = end else { break };
        let is_pair = rest[end..].starts_with(b"\r\n");
        rest = &rest[end + if is_pair { 2 } else { 1 }..];
    }
    out.push(b'\n');
}

/// Returns a comment without text, and an empty line behind it.
///
/// No client makes an event of it. It only shows that the stream is alive.
#[must_use]
pub const fn comment() -> &'static [u8] {
    b":\n\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_keeps_the_lines_of_its_data() {
        let mut out = Vec::new();
        event(Some("1-2"), b"a\nb\r\nc\rd", &mut out);
        assert_eq!(out, b"id: 1-2\ndata: a\ndata: b\ndata: c\ndata: d\n\n");
    }

    #[test]
    fn an_event_without_data_has_an_empty_line_of_data() {
        let mut out = Vec::new();
        event(Some("1-0\nx"), b"", &mut out);
        assert_eq!(out, b"id: 1-0x\ndata: \n\n");
    }
}
