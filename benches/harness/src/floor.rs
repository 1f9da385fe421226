//! The yardstick: the cost of one round trip with `serde_json` alone.

use std::hint::black_box;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::payload::Payload;

#[derive(Serialize)]
struct RequestOut<'a> {
    jsonrpc: &'static str,
    id: u64,
    method: &'static str,
    params: &'a Payload,
}

#[derive(Serialize)]
struct ResponseOut<'a> {
    jsonrpc: &'static str,
    id: u64,
    result: &'a Payload,
}

#[derive(Deserialize)]
struct RequestIn<'a> {
    id: u64,
    method: &'a str,
    #[serde(borrow)]
    params: &'a RawValue,
}

#[derive(Deserialize)]
struct ResponseIn<'a> {
    id: u64,
    #[serde(borrow)]
    result: &'a RawValue,
}

/// Round trips without a transport, a table or a runtime. Each writes a request and reads it: a
/// borrowed envelope, then typed params. Then it writes the response and reads that, into one
/// buffer. As every peer's caller it makes its params first, and compares the result.
#[derive(Default)]
pub struct Floor {
    buffer: Vec<u8>,
    id: u64,
}

const WRITES: &str = "payloads can be written, into a Vec";
const READS: &str = "it was written above";

impl Floor {
    /// So many round trips.
    pub fn echo(&mut self, times: usize, payload: &Payload) {
        for _ in 0..times {
            self.id += 1;
            let params = payload.clone();
            let request =
                RequestOut { jsonrpc: "2.0", id: self.id, method: "bench/echo", params: &params };
            let request: RequestIn<'_> = pass(&mut self.buffer, &request);
            assert_eq!(request.method, "bench/echo");
            let params: Payload = serde_json::from_str(request.params.get()).expect(READS);
            let response = ResponseOut { jsonrpc: "2.0", id: request.id, result: &params };
            let response: ResponseIn<'_> = pass(&mut self.buffer, &response);
            assert_eq!(response.id, self.id);
            let result: Payload = serde_json::from_str(response.result.get()).expect(READS);
            assert!(result == *payload);
        }
    }
}

/// Writes a message as a line, and reads that.
fn pass<'a, R: Deserialize<'a>>(buffer: &'a mut Vec<u8>, message: &impl Serialize) -> R {
    buffer.clear();
    serde_json::to_writer(&mut *buffer, message).expect(WRITES);
    buffer.push(b'\n');
    serde_json::from_slice(black_box(&buffer[..buffer.len() - 1])).expect(READS)
}
