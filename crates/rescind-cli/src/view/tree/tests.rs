use protocol_core::WireId;
use protocol_record::line::Direction;

use super::Tree;
use crate::view::pairing::{Pairing, REMEMBERED};
use crate::view::row::{Connection, Row};

/// Returns the parents of requests, in the order in which they began. `up< 1 m` is a request: its connection,
/// its direction, its id and its method. Without a method it is a response, in the direction that it takes.
/// `up!` is another connection of that name.
fn parents(hops: &[(&str, &str)], passed: &[&str]) -> Vec<Option<u64>> {
    let mut pairing = Pairing::new(REMEMBERED);
    let mut take = |line: String| {
        pairing.take(&serde_json::from_str(&line).unwrap());
    };
    let opened = |(hop, role): &(&str, &str)| {
        format!(r#"{{"opened":{{"t":0,"hop":"{hop}","role":"{role}","dialect":"acp"}}}}"#)
    };
    hops.iter().for_each(|hop| take(opened(hop)));
    for (t, line) in passed.iter().enumerate() {
        if let Some(name) = line.strip_suffix('!') {
            take(opened(hops.iter().find(|(hop, _)| *hop == name).unwrap()));
            continue;
        }
        let words: Vec<&str> = line.split(' ').collect();
        let (hop, way) = words[0].split_at(words[0].len() - 1);
        let dir = if way == "<" { "received" } else { "sent" };
        let (id, kind) = (words[1], if words.len() > 2 { "request" } else { "result" });
        let method = words.get(2).map(|it| format!(r#","method":"{it}""#)).unwrap_or_default();
        let part = format!(r#"{{"kind":"{kind}","id":{id}{method}}}"#);
        take(format!(
            r#"{{"message":{{"t":{t},"hop":"{hop}","dir":"{dir}","bytes":9,"parts":[{part}]}}}}"#
        ));
    }
    pairing.rest().values().map(|row| row.parent).collect()
}

const RELAY: [(&str, &str); 2] = [("up", "server"), ("down", "client")];

#[test]
fn what_a_relay_passes_on_is_below_what_it_received() {
    let passed = ["up< 1 m", "up< 2 m", "up< 3 n", "down> 1 m", "down> 2 n", "down> 3 m"];
    let expected = [None, None, None, Some(0), Some(2), Some(1)];
    assert_eq!(parents(&RELAY, &passed), expected);
}

#[test]
fn what_was_over_before_is_not_passed_on_later() {
    let passed = ["up< 1 m", "up> 1", "up< 2 m", "down> 1 m"];
    assert_eq!(parents(&RELAY, &passed), [None, None, Some(1)]);
}

#[test]
fn what_a_connection_received_that_is_gone_is_not_passed_on() {
    let passed = ["up< 1 m", "up!", "up< 1 m", "down> 1 m", "down< 1 ask", "up!", "down< 2 ask"];
    assert_eq!(parents(&RELAY, &passed), [None, None, Some(1), Some(2), Some(2)]);
}

/// A server that runs for long has many connections, and the names of ports come again.
#[test]
fn g08_another_connection_of_a_name_looks_at_the_requests_of_the_last_one_alone() {
    let mut tree = Tree::default();
    let hop = |number: u64| Connection { number, name: format!("{}", number % 10).into() };
    for number in 0..2_000 {
        let id = WireId::from_json("1").unwrap();
        let dir = if number % 2 == 0 { Direction::Sent } else { Direction::Received };
        tree.begin(&Row::begun(number, 0, hop(number / 2), dir, id));
    }
    assert_eq!(tree.of(&hop(7)), [14, 15]);
    assert!(tree.of(&hop(1_000)).is_empty());
}

#[test]
fn what_a_server_asks_is_below_the_one_request_that_it_is_at_work_on() {
    let passed = ["up< 1 m", "down> 1 m", "down< 7 ask", "up> 7 ask"];
    assert_eq!(parents(&RELAY, &passed), [None, Some(0), Some(1), Some(2)]);
    let server = [("client", "server")];
    assert_eq!(parents(&server, &["client< 1 m", "client> 1 ask"]), [None, Some(0)]);
}

#[test]
fn what_is_not_clear_is_not_told() {
    // At work on two, or on none any more.
    let two = ["server> 1 m", "server> 2 m", "server< 1 ask"];
    assert_eq!(parents(&[("server", "client")], &two), [None; 3]);
    let none = ["server> 1 m", "server< 1", "server< 1 ask"];
    assert_eq!(parents(&[("server", "client")], &none), [None; 2]);
    // A request that a client makes while it is asked is its user's next wish.
    let wish = ["client> 1 ask", "client< 1 m"];
    assert_eq!(parents(&[("client", "server")], &wish), [None; 2]);
    // A server passes nothing on from one client to another.
    let clients = [("a", "server"), ("b", "server")];
    assert_eq!(parents(&clients, &["a< 1 m", "b> 1 m"]), [None; 2]);
}
