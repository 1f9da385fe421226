//! The lines of `--trace`: each message with the request that it belongs to.

use std::collections::VecDeque;
use std::time::Instant;

use anstyle::Style;
use protocol_async::Way;
use protocol_core::Dialect;
use protocol_record::Shape;
use protocol_record::line::{Kind, Part};

use crate::terminal::Line;

/// Requests in flight that are remembered; of more, the oldest is not named any more.
const REMEMBERED: usize = 1024;
/// One with a longer id or method is not.
const NAME: usize = 256;

/// The messages of one connection.
#[derive(Debug)]
pub(crate) struct Traced {
    begun: Instant,
    shape: Shape,
    in_flight: VecDeque<Request>,
}

#[derive(Debug)]
struct Request {
    is_sent: bool,
    /// As its sender wrote it.
    id: String,
    method: String,
}

impl Traced {
    pub(crate) fn new(dialect: &Dialect, begun: Instant) -> Self {
        Self { begun, shape: Shape::of(dialect), in_flight: VecDeque::new() }
    }

    /// Returns the line for a message: its time, its direction and its text, as far as that is not too long. An
    /// answer or a cancel names no more than an id, so the line adds the method of its request.
    pub(crate) fn line(&mut self, hop: &str, way: Way, message: &[u8]) -> Line {
        const DIM: Style = Style::new().dimmed();
        let arrow = match way {
            Way::Sent => "-->",
            Way::Received => "<--",
        };
        let elapsed = self.begun.elapsed().as_secs_f64() * 1e3;
        let line = Line::new().styled(DIM, format_args!("{elapsed:10.3} ms"));
        let mut line = line.text(format_args!(" {hop}{arrow} ")).traced(message);
        for (what, method) in self.belongs(way, message) {
            line = line.styled(DIM, format_args!(" ({what} {method})"));
        }
        line
    }

    /// Returns the effect of each part of a message, with the method of its request.
    fn belongs(&mut self, way: Way, message: &[u8]) -> Vec<(&'static str, String)> {
        let Ok(text) = std::str::from_utf8(message) else { return Vec::new() };
        let parts = self.shape.parts(text);
        parts.iter().filter_map(|part| self.part(way, part)).collect()
    }

    fn part(&mut self, way: Way, part: &Part<'_>) -> Option<(&'static str, String)> {
        let is_sent = way == Way::Sent;
        match part.kind {
            Kind::Request => {
                self.remember(is_sent, part.id.as_ref()?.as_json(), part.method.as_deref()?);
                None
            }
            Kind::Cancel => {
                let at = self.find(is_sent, part.cancels.as_ref()?.as_json())?;
                Some(("cancels", self.in_flight[at].method.clone()))
            }
            Kind::Result | Kind::Error => {
                let at = self.find(!is_sent, part.id.as_ref()?.as_json())?;
                Some(("answers", self.in_flight.remove(at)?.method))
            }
            _ => None,
        }
    }

    fn remember(&mut self, is_sent: bool, id: &str, method: &str) {
        if id.len().max(method.len()) > NAME {
            return;
        }
        if self.in_flight.len() == REMEMBERED {
            self.in_flight.pop_front();
        }
        self.in_flight.push_back(Request { is_sent, id: id.into(), method: method.into() });
    }

    fn find(&self, is_sent: bool, id: &str) -> Option<usize> {
        self.in_flight.iter().position(|request| request.is_sent == is_sent && request.id == id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn traced(dialect: &Dialect) -> impl FnMut(Way, &str) -> String + use<> {
        let mut traced = Traced::new(dialect, Instant::now());
        move |way, message| {
            let line = traced.line("", way, message.as_bytes()).finish();
            line.split_once(message).unwrap().1.trim_end().into()
        }
    }

    #[test]
    fn answers_and_cancels_name_the_method_of_their_request() {
        let mut said = traced(&Dialect::ACP_V1);
        let (sent, received) = (Way::Sent, Way::Received);
        let mut says = |way, message: &str, expected: &str| {
            let plain = anstream::adapter::strip_str(&said(way, message)).to_string();
            assert_eq!(plain.trim(), expected, "{message}");
        };
        says(sent, r#"{"jsonrpc":"2.0","id":1,"method":"a"}"#, "");
        // The same id the other way is another request, and so is the same number as a text.
        says(received, r#"{"jsonrpc":"2.0","id":1,"method":"b"}"#, "");
        says(received, r#"{"jsonrpc":"2.0","id":"1","method":"c"}"#, "");
        let cancel = r#"{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":1}}"#;
        says(sent, cancel, "(cancels a)");
        says(received, cancel, "(cancels b)");
        says(sent, r#"{"jsonrpc":"2.0","id":"1","result":{}}"#, "(answers c)");
        says(
            received,
            r#"{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":""}}"#,
            "(answers a)",
        );
        says(received, r#"{"jsonrpc":"2.0","id":1,"result":{}}"#, "");
        says(received, "no message", "");
        let mut said = traced(&Dialect::DAP);
        assert_eq!(said(sent, r#"{"seq":2,"type":"request","command":"sleep"}"#), "");
        let answer =
            r#"{"seq":9,"type":"response","request_seq":2,"command":"sleep","success":true}"#;
        assert!(said(received, answer).contains("(answers sleep)"));
    }

    #[test]
    fn g08_only_so_many_requests_are_remembered() {
        let mut traced = Traced::new(&Dialect::ACP_V1, Instant::now());
        let long = "m".repeat(NAME + 1);
        for id in 0..2 * REMEMBERED {
            for method in ["m", &long] {
                let request = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}"}}"#);
                traced.line("", Way::Sent, request.as_bytes());
            }
        }
        assert_eq!(traced.in_flight.len(), REMEMBERED);
        assert!(traced.in_flight.iter().all(|request| request.method == "m"));
        assert_eq!(traced.in_flight[0].id, REMEMBERED.to_string());
    }
}
