//! The grant of an account is an input of an endpoint: it limits what is taken, and can be replayed.

use protocol_core::{Config, Dialect, Response, Timestamp};
use protocol_endpoint::{
    Arrived, Effects, EndReason, Endpoint, Grant, Messages, Options, Output, Shown, Verdict,
};
use serde_json::value::to_raw_value;

type Host = Endpoint<u32, u32>;

/// An input of the endpoint, as a recording has it.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Input {
    Bytes(String),
    Granted(Grant),
}

fn server() -> Host {
    let mut options = Options::new(Config::server(Dialect::ACP_V1));
    options.shows.messages = true;
    options.shows.verdicts = true;
    Endpoint::new(options)
}

fn request(id: u32) -> Input {
    let params = "x".repeat(1_000);
    Input::Bytes(format!(
        "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"echo\",\"params\":[\"{params}\"]}}\n"
    ))
}

/// Gives an endpoint its inputs and serves what arrives. Returns everything that it shows and writes.
fn run(inputs: &[Input]) -> (Host, Vec<Input>, String) {
    let (mut host, mut effects) = (server(), Effects::new());
    let (mut shown, mut out, mut written) = (Vec::new(), Messages::default(), String::new());
    for input in inputs {
        match input {
            Input::Bytes(bytes) => {
                let used = host.receive(bytes.as_bytes(), Timestamp::ZERO, &mut effects);
                assert_eq!(used, bytes.len());
            }
            Input::Granted(grant) => host.set_grant(*grant, &mut effects),
        }
        while let Some(Arrived::Request(request, _)) = host.take(&mut effects) {
            let result = to_raw_value("done").unwrap();
            host.respond(request, Response::Result(&result), &mut effects);
        }
        for show in effects.take_shown() {
            match show {
                Shown::Message(protocol_endpoint::Way::Received, bytes) => {
                    shown.push(Input::Bytes(String::from_utf8(bytes.into()).unwrap() + "\n"));
                }
                Shown::Verdict(Verdict::Granted { grant }, _) => shown.push(Input::Granted(grant)),
                _ => {}
            }
        }
        while host.poll_output(&mut out, &mut effects) == Output::Write {
            written += core::str::from_utf8(out.bytes()).unwrap();
            out.clear();
        }
    }
    (host, shown, written)
}

#[test]
fn f99_a_grant_without_requests_refuses_them_and_reads_on() {
    let inputs = [
        request(1),
        Input::Granted(Grant::NoRequests),
        request(2),
        Input::Granted(Grant::All),
        request(3),
    ];
    let (host, _, written) = run(&inputs);
    let lines: Vec<&str> = written.lines().collect();
    assert_eq!(lines.len(), 3, "{written}");
    let overload = format!("\"code\":{}", Dialect::ACP_V1.overload_code);
    assert!(lines[0].contains("done") && lines[2].contains("done"), "{written}");
    assert!(lines[1].contains(&overload) && lines[1].contains("\"id\":2"), "{written}");
    assert!(host.may_read() && host.closed().is_none());
}

#[test]
fn f99_a_revoked_grant_ends_the_connection_and_releases_its_bytes() {
    let (mut host, mut effects) = (server(), Effects::new());
    for id in 0..10 {
        let Input::Bytes(bytes) = request(id) else { unreachable!() };
        host.receive(bytes.as_bytes(), Timestamp::ZERO, &mut effects);
    }
    host.receive(b"{\"jsonrpc\"", Timestamp::ZERO, &mut effects);
    assert!(host.held_bytes() > 10_000, "{}", host.held_bytes());
    host.note_unfinished(0);
    host.set_grant(Grant::NoReading, &mut effects);
    assert!(!host.may_read() && host.closed().is_none());
    host.set_grant(Grant::Revoked, &mut effects);
    assert_eq!((host.end_reason(), host.held_bytes()), (Some(&EndReason::Revoked), 0));
    assert!(host.is_over() && host.take(&mut effects).is_none());
    // It is for good.
    host.set_grant(Grant::All, &mut effects);
    assert_eq!(host.grant(), Grant::Revoked);
}

#[test]
fn f99_everything_that_waits_is_held_and_goes_back() {
    let (mut host, mut effects) = (server(), Effects::new());
    let Input::Bytes(bytes) = request(1) else { unreachable!() };
    let half = bytes.len() / 2;
    assert_eq!(host.receive(&bytes.as_bytes()[..half], Timestamp::ZERO, &mut effects), 0);
    assert_eq!(host.held_bytes(), 2 * half, "an unfinished message may be copied once");
    host.receive(bytes.as_bytes(), Timestamp::ZERO, &mut effects);
    assert!(host.held_bytes() > 1_000, "in the inbox");
    let Some(Arrived::Request(request, _)) = host.take(&mut effects) else { panic!() };
    assert!(host.held_bytes() > 1_000, "at work");
    let result = to_raw_value(&"y".repeat(5_000)).unwrap();
    host.respond(request, Response::Result(&result), &mut effects);
    assert!((5_000..6_000).contains(&host.held_bytes()), "unsent");
    let mut out = Messages::default();
    assert_eq!(host.poll_output(&mut out, &mut effects), Output::Write);
    assert!((5_000..6_000).contains(&host.held_bytes()), "being written");
    out.clear();
    assert_eq!(host.poll_output(&mut out, &mut effects), Output::Idle);
    assert_eq!(host.held_bytes(), 0);
}

#[test]
fn f99_g10_a_replay_with_the_recorded_grants_is_exact() {
    let mut inputs: Vec<Input> = (0..40).map(request).collect();
    inputs.insert(10, Input::Granted(Grant::NoRequests));
    inputs.insert(20, Input::Granted(Grant::All));
    inputs.insert(30, Input::Granted(Grant::Revoked));
    let (_, recorded, written) = run(&inputs);
    assert!(recorded.contains(&Input::Granted(Grant::Revoked)));
    assert_eq!(recorded, inputs[..recorded.len()]);
    let (_, again, rewritten) = run(&recorded);
    assert_eq!((again, rewritten), (recorded, written));
}
