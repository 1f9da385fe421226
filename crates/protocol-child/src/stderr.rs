//! The standard error of a process.

use std::collections::VecDeque;
use std::fmt;
use std::io::Read;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::Stdio;
use std::sync::Mutex;

use crate::lock::lock;

/// The destination of a process's standard error. A process that floods it goes on.
///
/// With [`Inherit`](Self::Inherit) it waits for the reader of our own, and with [`Lines`](Self::Lines) for the
/// function that sees each line.
#[derive(Default)]
#[non_exhaustive]
pub enum Stderr {
    /// The process writes to our own standard error.
    #[default]
    Inherit,
    /// All that the process writes there is discarded.
    Discard,
    /// The last of it is kept, for [`Process::stderr_tail`](crate::Process::stderr_tail).
    Last {
        /// The most bytes that are kept.
        bytes: usize,
    },
    /// A function sees each line without its end, on a thread of its own, and a line over 16 KiB in pieces. While
    /// it runs no more is read, so it should not wait for anything. After a panic it is not called again.
    Lines(ShowLine),
}

/// A function that sees each line that a process writes to its standard error.
pub type ShowLine = Box<dyn FnMut(&[u8]) + Send>;

/// The longest line that is shown whole, in bytes. A longer one is shown in pieces of this length.
const LINE_BYTES: usize = 16 << 10;

impl Stderr {
    pub(crate) fn stdio(&self) -> Stdio {
        match self {
            Self::Inherit => Stdio::inherit(),
            Self::Discard => Stdio::null(),
            Self::Last { .. } | Self::Lines(_) => Stdio::piped(),
        }
    }

    /// Reads until there is no more.
    pub(crate) fn drain(mut self, mut from: impl Read, tail: &Tail) {
        // With room for the end of the longest line.
        let mut buffer = vec![0; LINE_BYTES + 1];
        let mut filled = 0;
        loop {
            match from.read(&mut buffer[filled..]) {
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Ok(0) | Err(_) => break,
                Ok(more) => filled = self.take(&mut buffer, filled + more, tail),
            }
        }
        if filled > 0 {
            self.show(&buffer[..filled]);
        }
    }

    /// Takes the filled part of the buffer, and returns the length of an unfinished line that is moved to its front.
    fn take(&mut self, buffer: &mut [u8], filled: usize, tail: &Tail) -> usize {
        if let Self::Last { bytes } = self {
            tail.push(&buffer[..filled], *bytes);
            return 0;
        }
        let mut begin = 0;
        while let Some(len) = buffer[begin..filled].iter().position(|byte| *byte == b'\n') {
            self.show(&buffer[begin..begin + len]);
            begin += len + 1;
        }
        if begin == 0 && filled == buffer.len() {
            begin = LINE_BYTES;
            self.show(&buffer[..begin]);
        }
        buffer.copy_within(begin..filled, 0);
        filled - begin
    }

    fn show(&mut self, line: &[u8]) {
        if let Self::Lines(show) = self {
            if catch_unwind(AssertUnwindSafe(|| show(line))).is_err() {
                *self = Self::Discard;
            }
        }
    }
}

impl fmt::Debug for Stderr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Inherit => "Inherit",
            Self::Discard => "Discard",
            Self::Last { .. } => "Last",
            Self::Lines(_) => "Lines",
        })
    }
}

/// The end of a process's standard error.
#[derive(Default)]
pub(crate) struct Tail(Mutex<Kept>);

#[derive(Default)]
struct Kept {
    bytes: VecDeque<u8>,
    is_cut: bool,
}

impl Tail {
    fn push(&self, more: &[u8], limit: usize) {
        let mut kept = lock(&self.0);
        let over = (kept.bytes.len() + more.len()).saturating_sub(limit);
        kept.is_cut |= over > 0;
        let gone = over.min(kept.bytes.len());
        kept.bytes.drain(..gone);
        kept.bytes.extend(&more[over - gone..]);
    }

    /// Returns it from the beginning of a line on, if there is one.
    pub(crate) fn text(&self) -> String {
        let mut kept = lock(&self.0);
        let is_cut = kept.is_cut;
        let bytes = &*kept.bytes.make_contiguous();
        let end = bytes.iter().position(|byte| *byte == b'\n').filter(|_| is_cut);
        let begin = end.map(|at| at + 1).filter(|begin| *begin < bytes.len());
        String::from_utf8_lossy(&bytes[begin.unwrap_or(0)..]).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    fn lines(input: &[u8]) -> Vec<Vec<u8>> {
        let shown = Arc::new(Mutex::new(Vec::new()));
        let sink = shown.clone();
        let lines = Stderr::Lines(Box::new(move |line| sink.lock().unwrap().push(line.to_vec())));
        lines.drain(input, &Tail::default());
        let shown = shown.lock().unwrap();
        shown.clone()
    }

    #[test]
    fn lines_are_shown_without_their_ends_and_long_ones_in_pieces() {
        assert_eq!(lines(b""), Vec::<Vec<u8>>::new());
        assert_eq!(lines(b"a\n\nb"), [&b"a"[..], b"", b"b"]);
        let long = vec![b'x'; 2 * LINE_BYTES + 1];
        let pieces: Vec<usize> = lines(&long).iter().map(Vec::len).collect();
        assert_eq!(pieces, [LINE_BYTES, LINE_BYTES, 1]);
    }

    #[test]
    fn a_line_whose_end_is_behind_a_piece_has_no_empty_piece() {
        for count in 1..3 {
            let mut long = vec![b'x'; count * LINE_BYTES];
            long.extend(b"\n\ny");
            let pieces: Vec<usize> = lines(&long).iter().map(Vec::len).collect();
            assert_eq!(pieces, [&vec![LINE_BYTES; count][..], &[0, 1]].concat());
        }
    }

    /// A signal comes before anything else does.
    struct Interrupted<'a>(bool, &'a [u8]);

    impl Read for Interrupted<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            if std::mem::replace(&mut self.0, true) {
                return self.1.read(buffer);
            }
            Err(std::io::ErrorKind::Interrupted.into())
        }
    }

    #[test]
    fn f32_a_signal_does_not_end_the_reading() {
        let tail = Tail::default();
        Stderr::Last { bytes: 12 }.drain(Interrupted(false, b"one\n"), &tail);
        assert_eq!(tail.text(), "one\n");
    }

    #[test]
    fn after_a_panic_the_rest_is_read_and_not_shown() {
        let shown = Arc::new(Mutex::new(0));
        let count = shown.clone();
        let lines = Stderr::Lines(Box::new(move |_| {
            *lock(&count) += 1;
            panic!("a host's mistake");
        }));
        let mut rest: &[u8] = b"a\nb\nc\n";
        lines.drain(&mut rest, &Tail::default());
        assert!(rest.is_empty());
        assert_eq!(*shown.lock().unwrap(), 1);
    }

    #[test]
    fn the_tail_is_bounded_and_begins_with_a_line() {
        let tail = Tail::default();
        Stderr::Last { bytes: 12 }.drain(&b"one\ntwo\n"[..], &tail);
        assert_eq!(tail.text(), "one\ntwo\n");
        Stderr::Last { bytes: 12 }.drain(&b"three\n"[..], &tail);
        assert_eq!(tail.text(), "two\nthree\n");
        Stderr::Last { bytes: 12 }.drain(&[b'x'; 100][..], &tail);
        assert_eq!(tail.text(), "x".repeat(12));
        Stderr::Last { bytes: 12 }.drain(&b"\n"[..], &tail);
        assert_eq!(tail.text(), "x".repeat(11) + "\n", "there is no other line");
    }
}
