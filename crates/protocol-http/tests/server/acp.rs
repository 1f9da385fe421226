//! ACP: responses come on streams that requests share, one of the connection and one of each session.

use std::time::Duration;

use protocol_core::Cause;
use protocol_http::server::ServerOptions;
use protocol_http::{OnLoss, Rules};
use serde_json::{Value, json};

use crate::client::{Exchange, Headers, send};
use crate::host::{Host, Report, notification, request};

const TWO: &str = "two";

/// A connection, as a client knows it.
struct Connection {
    host: Host,
    id: String,
}

impl Connection {
    async fn open(rules: &'static Rules, on_loss: Option<OnLoss>) -> Self {
        let mut options = ServerOptions::default();
        options.gate.revisions = vec![rules];
        options.session.on_loss = on_loss;
        Self::with(rules, options).await
    }

    /// Opens a connection that may have this many streams of sessions.
    async fn with_streams(streams: usize) -> Self {
        let mut options = ServerOptions::default();
        options.gate.revisions = vec![&Rules::ACP_V1];
        options.session.exchanges = streams;
        Self::with(&Rules::ACP_V1, options).await
    }

    async fn with(rules: &'static Rules, options: ServerOptions) -> Self {
        let host = Host::new(options);
        let version: u32 = rules.version.parse().unwrap();
        let body = request(0, "initialize", &json!({ "protocolVersion": version }));
        let opened = send(&host.server, "POST", &[], &body).await;
        assert_eq!(opened.status, 200);
        assert_eq!(opened.header("content-type"), Some("application/json"));
        let id = opened.header("acp-connection-id").unwrap().to_owned();
        assert_eq!(read(&opened.body().await)["result"]["protocolVersion"], version);
        Self { host, id }
    }

    async fn send(
        &self,
        verb: &str,
        session: Option<&str>,
        more: Headers<'_>,
        body: &str,
    ) -> Exchange {
        let mut headers = vec![("acp-connection-id", &*self.id)];
        headers.extend(session.map(|session| ("acp-session-id", session)));
        headers.extend(more);
        send(&self.host.server, verb, &headers, body).await
    }

    async fn listen(&self, session: Option<&str>) -> Exchange {
        let listening = self.send("GET", session, &[], "").await;
        assert_eq!(listening.status, 200);
        assert_eq!(listening.header("content-type"), Some("text/event-stream"));
        listening
    }

    /// Posts a message about a session, which has no response in this exchange.
    async fn post(&self, session: Option<&str>, body: &str) {
        let posted = self.send("POST", session, &[], body).await;
        assert_eq!(posted.status, 202);
        assert_eq!(posted.body().await, "");
    }
}

