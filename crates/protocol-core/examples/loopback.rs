//! A client and a server in one thread, over two byte buffers. The client calls, cancels, and prints the
//! outcome: `cargo run -p rescind-core --example loopback`.

use protocol_core::{
    Cause, Config, Dialect, Event, InputBuffer, Response, StreamConnection, Timestamp,
};
use std::error::Error;

/// One side: its connection, and the bytes that reached it. The data on each call is a name for it.
type Side = (StreamConnection<&'static str>, InputBuffer);

/// A real host passes the time of a monotonic clock.
const NOW: Timestamp = Timestamp::ZERO;

fn main() -> Result<(), Box<dyn Error>> {
    let mut client: Side =
        (StreamConnection::new(Config::client(Dialect::LSP_3_17)), InputBuffer::new());
    let mut server: Side =
        (StreamConnection::new(Config::server(Dialect::LSP_3_17)), InputBuffer::new());

    let call = client.0.connection_mut().call("slow", None, "my call", Default::default(), NOW)?;
    deliver(&mut client, &mut server)?;
    client.0.connection_mut().cancel(call, Cause::Caller, NOW);
    deliver(&mut client, &mut server)?;
    deliver(&mut server, &mut client)
}

/// Moves the messages of one side to the other, which handles them.
fn deliver((from, _): &mut Side, (to, input): &mut Side) -> Result<(), Box<dyn Error>> {
    let mut wire = Vec::new();
    while from.poll_transmit(&mut wire).is_some() {}
    input.extend_from_slice(&wire);
    loop {
        // Each call takes one message. It returns one event, and the connection keeps the others.
        let taken = to.receive(input.unread(), NOW);
        let (used, mut next) = (taken.consumed, taken.event);
        while let Some(event) = next {
            match event {
                // A real server starts the work here.
                Event::Request { method, .. } => println!("server: works on {method}"),
                // A real server stops the work here. The request still needs a response.
                Event::Cancelled { request, cause, .. } => {
                    println!("server: cancelled by {cause}");
                    to.connection_mut().respond(request, Response::Cancelled)?;
                }
                Event::Settled { outcome, data, .. } => {
                    println!("client: {data} is {}", outcome.settlement());
                }
                _ => {}
            }
            next = to.connection_mut().poll_event();
        }
        input.consume(used);
        if used == 0 {
            return Ok(());
        }
    }
}
