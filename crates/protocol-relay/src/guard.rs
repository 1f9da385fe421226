//! Limits on how long a request may take.

use alloc::string::String;
use alloc::vec::Vec;

use protocol_core::CallOptions;

/// The options, by method, of the calls that a relay makes for one side's requests. By default every
/// request may take for ever.
///
/// A call that takes too long is cancelled on the other side, in that side's dialect, and the relay
/// responds to its request at once. A later response of the other side is late (G5, G12).
///
/// ```
/// use core::time::Duration;
/// use protocol_core::CallOptions;
/// use protocol_relay::Guard;
///
/// let minute = CallOptions::default().timeout(Duration::from_secs(60));
/// let guard = Guard::new(minute).method("tools/*", minute.idle_timeout(Duration::from_secs(5)));
/// assert_eq!(guard.options("tools/call").idle_timeout, Some(Duration::from_secs(5)));
/// assert_eq!(guard.options("initialize"), minute);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Guard {
    /// Patterns, of which the first that matches counts.
    methods: Vec<(String, CallOptions)>,
    others: CallOptions,
}

impl Guard {
    /// Creates a guard with the same options for every method. [`CallOptions::parent`] is ignored.
    #[must_use]
    pub const fn new(options: CallOptions) -> Self {
        Self { methods: Vec::new(), others: options }
    }

    /// Sets other options for one method, or for all that begin alike if the pattern ends in `*`. The
    /// first pattern that matches counts.
    #[must_use]
    pub fn method(mut self, pattern: impl Into<String>, options: CallOptions) -> Self {
        self.methods.push((pattern.into(), options));
        self
    }

    /// Returns the options of a call of this method.
    pub fn options(&self, method: &str) -> CallOptions {
        let matches = |pattern: &str| match pattern.strip_suffix('*') {
            Some(prefix) => method.starts_with(prefix),
            None => method == pattern,
        };
        let found = self.methods.iter().find(|(pattern, _)| matches(pattern));
        found.map_or(self.others, |&(_, options)| options).parent(None)
    }
}