fn read(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

async fn next(stream: &mut Exchange) -> Value {
    read(&stream.event().await.expect("the stream goes on"))
}

fn about(session: &str) -> Value {
    json!({ "sessionId": session })
}

#[tokio::test]
async fn a_response_comes_on_the_stream_of_its_session_or_of_the_connection() {
    for rules in Rules::ACP {
        let connection = Connection::open(rules, None).await;
        let (mut own, mut two) =
            (connection.listen(None).await, connection.listen(Some(TWO)).await);
        connection.post(None, &request(1, "echo", &json!({}))).await;
        assert_eq!(next(&mut own).await["id"], 1);
        connection.post(Some(TWO), &request(2, "echo", &about(TWO))).await;
        assert_eq!(next(&mut two).await["id"], 2);
        connection.post(Some("three"), &request(3, "echo", &about("three"))).await;
        assert_eq!(next(&mut own).await["id"], 3, "nobody listens to that session");
    }
}

#[tokio::test]
async fn updates_and_requests_of_the_agent_come_on_the_stream_of_the_session_that_they_name() {
    let connection = Connection::open(&Rules::ACP_V1, None).await;
    let mut own = connection.listen(None).await;
    connection.post(Some(TWO), &request(1, "ask_in_session", &about(TWO))).await;
    // It is kept until somebody listens.
    let mut two = connection.listen(Some(TWO)).await;
    assert_eq!(next(&mut two).await["method"], "session/update");
    let asked = next(&mut two).await;
    assert_eq!(asked["method"], "session/request_permission");
    let response = json!({ "jsonrpc": "2.0", "id": asked["id"], "result": { "outcome": "ok" } });
    connection.post(Some(TWO), &response.to_string()).await;
    assert_eq!(next(&mut two).await["result"]["outcome"], "ok");
    connection.post(None, &request(2, "echo", &json!({}))).await;
    assert_eq!(next(&mut own).await["id"], 2, "nothing else came there");
}

#[tokio::test]
async fn a_cancel_counts_even_if_it_overtakes_its_request() {
    let mut connection = Connection::open(&Rules::ACP_V1, None).await;
    let mut two = connection.listen(Some(TWO)).await;
    let cancel = |id: u32| notification("$/cancel_request", &json!({ "requestId": id }));
    connection.post(None, &cancel(1)).await;
    for id in 1..=2 {
        connection.post(Some(TWO), &request(id, "wait", &about(TWO))).await;
        assert_eq!(connection.host.report().await, Report::Began);
        if id == 2 {
            connection.post(None, &cancel(id)).await;
        }
        assert_eq!(connection.host.report().await, Report::Cancelled(Cause::Peer));
        let response = next(&mut two).await;
        assert_eq!((&response["id"], &response["error"]["code"]), (&json!(id), &json!(-32800)));
    }
}

#[tokio::test]
async fn a_lost_stream_of_a_session_is_no_cancel_and_what_it_missed_is_kept() {
    let mut connection = Connection::open(&Rules::ACP_V1, None).await;
    let two = connection.listen(Some(TWO)).await;
    connection.post(Some(TWO), &request(1, "wait", &about(TWO))).await;
    assert_eq!(connection.host.report().await, Report::Began);
    two.lose().await;
    connection.host.gate.notify_one();
    assert_eq!(connection.host.report().await, Report::Finished);
    assert_eq!(next(&mut connection.listen(Some(TWO)).await).await["result"], "waited");
}

#[tokio::test(start_paused = true)]
async fn a_lost_stream_cancels_the_requests_of_its_session_if_the_host_says_so() {
    let patience = Some(OnLoss::CancelAfter(Duration::from_secs(60)));
    let mut connection = Connection::open(&Rules::ACP_V1, patience).await;
    let two = connection.listen(Some(TWO)).await;
    connection.post(Some(TWO), &request(1, "wait", &about(TWO))).await;
    assert_eq!(connection.host.report().await, Report::Began);
    two.lose().await;
    assert_eq!(connection.host.report().await, Report::Cancelled(Cause::PeerGone));
    let mut two = connection.listen(Some(TWO)).await;
    assert_eq!(next(&mut two).await["error"]["code"], -32800);
}

#[tokio::test]
async fn g01_a_request_of_the_agent_that_nobody_listens_to_loses_its_call() {
    let mut options = ServerOptions::default();
    options.gate.revisions = vec![&Rules::ACP_V1];
    options.session.store_bytes = 2_000;
    let connection = Connection::with(&Rules::ACP_V1, options).await;
    let mut own = connection.listen(None).await;
    let long = json!({ "sessionId": TWO, "text": "x".repeat(4_000) });
    connection.post(Some(TWO), &request(1, "ask_in_session", &long)).await;
    connection.post(None, &request(2, "echo", &json!({}))).await;
    assert_eq!(next(&mut own).await["id"], 2, "so the first one has asked");
    let response = next(&mut connection.listen(Some(TWO)).await).await;
    assert_eq!(response["id"], 1, "it waits for nobody: {response}");
    assert!(response["error"]["code"].is_i64(), "{response}");
}

#[tokio::test]
async fn delete_ends_the_connection_its_requests_and_its_streams() {
    let mut connection = Connection::open(&Rules::ACP_V1, None).await;
    let (mut own, mut two) = (connection.listen(None).await, connection.listen(Some(TWO)).await);
    connection.post(Some(TWO), &request(1, "wait", &about(TWO))).await;
    assert_eq!(connection.host.report().await, Report::Began);
    assert_eq!(connection.send("DELETE", None, &[], "").await.status, 202);
    assert_eq!(connection.host.report().await, Report::Cancelled(Cause::PeerGone));
    assert_eq!((own.event().await, two.event().await), (None, None));
    assert_eq!(connection.send("DELETE", None, &[], "").await.status, 404);
}

#[tokio::test]
async fn a_response_does_not_overtake_the_updates_that_wait_for_its_session() {
    let connection = Connection::open(&Rules::ACP_V1, None).await;
    let mut own = connection.listen(None).await;
    connection.post(Some(TWO), &request(1, "tell_in_session", &about(TWO))).await;
    connection.post(None, &request(2, "echo", &json!({}))).await;
    assert_eq!(next(&mut own).await["id"], 2, "the other response is not there");
    let mut two = connection.listen(Some(TWO)).await;
    assert_eq!(next(&mut two).await["method"], "session/update");
    assert_eq!(next(&mut two).await["result"], "told");
}

#[tokio::test]
async fn delete_of_rules_with_a_status_that_is_none_is_200() {
    static ODD: Rules = Rules { delete_status: 9, ..Rules::ACP_V1 };
    let connection = Connection::open(&ODD, None).await;
    assert_eq!(connection.send("DELETE", None, &[], "").await.status, 200);
}

#[tokio::test]
async fn each_broken_rule_has_the_status_of_the_rfd() {
    let connection = Connection::open(&Rules::ACP_V1, None).await;
    let status = async |id: Option<&str>, session, verb: &str, body: &str, more: Headers<'_>| {
        let mut headers: Vec<_> = id.map(|id| ("acp-connection-id", id)).into_iter().collect();
        headers.extend(Option::map(session, |it| ("acp-session-id", it)));
        headers.extend(more);
        send(&connection.host.server, verb, &headers, body).await.status
    };
    let (own, echo) = (Some(&*connection.id), request(1, "echo", &about(TWO)));
    assert_eq!(status(None, Some(TWO), "POST", &echo, &[]).await, 400);
    assert_eq!(status(Some("another"), Some(TWO), "POST", &echo, &[]).await, 404);
    assert_eq!(status(own, None, "POST", &echo, &[]).await, 400);
    assert_eq!(status(own, Some("three"), "POST", &echo, &[]).await, 400);
    assert_eq!(status(own, None, "POST", &format!("[{echo}]"), &[]).await, 501);
    assert_eq!(status(own, Some(TWO), "POST", &echo, &[("content-type", "text/plain")]).await, 415);
    assert_eq!(status(own, None, "GET", "", &[("accept", "application/json")]).await, 406);
    let long = "s".repeat(257);
    assert_eq!(status(own, Some(&long), "GET", "", &[]).await, 404, "for ever");
    let of_mcp = [("mcp-session-id", &*connection.id)];
    assert_eq!(status(None, None, "GET", "", &of_mcp).await, 400, "it is another protocol's");
    assert_eq!(status(None, None, "GET", "", &[]).await, 400);
    assert_eq!(status(None, None, "DELETE", "", &[]).await, 400);
    assert_eq!(status(own, Some(TWO), "POST", &echo, &[]).await, 202, "and nothing else is wrong");
}

#[tokio::test]
async fn g08_the_streams_of_sessions_have_a_limit_and_give_room_when_nobody_needs_them() {
    let connection = Connection::with_streams(1).await;
    let two = connection.listen(Some(TWO)).await;
    assert_eq!(connection.send("GET", Some("three"), &[], "").await.status, 503);
    two.lose().await;
    connection.listen(Some("three")).await;
}

#[tokio::test]
async fn g08_a_session_with_unsent_events_gives_its_place_last() {
    let connection = Connection::with_streams(2).await;
    let mut own = connection.listen(None).await;
    connection.post(Some("a"), &request(1, "tell_in_session", &about("a"))).await;
    connection.listen(Some("b")).await.lose().await;
    connection.post(None, &request(2, "echo", &json!({}))).await;
    assert_eq!(next(&mut own).await["id"], 2, "so the first one is over too");
    let _c = connection.listen(Some("c")).await;
    assert_eq!(next(&mut connection.listen(Some("a")).await).await["method"], "session/update");
}
