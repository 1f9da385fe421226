//! As much of the encoding of Protocol Buffers as a trace needs.

/// The fields of one message, in the order they are written.
#[derive(Clone, Debug, Default)]
pub(super) struct Message(Vec<u8>);

/// The wire types, which say how a field's value is written.
const VARINT: u64 = 0;
const LENGTH_DELIMITED: u64 = 2;

impl Message {
    pub(super) fn uint(mut self, field: u64, value: u64) -> Self {
        self.varint(field << 3 | VARINT);
        self.varint(value);
        self
    }

    /// As `int64` and `int32` have it: a negative number takes ten bytes.
    pub(super) fn int(self, field: u64, value: i64) -> Self {
        self.uint(field, value as u64)
    }

    pub(super) fn text(self, field: u64, text: &str) -> Self {
        self.bytes(field, text.as_bytes())
    }

    pub(super) fn message(self, field: u64, message: &Self) -> Self {
        self.bytes(field, &message.0)
    }

    /// The fields of another message, after its own.
    pub(super) fn append(&mut self, more: &Self) {
        self.0.extend_from_slice(&more.0);
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    fn bytes(mut self, field: u64, bytes: &[u8]) -> Self {
        self.varint(field << 3 | LENGTH_DELIMITED);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
        self
    }

    /// Seven bits a byte, the lowest first.
    fn varint(&mut self, mut value: u64) {
        while value > 0x7f {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_examples_of_the_encoding_s_documentation() {
        assert_eq!(Message::default().uint(1, 150).as_bytes(), [0x08, 0x96, 0x01]);
        assert_eq!(Message::default().text(2, "testing").as_bytes(), b"\x12\x07testing");
        let inner = Message::default().uint(1, 150);
        assert_eq!(Message::default().message(3, &inner).as_bytes(), [0x1a, 3, 0x08, 0x96, 0x01]);
        let minus_two = [&[0x08][..], &[0xfe], &[0xff; 8], &[0x01]].concat();
        assert_eq!(Message::default().int(1, -2).as_bytes(), minus_two);
    }
}
