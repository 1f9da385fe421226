//! The messages that a session hears from the other side.

use std::io;

use super::*;
use protocol_core::Dialect;

/// Returns a session with a server that says this.
fn said(dialect: Dialect, output: impl io::Read + Send + 'static) -> Session {
    let link = Link::new(output, io::sink(), None);
    let mut session = Session::new(link, Wire::new(dialect), Duration::ZERO, None);
    session.wait_for(Duration::from_secs(60), &mut |_| false);
    session
}

fn broken_rules(session: &Session) -> Vec<&str> {
    let broken = session.record.iter().filter_map(|entry| match &entry.what {
        What::Broken(why) => Some(why.as_str()),
        _ => None,
    });
    broken.collect()
}

#[test]
fn a_line_between_messages_that_have_headers_is_no_message() {
    let message = "Content-Length: 35\r\n\r\n{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":1}";
    let stray = format!("{message}ignoring cancel\n{message}");
    let session = said(Dialect::LSP_3_17, io::Cursor::new(stray));
    assert_eq!(broken_rules(&session), ["no header of a message: ignoring cancel"]);
    assert_eq!(session.answers_to("7").count(), 2);
    let typed = message.replacen("\r\n", "\r\ncontent-type: a\r\n", 1);
    let session = said(Dialect::LSP_3_17, io::Cursor::new(message.to_owned() + &typed));
    assert_eq!((broken_rules(&session), session.answers_to("7").count()), (vec![], 2));
}

#[test]
fn responses_in_a_batch_are_heard_where_there_are_batches() {
    let batch = r#"[{"jsonrpc":"2.0","id":7,"result":1},{"jsonrpc":"2.0","id":8,"result":1}]
"#;
    let heard = |dialect| said(dialect, batch.as_bytes()).all_answers().count();
    assert_eq!((heard(Dialect::MCP_2025_03_26), heard(Dialect::MCP_2025_11_25)), (2, 0));
}

#[test]
fn a_record_is_bounded_in_its_messages_too() {
    use io::Read as _;
    struct Yes(bool);
    impl io::Read for Yes {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            into.fill_with(|| {
                self.0 = !self.0;
                if self.0 { b'y' } else { b'\n' }
            });
            Ok(into.len())
        }
    }
    // A hundredth of the bytes that are kept.
    let session = said(Dialect::ACP_V1, Yes(false).take(1 << 20));
    assert!(session.has_said_too_much());
}

#[test]
fn a_notification_is_json_in_every_envelope() {
    for dialect in [Dialect::JSON_RPC, Dialect::ABP, Dialect::DAP] {
        let (_far, link) = Link::pair().unwrap();
        let mut session = Session::new(link, Wire::new(dialect), Duration::ZERO, None);
        session.notify(&Request::new("hello", json!({})));
        let What::Sent(message) = &session.record[0].what else { panic!("it is sent") };
        serde_json::from_str::<serde_json::Value>(message).expect(message);
    }
}
