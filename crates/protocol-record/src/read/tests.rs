use std::cell::Cell;

use super::*;

const HEADER: &str = r#"{"recording":{"version":1,"by":"x","start":"s","part":1,"payloads":"redacted","hops":[]}}
"#;
const MESSAGE: &str = r#"{"message":{"t":1,"hop":"up","dir":"sent","bytes":9,"parts":[{"kind":"error","id":null,"code":1}]}}
"#;

fn read(text: &str) -> (usize, Vec<String>) {
    let mut reader = Reader::new(text.as_bytes());
    let (mut lines, mut unread) = (0, Vec::new());
    loop {
        match reader.line() {
            Ok(None) => return (lines, unread),
            Ok(Some(_)) => lines += 1,
            Err(error) => {
                unread.push(error.to_string());
                if !matches!(error, Unread::Line { .. } | Unread::Cut { .. }) {
                    return (lines, unread);
                }
            }
        }
    }
}

#[test]
fn a_recording_is_read_at_every_length_it_may_be_cut_at() {
    let whole = [HEADER, MESSAGE, MESSAGE].concat();
    for cut in HEADER.len()..whole.len() {
        let (lines, unread) = read(&whole[..cut]);
        let after = cut - HEADER.len();
        // A last line of which only its end is missing can be read.
        let is_whole = after % MESSAGE.len() == 0 || (after + 1) % MESSAGE.len() == 0;
        assert_eq!(lines, 1 + (after + 1) / MESSAGE.len(), "{cut}");
        assert_eq!(unread.is_empty(), is_whole, "{cut}: {unread:?}");
        assert!(unread.iter().all(|it| it.contains("is cut")), "{unread:?}");
    }
}

#[test]
fn a_line_that_is_none_is_said_with_its_number_and_the_rest_is_read() {
    let (lines, unread) = read(&[HEADER, "{\"what\":1}\n", MESSAGE].concat());
    assert_eq!(lines, 2);
    assert_eq!(unread.len(), 1);
    assert!(unread[0].starts_with("line 2: unknown variant `what`"), "{unread:?}");
}

#[test]
fn what_is_no_recording_is_refused() {
    let no = "this is no recording: it does not begin with one";
    for text in ["", "hello\n", MESSAGE, "\u{0}"] {
        assert_eq!(read(text), (0, vec![no.to_owned()]), "{text:?}");
    }
}

#[test]
fn a_recording_of_a_later_version_is_refused_by_its_number_whatever_else_is_new() {
    for (old, new) in [("", ""), ("redacted", "hashed"), (r#","hops":[]"#, "")] {
        let later = HEADER.replace("\"version\":1", "\"version\":2").replace(old, new);
        let refused = vec!["a recording of version 2; this program reads 1".to_owned()];
        assert_eq!(read(&later), (0, refused.clone()), "{later}");
        // Another recording may take the place of the one that is read.
        assert_eq!(read(&[HEADER, MESSAGE, &later].concat()), (2, refused), "{later}");
    }
}

#[test]
fn an_id_that_is_null_is_told_from_none() {
    let text = [HEADER, MESSAGE].concat();
    let mut reader = Reader::new(text.as_bytes());
    assert!(matches!(reader.line(), Ok(Some(Line::Recording(_)))));
    let Ok(Some(Line::Message(message))) = reader.line() else { panic!("a message") };
    assert_eq!(message.parts[0].id.as_ref().map(crate::line::Id::as_json), Some("null"));
    assert_eq!(message.parts[0].cancels, None);
}

/// A file that somebody writes to, so many bytes at a time.
struct Growing<'a>(&'a Cell<&'a [u8]>);

impl io::Read for Growing<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut left = self.0.get();
        let read = left.read(buffer)?;
        self.0.set(left);
        Ok(read)
    }
}

#[test]
fn a_file_that_is_being_written_gives_each_line_once_it_is_whole() {
    let whole = [HEADER, MESSAGE, "{\"what\":1}\n", MESSAGE].concat();
    for step in [1, 7, HEADER.len(), whole.len()] {
        let written = Cell::new(&b""[..]);
        let mut reader = Reader::new(io::BufReader::new(Growing(&written)));
        let (mut lines, mut problems) = (0, 0);
        for piece in whole.as_bytes().chunks(step) {
            written.set(piece);
            loop {
                match reader.written_line() {
                    Ok(None) => break,
                    Ok(Some(_)) => lines += 1,
                    Err(Unread::Line { line: 3, .. }) => problems += 1,
                    Err(error) => panic!("{step}: {error}"),
                }
            }
        }
        assert_eq!((lines, problems), (3, 1), "{step}");
    }
}
