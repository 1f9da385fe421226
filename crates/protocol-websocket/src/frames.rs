//! The frames of a client, before they are whole. tungstenite reports a frame only then.

/// The bytes of the longest header.
const LONGEST_HEADER: usize = 14;
/// In the first byte of a header.
const IS_FINAL: u8 = 0x80;
const IS_CONTROL: u8 = 0x08;
/// In the second.
const IS_MASKED: u8 = 0x80;
const LENGTH: u8 = 0x7F;

/// The lengths of a client's frames, read from their headers (RFC 6455, section 5.2). tungstenite judges them.
#[derive(Debug, Default)]
pub(crate) struct Frames {
    header: [u8; LONGEST_HEADER],
    /// Bytes of the header that have come.
    has: usize,
    /// Bytes of the frame's payload that have not.
    left: usize,
    /// The frame's header and payload.
    frame: usize,
    /// The frames of the unfinished message that are whole, with their headers.
    message: usize,
}

impl Frames {
    /// Takes note of the next bytes.
    pub(crate) fn follow(&mut self, mut bytes: &[u8]) {
        while let Some((first, rest)) = bytes.split_first() {
            if self.left > 0 {
                let come = self.left.min(bytes.len());
                self.left -= come;
                bytes = &bytes[come..];
            } else {
                self.header[self.has] = *first;
                self.has += 1;
                bytes = rest;
                if self.has < self.header_bytes() {
                    continue;
                }
                self.left = self.payload_bytes();
                self.frame = self.has.saturating_add(self.left);
            }
            if self.left == 0 {
                self.end_frame();
            }
        }
    }

    /// Returns the bytes of the unfinished message and all that its last frame announces, because tungstenite makes
    /// room for those at once. A ping in the middle is counted while it comes.
    pub(crate) fn unfinished(&self) -> usize {
        let frame = if self.left > 0 { self.frame } else { self.has };
        self.message.saturating_add(frame)
    }

    fn end_frame(&mut self) {
        self.message = match self.header[0] {
            first if first & IS_CONTROL != 0 => self.message,
            first if first & IS_FINAL != 0 => 0,
            _ => self.message.saturating_add(self.frame),
        };
        self.has = 0;
    }

    /// Returns the bytes of the whole header, as far as they are known.
    fn header_bytes(&self) -> usize {
        if self.has < 2 {
            return 2;
        }
        let mask = if self.header[1] & IS_MASKED == 0 { 0 } else { 4 };
        2 + self.length_bytes() + mask
    }

    /// Returns the bytes of a length for which the second byte has no room.
    const fn length_bytes(&self) -> usize {
        match self.header[1] & LENGTH {
            126 => 2,
            127 => 8,
            _ => 0,
        }
    }

    /// Returns the length that a whole header announces.
    fn payload_bytes(&self) -> usize {
        let length = &self.header[2..2 + self.length_bytes()];
        let long = length.iter().fold(0_u64, |length, byte| length << 8 | u64::from(*byte));
        let bytes = if length.is_empty() { u64::from(self.header[1] & LENGTH) } else { long };
        usize::try_from(bytes).unwrap_or(usize::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MASK: [u8; 4] = [1, 2, 3, 4];

    fn unfinished(pieces: &[&[u8]]) -> Vec<usize> {
        let mut frames = Frames::default();
        let follow = |bytes: &&[u8]| {
            frames.follow(bytes);
            frames.unfinished()
        };
        pieces.iter().map(follow).collect()
    }

    fn announcing(first: u8, length: u64) -> Vec<u8> {
        [&[first, IS_MASKED | 127][..], &length.to_be_bytes(), &MASK].concat()
    }

    #[test]
    fn f47_a_frame_counts_as_soon_as_it_is_announced() {
        let long = announcing(0x82, 1_000);
        let pieces = [&long[..1], &long[1..13], &long[13..], &[0; 999], &[0]];
        assert_eq!(unfinished(&pieces), [1, 13, 1_014, 1_014, 0]);
        let short = [0x82, IS_MASKED | 126, 0x01, 0x00, 1, 2, 3, 4];
        assert_eq!(unfinished(&[&short, &[0; 255], &[0]]), [264, 264, 0]);
        assert_eq!(unfinished(&[&[0x82, 3], &[0; 2], &[0]]), [5, 5, 0], "without a mask");
        assert_eq!(unfinished(&[&announcing(0x82, u64::MAX)]), [usize::MAX]);
    }

    #[test]
    fn f47_a_message_is_unfinished_between_its_frames_too() {
        let [begin, go_on, end] =
            [0x01, 0x00, 0x80].map(|first| [first, IS_MASKED | 1, 0, 0, 0, 0, b'x']);
        assert_eq!(unfinished(&[&begin, &go_on, &end, &begin]), [7, 14, 0, 7]);
        let empty = [0x00, IS_MASKED, 0, 0, 0, 0];
        assert_eq!(unfinished(&[&begin, &empty, &empty]), [7, 13, 19]);
        // All in one read, behind a whole message.
        assert_eq!(unfinished(&[&[&begin[..], &end, &begin, &go_on].concat()]), [14]);
    }

    #[test]
    fn a_ping_within_a_message_finishes_nothing_but_itself() {
        let begin = [0x01, IS_MASKED | 1, 0, 0, 0, 0, b'x'];
        let ping = [0x89, IS_MASKED | 2, 0, 0, 0, 0, b'a', b'b'];
        assert_eq!(unfinished(&[&begin, &ping[..7], &ping[7..]]), [7, 15, 7]);
        assert_eq!(
            unfinished(&[&announcing(0x89, 1 << 20)]),
            [(1 << 20) + 14],
            "no ping, but room"
        );
    }

    #[test]
    fn g11_how_bytes_are_split_changes_nothing() {
        let bytes =
            [&announcing(0x02, 300)[..], &[7; 300], &[0x89, IS_MASKED, 0, 0, 0, 0], &[0x00, 5, 1]]
                .concat();
        let whole = unfinished(&[&bytes]);
        let pieces: Vec<_> = bytes.chunks(1).collect();
        assert_eq!(unfinished(&pieces).last(), whole.last());
        assert_eq!(whole, [314 + 7]);
    }
}
