//! Messages, written straight into the outbox.
//!
//! No member is written that has nothing to say: some peers refuse `"params":null`.

use alloc::vec::Vec;

use memchr::memchr2;
use serde_json::value::RawValue;

use super::scan;
use crate::dialect::{Dialect, code};
use crate::event::{Params, Reply};

pub(crate) fn request(out: &mut Vec<u8>, number: u32, method: &str, params: Params<'_>) {
    out.extend_from_slice(br#"{"jsonrpc":"2.0","id":"#);
    decimal(u64::from(number), out);
    out.push(b',');
    method_and_params(out, method, params);
}

pub(crate) fn notification(out: &mut Vec<u8>, method: &str, params: Params<'_>) {
    out.extend_from_slice(br#"{"jsonrpc":"2.0","#);
    method_and_params(out, method, params);
}

fn method_and_params(out: &mut Vec<u8>, method: &str, params: Params<'_>) {
    out.extend_from_slice(br#""method":"#);
    string(method, out);
    if let Params::Raw(params) = params {
        out.extend_from_slice(br#","params":"#);
        raw(params, out);
    }
    out.push(b'}');
}

/// The cancel of a request: a notification whose params hold the id that `id` writes, and perhaps
/// why, under the member that is for that.
pub(crate) fn cancel(
    out: &mut Vec<u8>,
    method: &str,
    id_member: &str,
    id: impl FnOnce(&mut Vec<u8>),
    reason: Option<(&str, &str)>,
) {
    out.extend_from_slice(br#"{"jsonrpc":"2.0","method":"#);
    string(method, out);
    out.extend_from_slice(br#","params":"#);
    cancel_params(out, id_member, id, reason);
    out.push(b'}');
}

/// A cancel that is a request of its own.
pub(crate) fn cancel_request(
    out: &mut Vec<u8>,
    number: u32,
    method: &str,
    params: impl FnOnce(&mut Vec<u8>),
) {
    out.extend_from_slice(br#"{"jsonrpc":"2.0","id":"#);
    decimal(u64::from(number), out);
    out.extend_from_slice(br#","method":"#);
    string(method, out);
    out.extend_from_slice(br#","params":"#);
    params(out);
    out.push(b'}');
}

/// The params of a cancel.
pub(crate) fn cancel_params(
    out: &mut Vec<u8>,
    member: &str,
    id: impl FnOnce(&mut Vec<u8>),
    reason: Option<(&str, &str)>,
) {
    out.push(b'{');
    string(member, out);
    out.push(b':');
    id(out);
    if let Some((member, reason)) = reason {
        out.push(b',');
        string(member, out);
        out.push(b':');
        string(reason, out);
    }
    out.push(b'}');
}

/// The answer to the request whose id is this token.
pub(crate) fn response(out: &mut Vec<u8>, id: &str, reply: Reply<'_>, dialect: &Dialect) {
    out.extend_from_slice(br#"{"jsonrpc":"2.0","id":"#);
    out.extend_from_slice(id.as_bytes());
    match reply {
        Reply::Result(result) => {
            out.extend_from_slice(br#","result":"#);
            raw(result, out);
        }
        Reply::Error { code, message, data } => error(out, code, message, data),
        Reply::ErrorRaw(object) => {
            out.extend_from_slice(br#","error":"#);
            raw(object, out);
        }
        Reply::Cancelled => error(out, code::REQUEST_CANCELLED, &dialect.cancelled_message, None),
    }
    out.push(b'}');
}

/// The notification that an operation was cancelled: its token, why, and the Unix time in
/// milliseconds.
pub(crate) fn told(
    out: &mut Vec<u8>,
    method: &str,
    token: impl FnOnce(&mut Vec<u8>),
    reason: &str,
    stamp: u64,
) {
    out.extend_from_slice(br#"{"jsonrpc":"2.0","method":"#);
    string(method, out);
    out.extend_from_slice(br#","params":{"requestId":"#);
    token(out);
    out.extend_from_slice(br#","reason":"#);
    string(reason, out);
    out.extend_from_slice(br#","timestamp":"#);
    decimal(stamp, out);
    out.extend_from_slice(b"}}");
}

/// A result that `write` writes.
pub(crate) fn result(out: &mut Vec<u8>, id: &str, write: impl FnOnce(&mut Vec<u8>)) {
    out.extend_from_slice(br#"{"jsonrpc":"2.0","id":"#);
    out.extend_from_slice(id.as_bytes());
    out.extend_from_slice(br#","result":"#);
    write(out);
    out.push(b'}');
}

fn error(out: &mut Vec<u8>, code: i64, message: &str, data: Option<&RawValue>) {
    out.extend_from_slice(br#","error":{"code":"#);
    if code < 0 {
        out.push(b'-');
    }
    decimal(code.unsigned_abs(), out);
    out.extend_from_slice(br#","message":"#);
    string(message, out);
    if let Some(data) = data {
        out.extend_from_slice(br#","data":"#);
        raw(data, out);
    }
    out.push(b'}');
}

/// Writes a JSON value as its owner wrote it, on one line. A line end in valid JSON can only be
/// white space between tokens.
pub(crate) fn raw(value: &RawValue, out: &mut Vec<u8>) {
    let start = out.len();
    out.extend_from_slice(value.get().as_bytes());
    if scan::has_control(value.get()) {
        spaced(&mut out[start..]);
    }
}

#[cold]
fn spaced(value: &mut [u8]) {
    let mut from = 0;
    while let Some(at) = memchr2(b'\n', b'\r', &value[from..]) {
        value[from + at] = b' ';
        from += at + 1;
    }
}

/// Writes a JSON string.
pub(crate) fn string(text: &str, out: &mut Vec<u8>) {
    out.reserve(text.len() + 2);
    out.push(b'"');
    if scan::is_plain(text) {
        out.extend_from_slice(text.as_bytes());
    } else {
        escaped(text, out);
    }
    out.push(b'"');
}

#[cold]
fn escaped(text: &str, out: &mut Vec<u8>) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    for byte in text.bytes() {
        match byte {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
            0..0x20 => {
                out.extend_from_slice(b"\\u00");
                out.push(HEX[usize::from(byte >> 4)]);
                out.push(HEX[usize::from(byte & 15)]);
            }
            _ => out.push(byte),
        }
    }
}

pub(crate) fn decimal(mut number: u64, out: &mut Vec<u8>) {
    let mut digits = [0; 20];
    let mut first = digits.len();
    loop {
        first -= 1;
        digits[first] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[first..]);
}

#[cfg(test)]
mod tests {
    use alloc::string::String;

    use super::*;

    fn written(write: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        write(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn strings_are_escaped_as_json_asks() {
        for text in ["", "plain", "a\"b\\c", "\u{0}\n\u{1f}é\u{2028}"] {
            let json = written(|out| string(text, out));
            assert_eq!(serde_json::from_str::<String>(&json).unwrap(), text);
        }
    }

    #[test]
    fn numbers_are_decimal() {
        for number in [0, 7, 10, u64::from(u32::MAX), u64::MAX] {
            assert_eq!(written(|out| decimal(number, out)), alloc::format!("{number}"));
        }
        let min = written(|out| error(out, i64::MIN, "", None));
        assert!(min.contains("-9223372036854775808"), "{min}");
    }

    #[test]
    fn a_message_is_one_line() {
        let params: &RawValue = serde_json::from_str("{\"a\":\r\n\n1}").unwrap();
        let message = written(|out| request(out, 1, "m", Params::Raw(params)));
        assert_eq!(
            message,
            "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"m\",\"params\":{\"a\":   1}}"
        );
    }
}
