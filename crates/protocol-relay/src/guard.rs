//! How long what passes may take.

use alloc::string::String;
use alloc::vec::Vec;

use protocol_core::CallOptions;

/// How long the requests of one side may take, by method: what each call that is made for one asks for. By default
/// everything may take for ever.
///
/// A call that takes too long is cancelled on the far side, in that side's dialect, and its request is
/// answered at once. What the far side answers then is late (G5, G12).
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
    /// Patterns, the first that fits counts.
    methods: Vec<(String, CallOptions)>,
    others: CallOptions,
}

impl Guard {
    /// The same for every method. [`CallOptions::parent`] means nothing here.
    #[must_use]
    pub const fn new(options: CallOptions) -> Self {
        Self { methods: Vec::new(), others: options }
    }

    /// Something else for a method, or with a `*` at the end for all that begin so. What was said first
    /// counts.
    #[must_use]
    pub fn method(mut self, pattern: impl Into<String>, options: CallOptions) -> Self {
        self.methods.push((pattern.into(), options));
        self
    }

    /// What a call of this method asks for.
    #[must_use]
    pub fn options(&self, method: &str) -> CallOptions {
        let fits = |pattern: &str| match pattern.strip_suffix('*') {
            Some(begin) => method.starts_with(begin),
            None => method == pattern,
        };
        let found = self.methods.iter().find(|(pattern, _)| fits(pattern));
        found.map_or(self.others, |&(_, options)| options).parent(None)
    }
}
