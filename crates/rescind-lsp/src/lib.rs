//! The methods of the Language Server Protocol with the types of [`lsp_types`].
//!
//! With the crate `rescind` this is `rescind::lsp`.
//!
//! [`Request`] and [`Notification`] make a [`Method`] of each type that implements the trait of that name
//! in `lsp_types`. [`serve`] has the beginning and the end of a server: `initialize`, `shutdown` and `exit`.
//!
//! ```
//! use protocol_router::Router;
//! use rescind_lsp::lsp_types::{CompletionItem, CompletionResponse, request::Completion};
//!
//! let router = Router::new().on_request::<rescind_lsp::Request<Completion>, _>(async |_, _| {
//!     let items = vec![CompletionItem::new_simple("rescind".into(), "a crate".into())];
//!     Ok(Some(CompletionResponse::Array(items)))
//! });
//! ```
//!
//! `$/cancelRequest` needs no handler: a connection of the dialect `Dialect::LSP_3_17` cancels the
//! request that it names.
#![forbid(unsafe_code)]

mod methods;
mod serve;

pub use lsp_types;
pub use methods::{Notification, Request};
pub use protocol_async::Method;
pub use serve::serve;
