//! The same over endpoints, which a host drives with effects.

use protocol_core::{CallOptions, Cause, Config, Dialect, Response, Timestamp};
use protocol_endpoint::{Arrived, CallError, Effect, Effects, Endpoint, Messages, Options, Output};

/// The waiters of this host, and its marks of cancelled requests.
const WAITER: u8 = 1;
const MARK: u8 = 2;

const NOW: Timestamp = Timestamp::ZERO;

type Side = Endpoint<u8, u8>;

/// Cancels a call, and returns whether everything came back as it should.
pub(crate) fn cancel_there_and_back() -> Option<()> {
    let mut client = Side::new(Options::new(Config::client(Dialect::ACP_V1)));
    let mut server = Side::new(Options::new(Config::server(Dialect::ACP_V1)));
    let mut effects = Effects::new();

    let call = client.call("slow", None, CallOptions::default(), NOW, &mut effects).ok()?;
    client.poll_outcome(call, &mut Some(WAITER));
    deliver(&mut client, &mut server, &mut effects)?;
    let Some(Arrived::Request(request, _)) = server.take(&mut effects) else { return None };
    server.watch(request, MARK).ok()?;

    client.cancel(call.id, Cause::Caller, None, NOW, &mut effects);
    deliver(&mut client, &mut server, &mut effects)?;
    let Some(Effect::Cancel(MARK, Cause::Peer)) = effects.pop() else { return None };

    server.respond(request, Response::Cancelled, &mut effects);
    deliver(&mut server, &mut client, &mut effects)?;
    let Some(Effect::Wake(WAITER)) = effects.pop() else { return None };
    let outcome = client.poll_outcome(call, &mut None)?.err()?;
    matches!(*outcome, CallError::Cancelled { cause: Cause::Caller, error: Some(_) }).then_some(())
}

/// Carries everything over that one side has written.
fn deliver(from: &mut Side, to: &mut Side, effects: &mut Effects<u8, u8>) -> Option<()> {
    let mut out = Messages::default();
    if from.poll_output(&mut out, effects) != Output::Write {
        return None;
    }
    let used = to.receive(out.bytes(), NOW, effects);
    (used == out.bytes().len()).then_some(())
}
