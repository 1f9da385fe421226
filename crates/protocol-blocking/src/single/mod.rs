//! One synchronous thread, whose handlers can be cancelled while they run.
//!
//! ```
//! use protocol_blocking::single::{FdTransport, Host};
//! use protocol_blocking::{Request, Responder};
//! use protocol_core::{Config, Dialect};
//!
//! /// Works in steps, and can be cancelled between them.
//! fn serve(request: &Request, responder: &mut dyn Responder) -> protocol_blocking::Answer {
//!     let steps: u64 = request.params()?;
//!     for step in 0..steps {
//!         responder.checkpoint()?;
//!         // one step of the work
//!         let _ = step;
//!     }
//!     Ok(serde_json::value::to_raw_value("done")?)
//! }
//!
//! let (input, output) = (std::io::stdin(), std::io::stdout());
//! let mut host = Host::new(FdTransport::new(input, output), Config::server(Dialect::ACP_V1));
//! # if false {
//! host.run(&serve)?;
//! # }
//! # Ok::<(), std::io::Error>(())
//! ```

mod call;
mod host;
mod memory;
mod serve;
mod transport;

pub use call::OwnCall;
pub use host::Host;
pub use memory::memory;
#[cfg(unix)]
pub use transport::FdTransport;
pub use transport::{PlainTransport, Readiness, Ready, Transport};
