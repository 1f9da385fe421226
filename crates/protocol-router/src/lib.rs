//! Handlers by method, on top of [`protocol_async::Incoming`].
//!
//! With the crate `rescind` this is `rescind::router`.
//!
//! A handler takes the params, as the type that it names, and a [`Context`]. The context has the
//! state of the server, the marker of the request, and the way back to the peer. The handler returns
//! the response, and `?` works on everything that can fail.
//!
//! Params are an object, an array or nothing, as JSON-RPC has it. So a handler takes a struct, a tuple
//! or an `Option` of one. A bare text that is sent is refused
//! ([`Refusal::InvalidParams`](protocol_core::Refusal::InvalidParams)), and a tuple such as `(text,)`
//! is an array.
//!
//! ```
//! use protocol_async::Failure;
//! use protocol_core::{CallOptions, Config, Dialect};
//! use protocol_router::{Context, Router};
//! use serde::Deserialize;
//! use serde_json::json;
//! use std::{collections::HashMap, sync::Mutex, time::Duration};
//!
//! #[derive(Default)]
//! struct Server {
//!     texts: Mutex<HashMap<String, String>>,
//! }
//!
//! #[derive(Deserialize)]
//! struct Opened {
//!     uri: String,
//!     text: String,
//! }
//!
//! async fn count((uri,): (String,), cx: Context<Server>) -> Result<usize, Failure> {
//!     cx.notify("log", ("counting",)).await?;
//!     let text = cx.state().texts.lock().unwrap().get(&uri).cloned();
//!     Ok(text.map_or(0, |text| text.split_whitespace().count()))
//! }
//!
//! let router = Router::with_state(Server::default())
//!     .after(|served| eprintln!("{served}"))
//!     .notification("opened", async |opened: Opened, cx| {
//!         cx.state().texts.lock().unwrap().insert(opened.uri, opened.text);
//!         Ok(())
//!     })
//!     .request("count", count)
//!     .request("ask", async |(question,): (String,), cx| {
//!         let options = CallOptions::default().timeout(Duration::from_secs(60));
//!         Ok(cx.call_with::<bool>("user/confirm", (question,), options).await?)
//!     });
//!
//! // A peer that opens a text, has it counted, and asks to be asked.
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn talk(router: Router<Server>) -> Result<(), Box<dyn std::error::Error>> {
//! # let (near, far) = tokio::io::duplex(4096);
//! # let ((reader, writer), (input, output)) = (tokio::io::split(near), tokio::io::split(far));
//! # let server = protocol_tokio::spawn(input, output, Config::server(Dialect::JSON_RPC));
//! # let client = protocol_tokio::spawn(reader, writer, Config::client(Dialect::JSON_RPC));
//! # tokio::spawn(async move { router.serve(&server.incoming).await });
//! # let (told, log) = tokio::sync::oneshot::channel();
//! # let told = std::sync::Arc::new(Mutex::new(Some(told)));
//! # let user = Router::new()
//! #     .notification("log", async move |(line,): (String,), _| {
//! #         let told = told.lock().unwrap().take();
//! #         told.expect("it is told once").send(line).map_err(|_| Failure::Cancelled)
//! #     })
//! #     .request("user/confirm", async |(question,): (String,), _| Ok(question == "Go on?"));
//! # let incoming = client.incoming;
//! # tokio::spawn(async move { user.serve(&incoming).await });
//! # let peer = client.peer;
//! let text = json!({ "uri": "file:///a", "text": "three short words" });
//! peer.notify("opened", text).await?;
//! assert_eq!(peer.call::<usize>("count", ("file:///a",)).await?, 3);
//! assert!(peer.call::<bool>("ask", ("Go on?",)).await?);
//! # assert_eq!(log.await?, "counting");
//! # Ok(())
//! # }
//! # talk(router).unwrap();
//! ```
//!
//! # Order
//!
//! - **Handlers begin in the order of the wire.** This holds for requests and for notifications. A
//!   handler that never has to wait is done before the next one begins.
//! - **A handler that waits runs beside the others.** From its first `Pending` on, nothing is ordered
//!   between it and those that came later. It makes no difference what it waits for.
//! - **Whatever has to be in order is done before the first wait.** A plain `Mutex` or a channel is
//!   good for that.
//! - **[`notify`](Context::notify) keeps the order where there is room.** It sends when it is first
//!   polled. So notifications that handlers pass on leave in the order of the wire.
//! - **At most 64 notifications wait.** One more stops the router from taking arrivals until one of
//!   them is done, or the peer hangs up. Later messages stay in the inbox, which is bounded, so a peer
//!   that floods us is bounded too. Work that takes long belongs into [`spawn`](Context::spawn), which
//!   does not count.
//!
//! # Turns
//!
//! All handlers run inside the future of [`serve`](RouterOf::serve). It lets other tasks run after 32
//! arrivals, or after 1 ms by the connection's clock. So the driver reads cancels while many requests
//! wait, on a runtime of one thread too.
//!
//! A handler that blocks its thread can't be interrupted. A runtime that looks for input only after
//! many turns of its tasks should implement
//! [`Timer::yield_now`](protocol_async::Timer::yield_now), as `rescind-tokio` does.
//!
//! # Undo
//!
//! A handler registers the steps that undo its work, such as a file or a lease that would outlive it:
//!
//! ```
//! use protocol_async::Failure;
//! use protocol_router::{Context, Router};
//!
//! async fn deploy((name,): (String,), cx: Context) -> Result<(), Failure> {
//!     let folder = name.clone();
//!     // Before the step, which may stop halfway.
//!     cx.undo_with(async move { Ok(std::fs::remove_dir_all(folder)?) })?;
//!     std::fs::create_dir(&name)?;
//!     // A cancel, a hang-up or an error of the peer removes the folder.
//!     Ok(cx.call("upload", (name,)).await?)
//! }
//!
//! let router: Router = Router::new().request("deploy", deploy);
//! ```
//!
//! - **Steps run if the work fails**, panics, or returns `Err` because it was cancelled. An `Ok` keeps what
//!   was done. The outermost layer decides, so the steps of an attempt that a layer repeats stay registered.
//! - **The response follows the last step**, or the first one that runs out of time. So a peer may begin the
//!   work anew once it has the response, and waits for no step that hangs.
//! - **Each outcome is reported** as [`Trouble::Undone`].
//! - **The driver keeps the time.** A step that begins after the driver has ended has no limit while it
//!   waits. Nor does one that blocks its thread.
//! - **Nothing runs** if the process dies, or the future of [`serve`](RouterOf::serve) is dropped. The latter is
//!   reported. What must never stay belongs into a journal that the next start reads.
//!
//! # More
//!
//! - **Captured values** are cloned for each request. `async move` closures capture an `Arc`, a
//!   [`Peer`](protocol_async::Peer), a sender. A value that is not `Clone` belongs into the
//!   [state](Router::with_state).
//! - **[`Router`] or [`LocalRouter`].** The handlers of a `Router` are `Send`, and so is the future
//!   that serves them. Those of a `LocalRouter` need not be. Nothing else differs.
//! - **A panic harms nothing else** (B33). The request is answered -32603.
//! - **Layers** are around all requests: [`layer`](RouterOf::layer), and on top of it
//!   [`before`](RouterOf::before), [`after`](RouterOf::after) and [`limit`](RouterOf::limit). The one
//!   added first is outermost.
//! - **Nothing vanishes.** A message that is not served, does not fit, was missed or violated a rule is
//!   reported as [`Trouble`]. So is the reason of a handler's failure. The reports go to standard
//!   error, or to [`on_trouble`](RouterOf::on_trouble).
#![forbid(unsafe_code)]

mod context;
mod form;
mod handlers;
mod router;
mod routes;
mod serving;
mod trouble;
mod turns;
mod undo;

pub use context::{Context, LocalContext};
pub use form::{Form, Local, Threads};
pub use protocol_async::Method;
pub use router::{LocalRouter, Router, RouterOf};
pub use routes::{Claim, Next, Served};
pub use trouble::Trouble;
