//! One server behind a listener, and the clients whose requests it has.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use protocol_async::{
    Arrival, CallError, Failure, Incoming, Notification, Peer, Request, Responder, RpcError,
    SentRequest,
};
use protocol_core::{Dialect, Refusal, SendError, Shutdown, WireId, code};
use protocol_json::path;
use protocol_relay::{Guard, IdPlace};
use serde_json::value::{RawValue, to_raw_value};
use tokio::sync::mpsc::error::SendError as Unsent;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::report::log;
use crate::lock::lock;

/// The place of the token by which a request asks for progress.
const TOKEN: [&str; 2] = ["_meta", "progressToken"];
/// The place of the same token in a notification.
const TOLD_TOKEN: [&str; 1] = ["progressToken"];
/// The place of the level by which a request asks for log messages.
const LEVEL: [&str; 2] = ["_meta", "io.modelcontextprotocol/logLevel"];

/// A connection to a server. Dropping it cancels what is in flight, and then the server's input closes.
pub(super) struct Upstream {
    pub(super) peer: Peer,
    incoming: Incoming,
    dialect: Dialect,
    guard: Guard,
    /// The client of the session. Without one, each request has its own.
    only: Option<Peer>,
    /// The requests in flight, by number.
    open: Mutex<BTreeMap<u64, Client>>,
    next: AtomicU64,
    calls: UnboundedSender<Call>,
    /// The calls in flight: those that are new, and those that are awaited.
    in_flight: tokio::sync::Mutex<(UnboundedReceiver<Call>, FuturesUnordered<Call>)>,
}

/// The client of one request in flight.
pub(super) struct Client {
    peer: Peer,
    /// The id of its request.
    id: Option<WireId>,
    /// The number of the call that was made for it, which is its id on the wire.
    call: Option<u64>,
    /// The token by which it knows progress.
    token: Option<Box<RawValue>>,
    /// Whether it asked for log messages.
    has_level: bool,
}

/// The number and the responder of a request, and the outcome of the call that was made for it.
type Settled = (u64, Responder, Result<Box<RawValue>, CallError>);

/// A call until it has settled. The connection keeps its outcome until then, within its limits and its account.
type Call = BoxFuture<'static, Settled>;

impl Upstream {
    pub(super) fn new(peer: Peer, incoming: Incoming, guard: Guard, only: Option<Peer>) -> Self {
        let (calls, new) = unbounded_channel();
        let (open, next) = Default::default();
        let (dialect, in_flight) = (peer.dialect(), (new, FuturesUnordered::new()).into());
        Self { peer, incoming, dialect, guard, only, open, next, calls, in_flight }
    }

    /// Passes on the server's messages. Once the server has ended, responds to the requests that were still open.
    ///
    /// A response waits for what came before it, such as progress.
    pub(super) async fn pump(&self) {
        let (new, open) = &mut *self.in_flight.lock().await;
        loop {
            tokio::select! {
                biased;
                arrival = self.incoming.receive(), if !new.is_closed() => match arrival {
                    Ok(arrival) => self.pass(arrival).await,
                    Err(_) => new.close(),
                },
                Some(call) = new.recv() => open.push(call),
                Some(settled) = open.next() => self.respond(settled),
                else => return,
            }
        }
    }

    /// Passes on what a client says, until its session or request is over.
    pub(super) async fn forward(&self, client: &Peer, incoming: &Incoming) {
        while let Ok(arrival) = incoming.receive().await {
            match arrival {
                Arrival::Request(request, responder) => {
                    self.call(client, &request, responder).await;
                }
                other => send(&self.peer, other, true).await,
            }
        }
    }

    async fn call(&self, client: &Peer, request: &Request, responder: Responder) {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let (mut params, mut token, mut has_level) = (None, None, false);
        if let (None, Some(told)) = (&self.only, request.params.as_deref()) {
            // Two clients may have chosen the same token.
            token = path(told, &TOKEN).map(ToOwned::to_owned);
            has_level = path(told, &LEVEL).is_some();
            params = to_raw_value(&number).ok().and_then(|number| replace(told, &TOKEN, &number));
        }
        let params = params.as_deref().or(request.params.as_deref());
        let (peer, id) = (client.clone(), responder.id());
        let options = self.guard.options(&request.method);
        let sent: SentRequest = {
            // The server may name the request as soon as it is sent.
            let mut open = lock(&self.open);
            let sent = self.peer.call_raw(&request.method, params, options);
            let call = sent.id().map(|call| call.number().into());
            open.insert(number, Client { peer, id, call, token, has_level });
            sent
        };
        let sent = sent.forward_cancellation_from(&responder.cancellation());
        let call = async move { (number, responder, sent.await) };
        // The call of a server that has ended settles at once.
        if let Err(Unsent(call)) = self.calls.send(Box::pin(call)) {
            self.respond(call.await);
        }
    }

