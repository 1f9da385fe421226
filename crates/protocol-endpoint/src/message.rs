//! Requests and notifications of the peer's.

use alloc::boxed::Box;
use core::fmt;

use protocol_core::code;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use crate::error::RpcError;
use crate::failure::{Failure, InvalidParams};
use crate::method::MethodName;

/// A request of the peer's. Its `Debug` omits the params.
#[derive(Clone)]
pub struct Request {
    /// The name of its method.
    pub method: MethodName,
    /// Its params, as the peer wrote them.
    pub params: Option<Box<RawValue>>,
    /// The `options` of ABP, which stand beside the params.
    pub options: Option<Box<RawValue>>,
}

/// A notification of the peer's. Its `Debug` omits the params.
#[derive(Clone)]
pub struct Notification {
    /// The name of its method.
    pub method: MethodName,
    /// Its params, as the peer wrote them.
    pub params: Option<Box<RawValue>>,
}

impl Request {
    /// Returns the bytes that the request holds.
    pub(crate) fn bytes(&self) -> usize {
        size_of::<Self>() + payload(&self.method, self.params.as_deref(), self.options.as_deref())
    }

    /// Deserializes the params. Absent ones are read as `null`.
    ///
    /// # Errors
    ///
    /// Returns [`InvalidParams`] if they are not of this type. A handler can respond with it.
    pub fn params<T: DeserializeOwned>(&self) -> Result<T, InvalidParams> {
        read(&self.method, self.params.as_deref())
    }

    /// Returns the failure of a request whose method no handler knows.
    #[must_use]
    pub fn unknown_method(&self) -> Failure {
        Failure::Error(RpcError::new(code::METHOD_NOT_FOUND, "method not found"))
    }
}

impl Notification {
    /// Deserializes the params. Absent ones are read as `null`.
    ///
    /// # Errors
    ///
    /// Returns [`InvalidParams`] if they are not of this type.
    pub fn params<T: DeserializeOwned>(&self) -> Result<T, InvalidParams> {
        read(&self.method, self.params.as_deref())
    }
}

/// Returns the bytes of the peer's in a message.
pub(crate) fn payload(
    method: &str,
    params: Option<&RawValue>,
    options: Option<&RawValue>,
) -> usize {
    let length = |json: Option<&RawValue>| json.map_or(0, |json| json.get().len());
    method.len() + length(params) + length(options)
}

fn read<T: DeserializeOwned>(
    method: &MethodName,
    params: Option<&RawValue>,
) -> Result<T, InvalidParams> {
    let params = params.map_or("null", RawValue::get);
    serde_json::from_str(params).map_err(|reason| InvalidParams::new(method, reason))
}

impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Request").field("method", &self.method).finish_non_exhaustive()
    }
}

impl fmt::Debug for Notification {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Notification").field("method", &self.method).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {

    use serde_json::value::to_raw_value;

    use super::*;

    #[test]
    fn f44_all_that_a_request_says_counts() {
        let [params, options] = [98, 998].map(|length| to_raw_value(&"x".repeat(length)).ok());
        let request = Request { method: "work".into(), params, options };
        assert_eq!(request.bytes(), size_of::<Request>() + 4 + 100 + 1_000);
    }
}
