//! A recording as a page: one file with its style, its script and its data, that asks for nothing else.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use protocol_record::Line;
use protocol_record::line::Message;
use serde::Serialize;
use serde_json::json;
use sha2::{Digest, Sha256};

use super::files::Flaws;
use super::filter::Filter;
use super::pairing::Counts;
use super::row::Row;
use super::summary::Summary;
use super::walk::{Visitor, time};
use crate::terminal::harmless_json;

const PAGE: &str = include_str!("page/page.html");
const STYLE: &str = include_str!("page/page.css");
/// One module in several files, in this order.
const SCRIPT: &str = concat!(
    include_str!("page/recording.js"),
    include_str!("page/timeline.js"),
    include_str!("page/table.js"),
    include_str!("page/details.js"),
    include_str!("page/main.js"),
);

/// So many requests are put into a page: a browser holds them all.
const REQUESTS: u64 = 200_000;
/// So many characters of each message are kept.
pub(super) const TEXT: usize = 2_000;
/// So many messages of each request are kept.
pub(super) const MESSAGES: usize = 8;
/// So many bytes of all messages are kept.
const TEXTS: usize = 64 << 20;

/// A page that is being written. Its data are the lines of `--json`, with others between them.
pub(super) struct Page {
    filter: Option<Filter>,
    summary: Summary,
    out: BufWriter<Box<dyn Write>>,
    /// The messages of the requests that are not written yet, if they were recorded.
    /// Beside them is the count of those that found no room.
    texts: HashMap<u64, (Vec<Text>, u64)>,
    /// So many bytes of messages more find room.
    text_room: usize,
    /// The messages that found none, of the requests that are written.
    missing: u64,
    /// So many requests more find room.
    room: u64,
    left_out: u64,
    until: u64,
}

/// One message of a request.
#[derive(Serialize)]
struct Text {
    t: u64,
    kind: protocol_record::line::Kind,
    bytes: u64,
    text: String,
}

impl Page {
    /// Begins a page in a file that only its owner may read, as recordings are.
    pub(super) fn create(path: &Path, filter: Option<Filter>) -> io::Result<Self> {
        let out: Box<dyn Write> = if path == Path::new("-") {
            Box::new(io::stdout().lock())
        } else {
            Box::new(owned(path)?)
        };
        let mut page = Self {
            filter,
            summary: Summary::default(),
            out: BufWriter::new(out),
            texts: HashMap::new(),
            text_room: TEXTS,
            missing: 0,
            room: REQUESTS,
            left_out: 0,
            until: 0,
        };
        page.out.write_all(around().0.as_bytes())?;
        Ok(page)
    }

    fn message(&mut self, message: &Message<'_>, requests: &[Option<u64>]) {
        let Some(text) = &message.text else { return };
        let text: String = text.chars().take(TEXT).collect();
        for (part, number) in message.parts.iter().zip(requests) {
            let Some(number) = number else { continue };
            let (texts, missing) = self.texts.entry(*number).or_default();
            if texts.len() < MESSAGES && text.len() <= self.text_room {
                self.text_room -= text.len();
                let (t, bytes) = (message.t, message.bytes);
                texts.push(Text { t, kind: part.kind, bytes, text: text.clone() });
            } else {
                *missing += 1;
            }
        }
    }

    /// Ends the page; gives what is to be known about it.
    pub(super) fn finish(mut self, flaws: Flaws, counts: Counts) -> io::Result<Vec<String>> {
        (self.summary.flaws, self.summary.counts) = (flaws, counts);
        let mut notes = self.summary.warnings();
        if self.left_out > 0 {
            let left_out = self.left_out;
            notes.push(format!(
                "the page holds {REQUESTS} requests; {left_out} more are left out: choose some by a filter"
            ));
        }
        if self.missing > 0 {
            notes.push(format!("messages that the page leaves out: {}", self.missing));
        }
        let summary = self.summary.to_string();
        let until = self.until;
        self.data(&json!({ "page": { "summary": summary, "notes": notes, "until": until } }))?;
        self.out.write_all(around().1.as_bytes())?;
        self.out.flush()?;
        Ok(notes)
    }

    fn data(&mut self, value: &impl Serialize) -> io::Result<()> {
        let json = serde_json::to_string(value)?;
        writeln!(self.out, "{}", embedded(&json))
    }
}

impl Visitor for Page {
    fn line(&mut self, line: &Line<'_>, requests: &[Option<u64>]) -> io::Result<()> {
        self.until = self.until.max(time(line));
        match line {
            Line::Recording(_) | Line::Opened(_) => self.data(line)?,
            Line::Message(message) => self.message(message, requests),
            _ => {}
        }
        Ok(())
    }

    fn row(&mut self, row: &Row) -> io::Result<()> {
        let (texts, missing) = self.texts.remove(&row.number).unwrap_or_default();
        let is_wanted = self.filter.as_ref().is_none_or(|filter| filter.admits(row));
        if is_wanted {
            self.summary.add(row);
        }
        if !is_wanted || self.room == 0 {
            self.left_out += u64::from(is_wanted);
            self.text_room += texts.iter().map(|text| text.text.len()).sum::<usize>();
            return Ok(());
        }
        self.room -= 1;
        self.missing += missing;
        self.data(row)?;
        if texts.is_empty() { Ok(()) } else { self.data(&json!({ "texts": texts })) }
    }
}

/// JSON that can stand in a script element: nothing in it begins a tag or a comment.
fn embedded(json: &str) -> String {
    harmless_json(json).replace('<', "\\u003c")
}

fn owned(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let file = options.open(path)?;
    // One that was there keeps its mode.
    #[cfg(unix)]
    if file.metadata()?.is_file() {
        file.set_permissions(std::os::unix::fs::PermissionsExt::from_mode(0o600))?;
    }
    Ok(file)
}

/// The mark in the template that the data replaces.
const DATA: &str = "{{data}}";

/// Returns what stands before the data, and behind it.
fn around() -> (String, String) {
    let (head, tail) = PAGE.split_once(DATA).expect("the template has a place for data");
    (filled(head), filled(tail))
}

/// Only the style and the script that are ours run, whatever else a page came to hold.
fn filled(template: &str) -> String {
    template
        .replace("{{style-hash}}", &hash(STYLE))
        .replace("{{script-hash}}", &hash(SCRIPT))
        .replace("{{style}}", STYLE)
        .replace("{{script}}", SCRIPT)
}

fn hash(text: &str) -> String {
    format!("sha256-{}", STANDARD.encode(Sha256::digest(text)))
}

#[cfg(test)]
mod tests;
