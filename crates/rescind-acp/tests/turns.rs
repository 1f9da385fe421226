//! A turn with the types of the schema: what its client sees when it stops the turn, and when it does not.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::future::pending;

use protocol_async::{Failure, Method};
use protocol_core::{Cause, Config, Dialect};
use protocol_router::{Context, Router};
use protocol_tokio::Connection;
use rescind_acp::schema::ProtocolVersion;
use rescind_acp::schema::v1::*;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

fn pair() -> (Connection, Connection) {
    let (near, far) = tokio::io::duplex(4096);
    let spawn = |stream, config| {
        let (reader, writer) = tokio::io::split(stream);
        protocol_tokio::spawn(reader, writer, config)
    };
    (spawn(near, Config::client(Dialect::ACP_V1)), spawn(far, Config::server(Dialect::ACP_V1)))
}

async fn turn(prompt: PromptRequest, cx: &Context) -> Result<PromptResponse, Failure> {
    let chunk = SessionUpdate::AgentMessageChunk(ContentChunk::new("May I?".into()));
    let update = SessionNotification::new(prompt.session_id.clone(), chunk);
    cx.notify_method::<rescind_acp::Update>(update).await?;
    let yes = PermissionOption::new("yes", "Yes", PermissionOptionKind::AllowOnce);
    let tool = ToolCallUpdate::new("t1", ToolCallUpdateFields::new());
    let question = RequestPermissionRequest::new(prompt.session_id, tool, vec![yes]);
    let answer = cx.call_method::<rescind_acp::RequestPermission>(question).await?;
    match answer.outcome {
        RequestPermissionOutcome::Selected(_) => Ok(PromptResponse::new(StopReason::EndTurn)),
        _ => Ok(PromptResponse::new(StopReason::Refusal)),
    }
}

fn agent() -> Router {
    Router::new()
        .on_request::<rescind_acp::Initialize, _>(async |asked, _| {
            Ok(InitializeResponse::new(asked.protocol_version))
        })
        .on_request::<rescind_acp::NewSession, _>(async |_, _| Ok(NewSessionResponse::new("s1")))
        .on_request::<rescind_acp::Prompt, _>(async |prompt, cx| {
            cx.cancellation().run_until_cancelled(turn(prompt, &cx)).await
        })
}

/// Returns a client that grants a permission, or leaves the question open until it is cancelled.
fn client(grants: bool, seen: UnboundedSender<String>) -> Router {
    let asked = seen.clone();
    Router::new()
        .on_notification::<rescind_acp::Update, _>(async move |told, _| {
            if let SessionUpdate::AgentMessageChunk(chunk) = told.update
                && let ContentBlock::Text(text) = chunk.content
            {
                seen.send(text.text).unwrap();
            }
            Ok(())
        })
        .on_request::<rescind_acp::RequestPermission, _>(async move |question, cx| {
            asked.send("asked".into()).unwrap();
            if !grants {
                let nothing = pending::<()>();
                let cancelled = cx.cancellation().unless_cancelled(nothing).await;
                asked.send(format!("withdrawn: {:?}", cx.cancellation().cause())).unwrap();
                cancelled?;
            }
            let chosen = SelectedPermissionOutcome::new(question.options[0].option_id.clone());
            Ok(RequestPermissionResponse::new(RequestPermissionOutcome::Selected(chosen)))
        })
}

/// Begins a turn; the client has seen the question when this returns.
async fn ask(
    grants: bool,
) -> (Connection, protocol_async::SentRequest<PromptResponse>, UnboundedReceiver<String>) {
    let (client_end, agent_end) = pair();
    tokio::spawn(async move { agent().serve(&agent_end.incoming).await });
    let (seen, mut told) = unbounded_channel();
    let incoming = client_end.incoming.clone();
    tokio::spawn(async move { client(grants, seen).serve(&incoming).await });
    let peer = &client_end.peer;
    let hello = InitializeRequest::new(ProtocolVersion::V1);
    let opened = peer.call_method::<rescind_acp::Initialize>(hello).await.unwrap();
    assert_eq!(opened.protocol_version, ProtocolVersion::V1);
    let new = NewSessionRequest::new("/");
    let session = peer.call_method::<rescind_acp::NewSession>(new).await.unwrap().session_id;
    let prompt = PromptRequest::new(session, vec!["Do it.".into()]);
    let sent = peer.call_method::<rescind_acp::Prompt>(prompt);
    assert_eq!(told.recv().await.unwrap(), "May I?");
    assert_eq!(told.recv().await.unwrap(), "asked");
    (client_end, sent, told)
}

#[tokio::test]
async fn a_turn_that_nobody_stops_ends_by_itself() {
    let (_client, sent, _) = ask(true).await;
    assert_eq!(sent.await.unwrap().stop_reason, StopReason::EndTurn);
}

#[tokio::test]
async fn g2_a_turn_that_is_stopped_has_the_stop_reason_cancelled_and_withdraws_its_question() {
    let (client, sent, mut told) = ask(false).await;
    let stop = CancelNotification::new("s1");
    client.peer.notify_method::<rescind_acp::Cancel>(stop).await.unwrap();
    assert_eq!(sent.await.unwrap().stop_reason, StopReason::Cancelled);
    assert_eq!(told.recv().await.unwrap(), format!("withdrawn: {:?}", Some(Cause::Stopped)));
}

#[test]
fn each_stable_method_of_the_schema_is_here_once() {
    macro_rules! names {
        ($($method:ident)*) => { [$(rescind_acp::$method::NAME),*] };
    }
    let ours = names!(
        Initialize Authenticate Logout NewSession LoadSession ResumeSession ListSessions CloseSession
        DeleteSession SetSessionMode SetSessionConfigOption Prompt Cancel
        Update RequestPermission ReadTextFile WriteTextFile CreateTerminal TerminalOutput
        WaitForTerminalExit KillTerminal ReleaseTerminal CreateElicitation CompleteElicitation
    );
    let [agent, client] = [
        serde_json::to_value(AGENT_METHOD_NAMES).unwrap(),
        serde_json::to_value(CLIENT_METHOD_NAMES).unwrap(),
    ];
    let listed = agent.as_object().unwrap().values().chain(client.as_object().unwrap().values());
    let listed: BTreeSet<_> = listed.map(|name| name.as_str().unwrap()).collect();
    assert_eq!(ours.into_iter().collect::<BTreeSet<_>>(), listed);
    assert_eq!(ours.len(), listed.len(), "none is here twice");
}
