//! Proof that `protocol-core` and `protocol-endpoint` need no std. The program has no std, no C library and no dynamic
//! loader. It makes a call, its cancel and its response between two connections, and between two endpoints.
//!
//! ```text
//! cargo run --manifest-path tests/no_std/Cargo.toml --release
//! ```
//!
//! Exits with 0, or with the number of the [`Step`] that went wrong. For x86_64 Linux.
#![no_std]
#![no_main]

extern crate alloc;

mod bare;
mod endpoints;

use alloc::vec::Vec;

// Without features the facade needs no std either.
use rescind as _;

use protocol_core::{
    CallOptions, Cause, Config, Connection, Dialect, Event, Outcome, RequestHandle, Response,
    Timestamp, TransmitKind,
};

/// The steps that have to work, in this order.
#[derive(Clone, Copy)]
enum Step {
    Call = 1,
    DeliverRequest,
    SendCancel,
    MarkCancelled,
    Answer,
    Settle,
    Close,
    Endpoints,
}

/// The data that goes with the call, and has to come back with its outcome.
const DATA: u32 = 0xC0FF_EE00;

/// Called by `bare::_start`.
fn main() -> i32 {
    let endpoints = || endpoints::cancel_there_and_back().ok_or(Step::Endpoints);
    match cancel_there_and_back().and_then(|()| endpoints()) {
        Ok(()) => 0,
        Err(step) => step as i32,
    }
}

fn cancel_there_and_back() -> Result<(), Step> {
    let now = Timestamp::ZERO;
    let mut client: Connection<u32> = Connection::new(Config::client(Dialect::ACP_V1));
    let mut server: Connection<()> = Connection::new(Config::server(Dialect::ACP_V1));

    let call =
        client.call("slow", None, DATA, CallOptions::default(), now).map_err(|_| Step::Call)?;
    let request = deliver(&mut client, &mut server, TransmitKind::Request, |event| match event {
        Event::Request { request, id, .. } if id == "1" => Some(request),
        _ => None,
    });
    let request: RequestHandle = request.ok_or(Step::DeliverRequest)?;

    client.cancel(call, Cause::Caller, now);
    let marked = deliver(&mut client, &mut server, TransmitKind::Cancel, |event| match event {
        Event::Cancelled { request, cause: Cause::Peer, .. } => Some(request),
        _ => None,
    });
    let marked = marked.ok_or(Step::SendCancel)?;
    if marked != request {
        return Err(Step::MarkCancelled);
    }

    server.respond(request, Response::Cancelled).map_err(|_| Step::Answer)?;
    let data = deliver(&mut server, &mut client, TransmitKind::Response, |event| match event {
        Event::Settled {
            call: settled,
            outcome: Outcome::Cancelled { cause: Cause::Caller, error: Some(_) },
            data,
        } if settled == call => Some(data),
        _ => None,
    });
    if data != Some(DATA) {
        return Err(Step::Settle);
    }

    client.handle_eof(now);
    match client.poll_event() {
        Some(Event::Closed { .. }) => Ok(()),
        _ => Err(Step::Close),
    }
}

/// Carries one message over, and checks its effect.
fn deliver<O, P, T>(
    from: &mut Connection<O>,
    to: &mut Connection<P>,
    kind: TransmitKind,
    mut look: impl FnMut(Event<'_, P>) -> Option<T>,
) -> Option<T> {
    let mut message = Vec::new();
    let transmit = from.poll_transmit(&mut message)?;
    if transmit.kind != kind {
        return None;
    }
    let mut event = to.receive(&message, Timestamp::ZERO);
    while let Some(told) = event {
        if let Some(found) = look(told) {
            return Some(found);
        }
        event = to.poll_event();
    }
    None
}
