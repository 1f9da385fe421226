//! The table of the guide, with the proxies behind which a server notices that its client has gone.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use crate::client::{Accepts, End, Version};

const GUIDE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guide/http.md");
const HEAD: &str =
    "| proxy | settings | HTTP/1.1, events | HTTP/1.1, JSON | HTTP/2, events | HTTP/2, JSON |";

/// The rows of the table, by the names of their configurations.
pub(crate) struct Guide(BTreeMap<&'static str, Vec<String>>);

/// The guide's statement about one kind of request.
#[derive(Clone, Debug)]
pub(crate) struct Expected {
    /// The cell of the table, without its time.
    said: String,
    /// Whether a client that ended its writing side alone has its response.
    pub(crate) reads_on: bool,
}

impl Guide {
    /// Reads the table, whose rows have to be these, in this order.
    pub(crate) fn read(rows: &[(&str, &str, &'static str)]) -> Self {
        let guide = fs::read_to_string(Path::new(GUIDE)).expect("it can be read");
        let (_, table) = guide.split_once(HEAD).expect("the table is there");
        let lines = table.lines().skip(2).take_while(|line| line.starts_with('|'));
        let lines: Vec<Vec<String>> = lines
            .map(|line| line.trim_matches('|').split('|').map(|it| it.trim().to_owned()).collect())
            .collect();
        assert_eq!(lines.len(), rows.len(), "a row for each configuration");
        let named = lines.into_iter().zip(rows).map(|(line, (proxy, settings, place))| {
            assert!(line[0].starts_with(proxy) && line[1].starts_with(settings), "{line:?}");
            (*place, line)
        });
        Self(named.collect())
    }

    /// Returns what the guide says of requests behind a proxy.
    pub(crate) fn expects(&self, place: &str, version: Version, accepts: Accepts) -> Expected {
        let column = match (version, accepts) {
            (Version::Http1, Accepts::Events) => 2,
            (Version::Http1, Accepts::Json) => 3,
            (Version::Http2, Accepts::Events) => 4,
            (Version::Http2, Accepts::Json) => 5,
        };
        let said = self.0[place][column].split(',').next().expect("there is a first part");
        Expected { said: said.into(), reads_on: said == "not half-closed" }
    }
}

impl Expected {
    /// Returns whether a client that ends so is noticed.
    pub(crate) fn notices(&self, end: End) -> bool {
        match &*self.said {
            "every end" => true,
            "not half-closed" => end != End::HalfClose,
            "resets" => matches!(end, End::Reset | End::ResetStream),
            "none" => false,
            said => panic!("the table says {said}"),
        }
    }
}
