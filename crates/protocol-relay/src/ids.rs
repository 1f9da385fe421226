//! The places where a message of a server's names a request of the client's by its id.

use alloc::boxed::Box;
use alloc::string::String;

use protocol_core::{Cancellers, Dialect, Envelope, Refusal};
use serde_json::value::RawValue;

use crate::params::replace;

/// A place in the params or in the result of a server's message, where the id of a request of the client's stands.
///
/// An id means nothing on another connection, so a hop translates it (B25).
///
/// ```
/// use protocol_core::Dialect;
/// use protocol_relay::IdPlace;
///
/// let params = serde_json::from_str(r#"{"mode":"form","requestId":2}"#)?;
/// let place = IdPlace::find(&Dialect::ACP_V1, Some("elicitation/create")).ok_or("it has one")?;
/// let translated = place.translate(params, |id| (id == "2").then(|| "\"a\"".into()))?;
/// let translated = translated.ok_or("the params name a request")?;
/// assert_eq!(translated.get(), r#"{"mode":"form","requestId":"a"}"#);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct IdPlace {
    /// Returns whether a dialect has this place.
    is_in: fn(&Dialect) -> bool,
    /// The method of the message, or `None` for every notification, request and result.
    method: Option<&'static str>,
    path: &'static [&'static str],
    /// Whether the id may be left out.
    is_optional: bool,
}

/// The places of all dialects.
const PLACES: [IdPlace; 3] = [
    // "The request ID that this progress report is related to" (DAP, `ProgressStartEvent`, `requestId?`).
    IdPlace {
        is_in: |dialect| dialect.envelope == Envelope::Dap,
        method: Some("progressStart"),
        path: &["requestId"],
        is_optional: true,
    },
    // "The request this elicitation is tied to." It takes the place of a `sessionId` (the schema of ACP, versions 1 and 2,
    // `ElicitationRequestScope`).
    IdPlace {
        is_in: |dialect| dialect.cancel.has_method("$/cancel_request"),
        method: Some("elicitation/create"),
        path: &["requestId"],
        is_optional: false,
    },
    // The id of the request `subscriptions/listen`, in each notification of its stream and in its result (MCP 2026-07-28,
    // subscriptions).
    IdPlace {
        is_in: |dialect| match &dialect.cancellers {
            Cancellers::Client { server_may_end } => {
                server_may_end.iter().any(|method| method == "subscriptions/listen")
            }
            _ => false,
        },
        method: None,
        path: &["_meta", "io.modelcontextprotocol/subscriptionId"],
        is_optional: false,
    },
];

impl IdPlace {
    /// Finds the place that messages of this method have, or results if there is none, in the dialect of the server.
    #[must_use]
    pub fn find(server: &Dialect, method: Option<&str>) -> Option<Self> {
        let is_of = |place: &Self| place.method.is_none() || place.method == method;
        PLACES.into_iter().find(|place| is_of(place) && (place.is_in)(server))
    }

    /// Returns params or a result with another id at this place, or `None` if no id stands there.
    ///
    /// `id_of` takes the id that stands there, and returns the one that the client gave to the request. It returns `None`
    /// if that request is over or unknown. A `null` counts as absent, and is left out.
    ///
    /// # Errors
    ///
    /// [`Refusal::UnknownParent`] if the request is over or unknown, and its id can't be left out.
    /// [`Refusal::InvalidParams`] if a member on the way is repeated: the receiver might read the other one.
    pub fn translate(
        self,
        value: &RawValue,
        id_of: impl FnOnce(&str) -> Option<String>,
    ) -> Result<Option<Box<RawValue>>, Refusal> {
        replace(value, self.path, |id| match Some(id).filter(|id| *id != "null").map(id_of) {
            Some(None) if !self.is_optional => Err(Refusal::UnknownParent),
            id => Ok(id.flatten()),
        })
    }
}
