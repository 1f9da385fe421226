//! Tokens of operations.

use core::fmt;

/// Names an operation to whoever may cancel it: 128 random bits, so nobody can guess one.
///
/// On the wire it is 32 hexadecimal digits, written in upper case and read in either.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OperationToken([u8; 16]);

impl OperationToken {
    /// The token of these bytes.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// The token that these 32 hexadecimal digits spell, in upper or lower case.
    #[must_use]
    pub fn from_digits(digits: &str) -> Option<Self> {
        let is_plain = digits.len() == 32 && digits.bytes().all(|it| it.is_ascii_hexdigit());
        let number = u128::from_str_radix(digits, 16).ok().filter(|_| is_plain)?;
        Some(Self(number.to_be_bytes()))
    }

    /// Its bytes.
    #[must_use]
    pub const fn to_bytes(self) -> [u8; 16] {
        self.0
    }
}

impl fmt::Display for OperationToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032X}", u128::from_be_bytes(self.0))
    }
}

/// Tokens are secrets: logs show only where they begin.
impl fmt::Debug for OperationToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [first, second, ..] = self.0;
        write!(f, "OperationToken({first:02X}{second:02X}…)")
    }
}
