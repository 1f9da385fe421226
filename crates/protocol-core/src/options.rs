//! The options of one call.

use core::time::Duration;

use crate::dialect::Grace;
use crate::handle::RequestHandle;

/// The options of one call. By default it has no timers and no parent.
///
/// Each timer settles the call at once, as [`Outcome::TimedOut`](crate::Outcome::TimedOut) unless it was
/// cancelled before. The peer still gets the dialect's cancel (G5).
///
/// ```
/// use core::time::Duration;
/// use protocol_core::{CallOptions, Config, Connection, Dialect, Timestamp};
///
/// let mut client: Connection<()> = Connection::new(Config::client(Dialect::MCP));
/// let options = CallOptions::default().timeout(Duration::from_secs(30));
/// client.call("tools/list", None, (), options, Timestamp::ZERO)?;
/// let (due, _) = client.poll_timeout().expect("the call has a timer");
/// assert_eq!(due, Timestamp::from_millis(30_000));
/// # Ok::<(), protocol_core::SendError<()>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct CallOptions {
    /// The time from the call to a timeout with cause `deadline`, or `None` for no limit.
    pub timeout: Option<Duration>,
    /// The time without progress until a timeout with cause `idle_timeout`, or `None` for no limit.
    pub idle_timeout: Option<Duration>,
    /// The time from the call to a timeout with cause `hard_cap`, or `None` for no limit.
    ///
    /// Progress renews neither this nor [`timeout`](Self#structfield.timeout); only their causes differ.
    pub hard_cap: Option<Duration>,
    /// The wait for a response after a cancel, or `None` for the dialect's
    /// [`grace`](crate::Dialect::grace) (G12).
    pub grace: Option<Grace>,
    /// The peer's request that the call is made for: a cancellation of that request cancels the call
    /// (G6).
    pub parent: Option<RequestHandle>,
}

/// Defines a method for each field that sets it.
macro_rules! setters {
    ($($field:ident: $type:ty),*) => {$(
        #[doc = concat!("Sets the field [`", stringify!($field), "`](Self#structfield.",
            stringify!($field), ").")]
        #[must_use]
        pub fn $field(mut self, $field: impl Into<Option<$type>>) -> Self {
            self.$field = $field.into();
            self
        }
    )*};
}

impl CallOptions {
    setters! {
        timeout: Duration, idle_timeout: Duration, hard_cap: Duration,
        grace: Grace, parent: RequestHandle
    }

    /// Returns whether a field is set that the row of a call has no room for.
    pub(crate) const fn needs_extras(&self) -> bool {
        !matches!(self, Self { timeout: None, idle_timeout: None, hard_cap: None, grace: None, .. })
    }
}