    fn respond(&self, (number, responder, outcome): Settled) {
        let own = lock(&self.open).remove(&number).and_then(|client| client.id);
        let own = |_: &str| own.map(|id| id.as_json().into());
        let place = IdPlace::find(&self.dialect, None);
        let outcome = outcome.and_then(|result| {
            let translated = place.map_or(Ok(None), |at| at.translate(&result, own));
            Ok(translated.map_err(|_| CallError::Malformed)?.unwrap_or(result))
        });
        responder.answer(outcome.map_err(|error| match error {
            CallError::TimedOut { .. } => {
                log(format_args!("a request was given up: {error}"));
                RpcError::new(code::REQUEST_FAILED, error.to_string()).into()
            }
            CallError::ConnectionLost { how, .. } => {
                if let Some(how) = how {
                    log(format_args!("a request was lost: {how}"));
                }
                RpcError::new(code::INTERNAL_ERROR, "the next hop is gone").into()
            }
            error => Failure::from(error),
        }));
    }

    /// Passes on what the server says.
    async fn pass(&self, arrival: Arrival) {
        let (client, arrival) = match (&self.only, arrival) {
            (_, Arrival::Notification(told)) => match self.addressed(told) {
                Some((client, told)) => (client, Arrival::Notification(told)),
                None => return,
            },
            (Some(client), Arrival::Request(mut request, responder)) => {
                let translated = self.translated(&request.method, request.params.as_deref());
                let Ok((_, params)) = translated else {
                    let over = "invalid params: the request that they name is over or unknown";
                    let error = RpcError::new(code::INVALID_PARAMS, over);
                    return responder.respond_with_failure(error);
                };
                request.params = params.or(request.params);
                (client.clone(), Arrival::Request(request, responder))
            }
            (None, Arrival::Request(request, responder)) => {
                return responder.respond_with_failure(request.unknown_method());
            }
            (_, arrival) => return report(&arrival),
        };
        // The clients of a shared server don't wait for the slowest of them.
        send(&client, arrival, self.only.is_some()).await;
    }

    /// Finds the client of the request that a notification names, and gives the notification the name that it has there.
    fn addressed(&self, mut told: Notification) -> Option<(Peer, Notification)> {
        let named = |at: &[&str]| path(told.params.as_deref()?, at)?.get().parse::<u64>().ok();
        // A client alone has chosen its tokens, and they are passed on as they are.
        let token = if self.only.is_none() { named(&TOLD_TOKEN) } else { None };
        let Some(number) = token else {
            // If it names an id that is unknown, the subscription is over.
            let (named, params) = self.translated(&told.method, told.params.as_deref()).ok()?;
            told.params = params.or(told.params);
            let client = named.or_else(|| self.only.clone());
            return Some((client.or_else(|| only(&lock(&self.open), &told))?, told));
        };
        let open = lock(&self.open);
        // The request of late progress is over.
        let client = open.get(&number)?;
        let own = client.token.as_ref()?;
        told.params = told.params.as_deref().and_then(|params| replace(params, &TOLD_TOKEN, own));
        Some((client.peer.clone(), told))
    }

    /// Translates the id of a client's request in params of the server's. Returns the client that it names, and the params
    /// if they are others now.
    fn translated(
        &self,
        method: &str,
        params: Option<&RawValue>,
    ) -> Result<(Option<Peer>, Option<Box<RawValue>>), Refusal> {
        let place = IdPlace::find(&self.dialect, Some(method));
        let Some((place, params)) = place.zip(params) else { return Ok((None, None)) };
        let (open, mut peer) = (lock(&self.open), None);
        let translated = place.translate(params, |id| {
            let call = Some(id.parse().ok()?);
            let client = open.values().find(|client| client.call == call)?;
            peer = Some(client.peer.clone());
            Some(client.id.as_ref()?.as_json().into())
        })?;
        Ok((peer, translated))
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        self.peer.shutdown(Shutdown::CancelAll);
    }
}

/// Finds the client of a log message, which names no request, if there is only one that it can be of.
fn only(open: &BTreeMap<u64, Client>, told: &Notification) -> Option<Peer> {
    let is_log = told.method == "notifications/message";
    let mut clients = open.values().filter(|client| is_log && client.has_level);
    if let (Some(client), None) = (clients.next(), clients.next()) {
        return Some(client.peer.clone());
    }
    log(format_args!("{} names no request, and was dropped", told.method));
    None
}

