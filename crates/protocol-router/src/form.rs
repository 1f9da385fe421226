//! The two forms of a router: handlers that are `Send`, and handlers that need not be.
//!
//! No type of this crate asks its parameters to be `'static`. The compiler forgets inside of futures
//! which lifetime the `'static` of a `HashMap<&'static str, _>` was. So it could not show that such a
//! parameter is `'static`, nor that a future which holds a router with that state is `Send` (F94).

use std::fmt;
use std::future::{Future, ready};
use std::ops::Deref;
use std::pin::Pin;
use std::sync::Arc;

/// The two forms of a router: [`Threads`] and [`Local`].
pub trait Form: sealed::Sealed + fmt::Debug + Sized + 'static {
    /// A future in a box.
    type Work<T>: Future<Output = T> + Unpin;

    /// A shared function that makes such futures.
    type Handler<A, T>: Deref<Target: Fn(A) -> Self::Work<T>> + Clone;

    /// Returns work that is done.
    #[doc(hidden)]
    fn done<T: Send + 'static>(result: T) -> Self::Work<T>;
}

/// The form of a [`Router`](crate::Router): its handlers are `Send`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Threads {}

/// The form of a [`LocalRouter`](crate::LocalRouter): its handlers need not be `Send`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Local {}

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::Threads {}
    impl Sealed for super::Local {}
}

impl Form for Threads {
    type Work<T> = Pin<Box<dyn Future<Output = T> + Send>>;
    type Handler<A, T> = Arc<dyn Fn(A) -> Self::Work<T> + Send + Sync>;

    fn done<T: Send + 'static>(result: T) -> Self::Work<T> {
        Box::pin(ready(result))
    }
}

impl Form for Local {
    type Work<T> = Pin<Box<dyn Future<Output = T>>>;
    type Handler<A, T> = Arc<dyn Fn(A) -> Self::Work<T>>;

    fn done<T: Send + 'static>(result: T) -> Self::Work<T> {
        Box::pin(ready(result))
    }
}
