//! The things that a caller can do with a request. They run through any client library, against any
//! agent with the methods of `rescind serve`.

use std::future::Future;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::timeout;

/// The code of a cancelled request.
pub const CANCELLED: i64 = -32800;

/// Longer than any test waits.
const LONG: u64 = 600_000;

/// A client library under test.
pub trait Client {
    /// Its handle of a call in flight. Dropping it cancels the call.
    type Sent;

    /// Calls the agent.
    fn call(&self, method: &str, params: Value) -> Self::Sent;

    /// Cancels by handle.
    fn cancel(&self, sent: &Self::Sent);

    /// Waits for the result, or the code of the error.
    fn outcome(&self, sent: Self::Sent) -> impl Future<Output = Result<Value, i64>>;
}

/// An event of a request that the agent sends us: `sleep`, on behalf of `nested`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nested {
    /// It arrived, and works until it is cancelled.
    Started,
    /// It was cancelled.
    Cancelled,
}

/// Runs every check; the first that does not hold panics.
///
/// # Panics
///
/// If a check does not hold within a minute.
pub async fn run<C: Client>(client: &C, nested: &mut UnboundedReceiver<Nested>) {
    let checks = async {
        echo(client).await;
        cancel_by_handle(client).await;
        nested_request_is_cancelled_back(client, nested).await;
        drop_is_cancelled_back(client, nested).await;
        ignored_cancel_gets_an_answer(client).await;
        every_third_of_many(client).await;
        echo(client).await;
    };
    timeout(Duration::from_secs(60), checks).await.expect("the checks end");
}

async fn echo(client: &impl Client) {
    let params = json!({ "text": "hé" });
    assert_eq!(client.outcome(client.call("echo", params.clone())).await, Ok(params));
}

async fn cancel_by_handle(client: &impl Client) {
    let sent = client.call("sleep", json!({ "ms": LONG }));
    client.cancel(&sent);
    client.cancel(&sent);
    assert_eq!(client.outcome(sent).await, Err(CANCELLED), "cancelled by handle");
}

async fn nested_request_is_cancelled_back(
    client: &impl Client,
    nested: &mut UnboundedReceiver<Nested>,
) {
    let sent = client.call("nested", json!({ "ms": LONG }));
    assert_eq!(nested.recv().await, Some(Nested::Started));
    client.cancel(&sent);
    assert_eq!(nested.recv().await, Some(Nested::Cancelled));
    assert_eq!(client.outcome(sent).await, Err(CANCELLED), "cancelled while it waited for us");
}

/// Drops a call. The agent learns of it, and cancels its own request.
async fn drop_is_cancelled_back(client: &impl Client, nested: &mut UnboundedReceiver<Nested>) {
    let sent = client.call("nested", json!({ "ms": LONG }));
    assert_eq!(nested.recv().await, Some(Nested::Started));
    drop(sent);
    assert_eq!(nested.recv().await, Some(Nested::Cancelled));
}

async fn ignored_cancel_gets_an_answer(client: &impl Client) {
    let sent = client.call("stubborn", json!({ "ms": 20 }));
    client.cancel(&sent);
    // A call that was cancelled before anyone worked on it may be answered without its work.
    let outcome = client.outcome(sent).await;
    let expected = [Ok(json!({ "slept_ms": 20 })), Err(CANCELLED)];
    assert!(expected.contains(&outcome), "{outcome:?}");
}

async fn every_third_of_many(client: &impl Client) {
    let mut sent = Vec::new();
    for index in 0..99 {
        let cancelled = index % 3 == 0;
        let call = client.call("sleep", json!({ "ms": if cancelled { LONG } else { 1 } }));
        if cancelled {
            client.cancel(&call);
        }
        sent.push((cancelled, call));
    }
    for (cancelled, call) in sent {
        let outcome = client.outcome(call).await;
        let expected = if cancelled { Err(CANCELLED) } else { Ok(json!({ "slept_ms": 1 })) };
        assert_eq!(outcome, expected);
    }
}