/// Sends what another connection said. A notification may wait for room, and so does what comes after it.
async fn send(peer: &Peer, arrival: Arrival, may_wait: bool) {
    report(&arrival);
    let Err(SendError { mut reason, data: told }) = peer.send_proxied(arrival) else { return };
    if may_wait && reason == Refusal::OutboxFull {
        match peer.notify_raw(&told.method, told.params.as_deref()).await {
            Ok(()) => return,
            Err(refused) => reason = refused,
        }
    }
    log(format_args!("{} was dropped: {reason}", told.method));
}

/// Reports what can't be passed on.
fn report(arrival: &Arrival) {
    match arrival {
        Arrival::Violation { violation, .. } => log(violation),
        Arrival::Missed { count } => log(format_args!("{count} notifications were dropped")),
        _ => {}
    }
}

/// Returns an object in which a member has another value, or nothing if it has no such member. Other values stay as
/// they were written.
fn replace(object: &RawValue, at: &[&str], value: &RawValue) -> Option<Box<RawValue>> {
    let Some((name, within)) = at.split_first() else { return Some(value.to_owned()) };
    let mut members: BTreeMap<String, Box<RawValue>> = serde_json::from_str(object.get()).ok()?;
    let member = members.get_mut(*name)?;
    *member = replace(member, within, value)?;
    to_raw_value(&members).ok()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use futures_util::AsyncReadExt;
    use protocol_core::{Config, Dialect};
    use protocol_tokio::TokioTimer;
    use tokio::io::{DuplexStream, duplex};
    use tokio_util::compat::TokioAsyncReadCompatExt;

    use super::*;

    fn end_of(stream: DuplexStream, config: Config) -> (Peer, Incoming) {
        let (input, output) = stream.compat().split();
        let (peer, incoming, driver) =
            protocol_async::connect(input, output, TokioTimer::start(), config);
        tokio::spawn(driver);
        (peer, incoming)
    }

    #[tokio::test]
    async fn a_request_that_comes_once_its_server_has_ended_has_a_response() {
        let (to_client, to_relay) = duplex(1 << 10);
        let (client, _incoming) = end_of(to_client, Config::client(Dialect::MCP_2026_07_28));
        let (peer, incoming) = end_of(to_relay, Config::server(Dialect::MCP_2026_07_28));
        let (server, arrivals) = end_of(duplex(1 << 10).0, Config::client(Dialect::MCP_2026_07_28));
        let upstream = Upstream::new(server, arrivals, Guard::default(), None);
        upstream.pump().await;
        let call = client.call::<serde_json::Value>("a", serde_json::json!({}));
        tokio::select! {
            () = upstream.forward(&peer, &incoming) => panic!("its client is there"),
            outcome = call => {
                let error = outcome.unwrap_err();
                assert!(error.to_string().contains("the connection is closed"), "{error}");
            }
        }
    }
    /// Takes a request and keeps it open.
    async fn asked(incoming: &Incoming) -> (Request, Responder) {
        match incoming.receive().await {
            Ok(Arrival::Request(request, responder)) => (request, responder),
            other => panic!("{other:?}"),
        }
    }

    #[tokio::test]
    async fn b25_an_elicitation_names_the_request_as_the_client_knows_it() {
        let acp = [Config::client(Dialect::ACP_V1), Config::server(Dialect::ACP_V1)];
        let [(to_client, to_relay), (to_server, to_agent)] = [duplex(1 << 10), duplex(1 << 10)];
        let (client, at_client) = end_of(to_client, acp[0].clone());
        let (peer, incoming) = end_of(to_relay, acp[1].clone());
        let (server, arrivals) = end_of(to_server, acp[0].clone());
        let (agent, at_agent) = end_of(to_agent, acp[1].clone());
        // So that the client's first request is the agent's second.
        let _first = server.call::<serde_json::Value>("a", serde_json::json!({}));
        let guard = Guard::default();
        let upstream = Arc::new(Upstream::new(server, arrivals, guard, Some(peer.clone())));
        let pumped = upstream.clone();
        tokio::spawn(async move { pumped.pump().await });
        tokio::spawn(async move { upstream.forward(&peer, &incoming).await });
        let _login = client.call::<serde_json::Value>("authenticate", serde_json::json!({}));
        let _open = [asked(&at_agent).await, asked(&at_agent).await];

        let elicit = |id: Option<u8>| {
            let params = serde_json::json!({ "requestId": id });
            agent.call::<serde_json::Value>("elicitation/create", params)
        };
        for (id, passes) in [(Some(2), r#"{"requestId":1}"#), (None, "{}")] {
            let _elicitation = elicit(id);
            let (request, _responder) = asked(&at_client).await;
            let params = request.params.expect("it has some");
            assert_eq!(params.get(), passes);
        }
        let error = elicit(Some(3)).await.unwrap_err().to_string();
        assert!(error.contains("is over or unknown"), "{error}");
    }
}
