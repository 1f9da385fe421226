//! The methods of a router that take handlers. Both forms have them, and differ in what must be
//! `Send`.
//!
//! Each handler is called and cloned inside of its future, so that a panic of either is caught there.

use std::future::Future;
use std::sync::Arc;

use protocol_async::hooks::{catch_panic, written};
use protocol_async::{Answer, Arrival, Failure, Method, MethodName};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use crate::context::{Contained, Context, Done, Kind};
use crate::form::{Form, Local, Threads};
use crate::router::RouterOf;
use crate::routes::{Next, Served};
use crate::turns::Turns;

macro_rules! handlers {
    ($form:ty $(, $send:ident, $sync:ident)?) => {
        impl<S: 'static $(+ $send + $sync)?> RouterOf<S, $form> {
            /// Serves requests of a method, in place of a handler that was added before. Params that
            /// don't fit `P` are answered -32602.
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
                let handler = Arc::new(handler);
                let handler = move |cx: Context<S, $form>| -> <$form as Form>::Work<Answer> {
                    let handler = handler.clone();
                    Box::pin(async move {
                        let params = cx.asked.request.params()?;
                        let result = (*handler).clone()(params, cx).await?;
                        Ok(written(&result, RawValue::to_owned)?)
                    })
                };
                self.routes_mut().requests.insert(method.into(), Arc::new(handler));
                self
            }

            /// Serves requests as [`request`](Self::request) does, with the name and the types of a
            /// [`Method`].
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

            /// Serves notifications of a method, in place of a handler that was added before.
            ///
            /// Its failures are [`Trouble`](crate::Trouble), for there is no response. Its work until it
            /// first waits is done before anything that the peer sent later begins: see
            /// [Order](crate#order).
            pub fn notification<P, W>(
                mut self,
                method: impl Into<MethodName>,
                handler: impl FnOnce(P, Context<S, $form>) -> W + Clone $(+ $send + $sync)? + 'static,
            ) -> Self
            where
                P: DeserializeOwned,
                W: Future<Output = Result<(), Failure>> $(+ $send)? + 'static,
            {
                let handler = Arc::new(handler);
                let handler = move |cx: Context<S, $form>| -> <$form as Form>::Work<Done> {
                    let handler = handler.clone();
                    Box::pin(async move {
                        let params = cx.asked.request.params()?;
                        (*handler).clone()(params, cx).await
                    })
                };
                self.routes_mut().notifications.insert(method.into(), Arc::new(handler));
                self
            }

            /// Serves notifications as [`notification`](Self::notification) does, with the name and the
            /// params of a [`Method`].
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

            /// Takes every arrival that has no handler, in place of reporting [`Trouble`](crate::Trouble)
            /// and of the response -32601.
            ///
            /// It is for proxies ([`Peer::send_proxied`](protocol_async::Peer::send_proxied)). Params are
            /// with the arrival, not with the context. Layers don't see these requests.
            ///
            /// The handler responds with the responder of the arrival. If it fails and the responder is
            /// dropped by then, the failure is the response. So `?` works before the responder is used.
            /// A responder that it drops without a failure responds when the handler is done.
            pub fn fallback<W: Future<Output = Result<(), Failure>> $(+ $send)? + 'static>(
                mut self,
                handler: impl FnOnce(Arrival, Context<S, $form>) -> W
                    + Clone $(+ $send + $sync)? + 'static,
            ) -> Self {
                let handler = Arc::new(handler);
                let handler = move |(arrival, cx)| -> <$form as Form>::Work<Done> {
                    let handler = handler.clone();
                    Box::pin(async move { (*handler).clone()(arrival, cx).await })
                };
                self.routes_mut().fallback = Some(Arc::new(handler));
                self
            }

            /// Adds a layer, inside those that were added before.
            ///
            /// It sees each request, goes on with [`Next::run`], and sees the response, which it may
            /// replace. It also sees requests of unknown methods.
            pub fn layer<W: Future<Output = Answer> $(+ $send)? + 'static>(
                mut self,
                layer: impl FnOnce(Context<S, $form>, Next<S, $form>) -> W
                    + Clone $(+ $send + $sync)? + 'static,
            ) -> Self {
                let layer = Arc::new(layer);
                let layer = move |(cx, next)| -> <$form as Form>::Work<Answer> {
                    let layer = layer.clone();
                    Box::pin(async move { (*layer).clone()(cx, next).await })
                };
                self.routes_mut().layers.push(Arc::new(layer));
                self
            }

            /// Adds a layer that looks at each request before it is served, and may refuse it.
            pub fn before(
                self,
                check: impl Fn(&Context<S, $form>) -> Result<(), Failure> $(+ $send + $sync)? + 'static,
            ) -> Self {
                let check = Arc::new(check);
                self.layer(async move |cx: Context<S, $form>, next: Next<S, $form>| {
                    check(&cx)?;
                    next.run(cx).await
                })
            }

            /// Adds a layer that sees each request that was served, for logs and timings. It has the
            /// method, the params, the response and the duration.
            pub fn after(
                self,
                told: impl Fn(&Served<'_, S, $form>) $(+ $send + $sync)? + 'static,
            ) -> Self {
                let told = Arc::new(told);
                self.layer(async move |cx: Context<S, $form>, next: Next<S, $form>| {
                    let begun = cx.peer().now();
                    let answer = next.run(cx.clone()).await;
                    let took = cx.peer().now().since(begun);
                    // A log that panics does not spoil the response.
                    catch_panic(|| told(&Served { cx: &cx, answer: &answer, took }));
                    answer
                })
            }

            /// Adds a layer that lets this number of requests through at the same time.
            ///
            /// The others wait for their turn, in order. One that is cancelled while it waits is answered
            /// as cancelled at once. The turn of a request ends before the steps that
            /// [undo](Context::undo_with) it; [`at_most`](Self::at_most) counts those too.
            pub fn limit(self, requests: usize) -> Self {
                let turns = Arc::new(Turns::new(requests));
                self.layer(async move |cx: Context<S, $form>, next: Next<S, $form>| {
                    let _turn = cx.cancellation().unless_cancelled(turns.take()).await?;
                    next.run(cx).await
                })
            }
        }

        impl<S: 'static $(+ $send + $sync)?> Context<S, $form> {
            /// Runs some work beside the handlers, which may outlive this one.
            ///
            /// It runs in the future of [`serve`](RouterOf::serve), which ends when the work is done. If that
            /// future is dropped, so is the work. Work that may wait for ever should end with its marker,
            /// [`cancellation`](Self::cancellation), which is set when the connection ends.
            ///
            /// Calls that outlive the request are made with [`peer`](Self::peer): on behalf of a
            /// request that is answered none can be made.
            pub fn spawn(&self, work: impl Future<Output = Done> $(+ $send)? + 'static) {
                self.asked.shared.spawn(Kind::Beside, Contained { work: Box::pin(work), cx: self.clone() });
            }
        }
    };
}

handlers!(Threads, Send, Sync);
handlers!(Local);
