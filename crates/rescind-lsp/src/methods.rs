//! Methods of `lsp_types`.

use std::marker::PhantomData;

use protocol_async::Method;

/// A request of `lsp_types` as a [`Method`].
#[derive(Debug)]
pub struct Request<R>(PhantomData<R>);

impl<R: lsp_types::request::Request> Method for Request<R> {
    const NAME: &'static str = R::METHOD;
    type Params = R::Params;
    type Result = R::Result;
}

/// A notification of `lsp_types` as a [`Method`].
#[derive(Debug)]
pub struct Notification<N>(PhantomData<N>);

impl<N: lsp_types::notification::Notification> Method for Notification<N> {
    const NAME: &'static str = N::METHOD;
    type Params = N::Params;
    type Result = ();
}
