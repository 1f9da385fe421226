//! The responses that a relay makes itself, where the other side has none to forward.

use protocol_core::{Cause, RequestHandle, Response, code};

/// A response of the relay's own that waits for room in the outbox. It holds none of the peers' data.
pub(crate) type OwnResponse = (RequestHandle, Response<'static>);

pub(crate) const HOP_GONE: Response<'static> = error(code::INTERNAL_ERROR, "the next hop is gone");
pub(crate) const MALFORMED: Response<'static> =
    error(code::INTERNAL_ERROR, "the response of the next hop was malformed");
/// A cancel that names an id is a notification, so no request has its method.
pub(crate) const NOT_A_METHOD: Response<'static> =
    error(code::METHOD_NOT_FOUND, "method not found: cancels are notifications");

pub(crate) const NAMES_NO_REQUEST: Response<'static> =
    error(code::INVALID_PARAMS, "invalid params: the request that they name is over or unknown");

/// Returns the response to a request that took too long for its guard.
pub(crate) const fn too_slow(cause: Cause) -> Response<'static> {
    let message = match cause {
        Cause::IdleTimeout => "the request made no progress for too long (idle_timeout)",
        Cause::HardCap => "the next hop took too long (hard_cap)",
        _ => "the next hop did not respond in time (deadline)",
    };
    error(code::REQUEST_FAILED, message)
}

pub(crate) const fn error(code: i64, message: &'static str) -> Response<'static> {
    Response::Error { code, message, data: None }
}
