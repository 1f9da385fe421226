//! The two forms of a router: handlers that are `Send`, and handlers that need not be.

use std::fmt;
use std::future::{Future, ready};
use std::pin::Pin;
use std::sync::Arc;

/// Whether what a router runs is `Send`: [`Threads`] or [`Local`], and nothing else.
pub trait Form: sealed::Sealed + fmt::Debug + Sized + 'static {
    /// Work at hand.
    type Work<T: 'static>: Future<Output = T> + Unpin + 'static;

    /// What does the work.
    type Handler<A: 'static, T: 'static>: Clone;

    /// Begins the work.
    #[doc(hidden)]
    fn call<A: 'static, T: 'static>(handler: &Self::Handler<A, T>, asked: A) -> Self::Work<T>;

    /// Work that is done.
    #[doc(hidden)]
    fn done<T: Send + 'static>(result: T) -> Self::Work<T>;
}

/// Handlers are `Send`, and so is what serves them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Threads {}

/// Handlers need not be `Send`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Local {}

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::Threads {}
    impl Sealed for super::Local {}
}

impl Form for Threads {
    type Work<T: 'static> = Pin<Box<dyn Future<Output = T> + Send>>;
    type Handler<A: 'static, T: 'static> = Arc<dyn Fn(A) -> Self::Work<T> + Send + Sync>;

    fn call<A: 'static, T: 'static>(handler: &Self::Handler<A, T>, asked: A) -> Self::Work<T> {
        handler(asked)
    }

    fn done<T: Send + 'static>(result: T) -> Self::Work<T> {
        Box::pin(ready(result))
    }
}

impl Form for Local {
    type Work<T: 'static> = Pin<Box<dyn Future<Output = T>>>;
    type Handler<A: 'static, T: 'static> = Arc<dyn Fn(A) -> Self::Work<T>>;

    fn call<A: 'static, T: 'static>(handler: &Self::Handler<A, T>, asked: A) -> Self::Work<T> {
        handler(asked)
    }

    fn done<T: Send + 'static>(result: T) -> Self::Work<T> {
        Box::pin(ready(result))
    }
}
