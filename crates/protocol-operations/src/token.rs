//! The tokens that clients name operations by.

use core::fmt;

/// A name that lets its holder cancel an operation: 128 random bits, which nobody can guess.
///
/// On the wire it is 32 hexadecimal digits, written in upper case and read in either.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OperationToken([u8; 16]);

impl OperationToken {
    /// Makes a token of 16 bytes.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// Parses exactly 32 hexadecimal digits, in upper or lower case.
    #[must_use]
    pub fn from_digits(digits: &str) -> Option<Self> {
        // `from_str_radix` would accept a sign.
        let all_digits = digits.len() == 32 && digits.bytes().all(|it| it.is_ascii_hexdigit());
        let number = u128::from_str_radix(digits, 16).ok().filter(|_| all_digits)?;
        Some(Self(number.to_be_bytes()))
    }

    /// Returns the 16 bytes, which are secret.
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

/// Writes only the first two bytes, because tokens are secrets and this is for logs.
impl fmt::Debug for OperationToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [first, second, ..] = self.0;
        write!(f, "OperationToken({first:02X}{second:02X}…)")
    }
}
