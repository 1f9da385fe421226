//! What can be added to a router. It is the same for both forms, but for what must be `Send`.

use std::future::Future;
use std::sync::Arc;

use async_lock::Semaphore;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use super::context::Context;
use super::form::{Form, Local, Threads};
use super::layers::{Next, Served};
use super::{Done, RouterOf};
use crate::answer::CallError;
use crate::contain::contain;
use crate::failure::{Answer, Failure};
use crate::incoming::Arrival;
use crate::json::written;
use crate::method::{Method, MethodName};
use crate::sent::SentRequest;

macro_rules! handlers {
    ($form:ty $(, $send:ident, $sync:ident)?) => {
        impl<S: 'static $(+ $send + $sync)?> RouterOf<S, $form> {
            /// Serves requests of a method, in place of a handler that was added before. Params that
            /// don't fit `P` are answered -32602.
            #[must_use]
            pub fn request<P, T, W>(
                mut self,
                method: impl Into<MethodName>,
                handler: impl FnOnce(P, Context<S, $form>) -> W + Clone $(+ $send + $sync)? + 'static,
            ) -> Self
            where
                P: DeserializeOwned,
                T: Serialize,
                W: Future<Output = Result<T, Failure>> $(+ $send)? + 'static,
            {
                let handler = move |cx: Context<S, $form>| -> <$form as Form>::Work<Answer> {
                    let handler = handler.clone();
                    Box::pin(async move {
                        let params = cx.read()?;
                        let result = handler(params, cx).await?;
                        Ok(written(&result, RawValue::to_owned)?)
                    })
                };
                self.routes_mut().requests.insert(method.into(), Arc::new(handler));
                self
            }

            /// As [`request`](Self::request), with the name and the types of a [`Method`].
            #[must_use]
            pub fn on_request<M, W>(
                self,
                handler: impl FnOnce(M::Params, Context<S, $form>) -> W
                    + Clone $(+ $send + $sync)? + 'static,
            ) -> Self
            where
                M: Method<Params: DeserializeOwned, Result: Serialize>,
                W: Future<Output = Result<M::Result, Failure>> $(+ $send)? + 'static,
            {
                self.request(M::NAME, handler)
            }

            /// Serves notifications of a method, in place of a handler that was added before. Its
            /// failures are [`Trouble`](super::Trouble), for nobody is answered.
            #[must_use]
            pub fn notification<P, W>(
                mut self,
                method: impl Into<MethodName>,
                handler: impl FnOnce(P, Context<S, $form>) -> W + Clone $(+ $send + $sync)? + 'static,
            ) -> Self
            where
                P: DeserializeOwned,
                W: Future<Output = Result<(), Failure>> $(+ $send)? + 'static,
            {
                let handler = move |cx: Context<S, $form>| -> <$form as Form>::Work<Done> {
                    let handler = handler.clone();
                    Box::pin(async move {
                        let params = cx.read()?;
                        handler(params, cx).await
                    })
                };
                self.routes_mut().notifications.insert(method.into(), Arc::new(handler));
                self
            }

            /// As [`notification`](Self::notification), with the name and the params of a [`Method`].
            #[must_use]
            pub fn on_notification<M, W>(
                self,
                handler: impl FnOnce(M::Params, Context<S, $form>) -> W
                    + Clone $(+ $send + $sync)? + 'static,
            ) -> Self
            where
                M: Method<Params: DeserializeOwned, Result = ()>,
                W: Future<Output = Result<(), Failure>> $(+ $send)? + 'static,
            {
                self.notification(M::NAME, handler)
            }

            /// Takes every arrival that has no handler, in place of telling [`Trouble`](super::Trouble)
            /// and of the answer -32601: for proxies ([`Peer::send_proxied`](crate::Peer::send_proxied)).
            /// Params are with the arrival, not with the context. Layers don't see these requests.
            #[must_use]
            pub fn otherwise<W>(
                mut self,
                handler: impl FnOnce(Arrival, Context<S, $form>) -> W
                    + Clone $(+ $send + $sync)? + 'static,
            ) -> Self
            where
                W: Future<Output = Result<(), Failure>> $(+ $send)? + 'static,
            {
                let handler = move |(arrival, cx): (Arrival, Context<S, $form>)|
                    -> <$form as Form>::Work<Done> { Box::pin(handler.clone()(arrival, cx)) };
                self.routes_mut().otherwise = Some(Arc::new(handler));
                self
            }

            /// Adds a layer, inside those that were added before: it sees each request, goes on with
            /// [`Next::run`], and sees the answer, which it may replace. The request of an unknown
            /// method is seen too.
            #[must_use]
            pub fn around<W>(
                mut self,
                layer: impl FnOnce(Context<S, $form>, Next<S, $form>) -> W
                    + Clone $(+ $send + $sync)? + 'static,
            ) -> Self
            where
                W: Future<Output = Answer> $(+ $send)? + 'static,
            {
                let layer = move |(cx, next): (Context<S, $form>, Next<S, $form>)|
                    -> <$form as Form>::Work<Answer> { Box::pin(layer.clone()(cx, next)) };
                self.routes_mut().layers.push(Arc::new(layer));
                self
            }

            /// A layer that looks at each request before it is served, and may refuse it.
            #[must_use]
            pub fn before(
                self,
                check: impl Fn(&Context<S, $form>) -> Result<(), Failure> $(+ $send + $sync)? + 'static,
            ) -> Self {
                let check = Arc::new(check);
                self.around(async move |cx: Context<S, $form>, next: Next<S, $form>| {
                    check(&cx)?;
                    next.run(cx).await
                })
            }

            /// A layer that is told of each request that was served, with its method, its params, its
            /// answer and its duration: for logs and timings.
            #[must_use]
            pub fn after(
                self,
                told: impl Fn(&Served<'_, S, $form>) $(+ $send + $sync)? + 'static,
            ) -> Self {
                let told = Arc::new(told);
                self.around(async move |cx: Context<S, $form>, next: Next<S, $form>| {
                    let begun = cx.peer().now();
                    let answer = next.run(cx.clone()).await;
                    let took = cx.peer().now().since(begun);
                    // Whoever logs an answer can't spoil it.
                    contain(|| told(&Served { cx: &cx, answer: &answer, took }));
                    answer
                })
            }

            /// A layer through which so many requests go at the same time. The others wait for their
            /// turn, in order; one that is cancelled while it waits is answered so at once.
            #[must_use]
            pub fn limit(self, requests: usize) -> Self {
                let turns = Arc::new(Semaphore::new(requests));
                self.around(async move |cx: Context<S, $form>, next: Next<S, $form>| {
                    let _turn = cx.cancellation().unless_cancelled(turns.acquire()).await?;
                    next.run(cx).await
                })
            }
        }

        impl<S: 'static $(+ $send + $sync)?> Context<S, $form> {
            /// Does some work beside the handlers, which may outlive this one: in the future of
            /// [`serve`](RouterOf::serve), which ends when it is done. It is nobody's turn, so it may
            /// wait for anything. Once nothing is served any more, it is dropped.
            ///
            /// Calls that outlive the request are made with [`peer`](Self::peer): on behalf of a
            /// request that is answered none can be made.
            pub fn spawn(
                &self,
                work: impl Future<Output = Result<(), Failure>> $(+ $send)? + 'static,
            ) {
                self.spawn_boxed(Box::pin(work));
            }

            /// Hands the outcome of a call to `then`, [beside](Self::spawn) the handlers.
            pub fn on_result<T, W>(
                &self,
                sent: SentRequest<T>,
                then: impl FnOnce(Result<T, CallError>) -> W $(+ $send)? + 'static,
            ) where
                T: DeserializeOwned $(+ $send)? + 'static,
                W: Future<Output = Result<(), Failure>> $(+ $send)? + 'static,
            {
                self.spawn(async move { then(sent.await).await });
            }
        }
    };
}

handlers!(Threads, Send, Sync);
handlers!(Local);
