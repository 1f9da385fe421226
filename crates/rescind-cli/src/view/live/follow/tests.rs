use std::fs;
use std::io::Write;
use std::time::Duration;

use super::*;

/// A recording that is written by hand, and its follower.
struct Written {
    path: PathBuf,
    follower: Option<Follower>,
    seen: Vec<u64>,
}

impl Written {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("rescind-{}-{name}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        let written = Self { path: path.join("session.jsonl"), follower: None, seen: Vec::new() };
        written.begin(1, 1);
        written
    }

    /// Begins a file, as another or the same recording.
    fn begin(&self, start: u64, part: u64) {
        let header = format!(
            r#"{{"recording":{{"version":1,"by":"x","start":"{start}","part":{part},"payloads":"kept","hops":[]}}}}"#
        );
        fs::write(&self.path, format!("{header}\n")).unwrap();
    }

    fn rotate(&self, kept: usize) {
        for age in (1..kept).rev() {
            let _ = fs::rename(protocol_record::part(&self.path, age - 1), self.older(age));
        }
    }

    fn older(&self, age: usize) -> PathBuf {
        protocol_record::part(&self.path, age)
    }

    fn write(&self, text: &str) {
        fs::OpenOptions::new()
            .append(true)
            .open(&self.path)
            .unwrap()
            .write_all(text.as_bytes())
            .unwrap();
    }

    fn line(&self, t: u64) {
        self.write(&format!("{}\n", end(t)));
    }

    /// Returns the lines that were not seen before.
    fn read(&mut self) -> Vec<u64> {
        let follower = self.follower.get_or_insert_with(|| Follower::open(&self.path).unwrap());
        let seen = &mut self.seen;
        seen.clear();
        let until = Instant::now() + Duration::from_secs(30);
        let pace = follower.read(until, |line| {
            if let Line::End(end) = line {
                seen.push(end.t);
            }
        });
        assert_eq!(pace, Ok(Pace::CaughtUp));
        seen.clone()
    }

    fn flaws(&self) -> &Flaws {
        &self.follower.as_ref().unwrap().flaws
    }
}

impl Drop for Written {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(self.path.parent().unwrap());
    }
}

/// Returns the shortest line that there is.
fn end(t: u64) -> String {
    format!(r#"{{"end":{{"t":{t},"lines":0,"dropped":0}}}}"#)
}

#[test]
fn lines_are_seen_once_they_are_whole() {
    let mut written = Written::new("whole");
    assert!(written.read().is_empty());
    written.line(1);
    let line = end(2);
    let (half, rest) = line.split_at(9);
    written.write(half);
    assert_eq!(written.read(), [1]);
    written.write(&format!("{rest}\nno line\n"));
    written.line(3);
    assert_eq!(written.read(), [2, 3]);
    assert_eq!(written.flaws().unreadable, 1);
    assert!(written.flaws().first.as_ref().unwrap().starts_with("line 4: "));
}

#[test]
fn files_that_take_each_others_place_are_followed_and_what_is_gone_is_counted() {
    let mut written = Written::new("rotation");
    written.line(1);
    written.rotate(3);
    written.begin(1, 2);
    written.line(2);
    // All that is there already, the oldest first.
    assert_eq!(written.read(), [1, 2]);
    // The last lines of a file are written just before it is left.
    written.line(3);
    written.rotate(3);
    assert!(written.read() == [3], "there is no newest file for a moment");
    written.begin(1, 3);
    written.line(4);
    assert_eq!(written.read(), [4]);
    for part in 4..=8 {
        written.rotate(3);
        written.begin(1, part);
        written.line(part + 1);
    }
    assert_eq!(written.read(), [7, 8, 9], "two more were removed before they were seen");
    assert_eq!(written.flaws().gone, 2);
}

#[test]
fn another_recording_that_takes_the_place_is_followed_from_its_first_file() {
    let mut written = Written::new("another");
    written.line(1);
    assert_eq!(written.read(), [1]);
    written.write("cut");
    written.rotate(4);
    written.begin(2, 1);
    written.line(2);
    written.rotate(4);
    written.begin(2, 2);
    written.line(3);
    assert_eq!(written.read(), [2, 3]);
    assert_eq!(*written.flaws(), Flaws::default());
}

#[test]
fn what_is_read_for_too_long_goes_on_later() {
    let mut written = Written::new("pieces");
    (0..9).for_each(|t| written.line(t));
    let mut follower = Follower::open(&written.path).unwrap();
    assert_eq!(follower.read(Instant::now(), |_| ()), Ok(Pace::Behind));
    assert_eq!(written.read().len(), 9);
}
