//! The crate `agent-client-protocol` in both roles of ACP, version 2.

use std::sync::Arc;

use agent_client_protocol::schema::ProtocolVersion;
use agent_client_protocol::v2::schema as v2;
use agent_client_protocol::v2::{ActiveSession, ConnectionTo, Responder, SentRequest};
use agent_client_protocol::{
    Agent, ByteStreams, Client, Error, Result, UntypedMessage, on_receive_notification,
    on_receive_request,
};
use rescind_interop::turns::{opened, question, state};
use serde_json::{Value, json};
use tokio::io::{DuplexStream, split};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::sync::{Mutex, watch};
use tokio_util::compat::{TokioAsyncReadCompatExt, TokioAsyncWriteCompatExt};

/// The one session of an agent.
#[derive(Clone, Default)]
struct Session {
    /// Is held by the turn that works. The others wait for it in order.
    foreground: Arc<Mutex<()>>,
    /// Counts the stops.
    stops: Arc<watch::Sender<u32>>,
}

impl Session {
    fn stop(&self) {
        self.stops.send_modify(|stops| *stops += 1);
    }

    fn prompt(
        &self,
        asked: &Value,
        responder: Responder<Value>,
        cx: &ConnectionTo<Client>,
    ) -> Result<()> {
        let (id, client) = (asked["sessionId"].clone(), cx.clone());
        let (foreground, mut stops) = (self.foreground.clone(), self.stops.subscribe());
        cx.spawn(async move {
            let withdrawn = responder.cancellation();
            let _turn = tokio::select! {
                biased;
                _ = stops.changed() => return responder.respond_with_error(Error::request_cancelled()),
                () = withdrawn.cancelled() => return responder.respond_with_error(Error::request_cancelled()),
                turn = foreground.lock_owned() => turn,
            };
            responder.respond(json!({ "messageId": "m1" }))?;
            work(&id, &client, stops).await
        })
    }
}

async fn work(
    id: &Value,
    cx: &ConnectionTo<Client>,
    mut stops: watch::Receiver<u32>,
) -> Result<()> {
    let update = |params| cx.send_notification(UntypedMessage::new("session/update", params)?);
    update(state(id, json!({ "state": "running" })))?;
    let asked = UntypedMessage::new("session/request_permission", question(id))?;
    let asked: SentRequest<Value> = cx.send_request(asked);
    let question = asked.cancellation_handle();
    let mut answer = std::pin::pin!(asked.block_task());
    let (answer, reason) = tokio::select! {
        biased;
        _ = stops.changed() => {
            question.cancel()?;
            (answer.await, "cancelled")
        }
        answer = &mut answer => (answer, "end_turn"),
    };
    let said = answer.unwrap_or_else(|error| json!(i32::from(error.code)));
    let content = json!({ "type": "text", "text": said.to_string() });
    let chunk =
        json!({ "sessionUpdate": "agent_message_chunk", "messageId": "a1", "content": content });
    update(json!({ "sessionId": id, "update": chunk }))?;
    update(state(id, json!({ "state": "idle", "stopReason": reason })))
}

/// An agent whose turns ask for permission, and say the response.
pub(super) async fn agent(stream: DuplexStream) -> Result<()> {
    let session = Session::default();
    let stopped = session.clone();
    let (reader, writer) = split(stream);
    Agent
        .v2()
        .on_receive_request(
            async move |request: UntypedMessage, responder: Responder, cx: ConnectionTo<Client>| {
                match request.method() {
                    "initialize" => responder.respond(opened()),
                    "session/new" => responder.respond(json!({ "sessionId": "s1" })),
                    "session/prompt" => session.prompt(request.params(), responder, &cx),
                    "session/close" => {
                        session.stop();
                        let foreground = session.foreground.clone();
                        cx.spawn(async move {
                            drop(foreground.lock().await);
                            responder.respond(json!({}))
                        })
                    }
                    _ => responder.respond_with_error(Error::method_not_found()),
                }
            },
            on_receive_request!(),
        )
        .on_receive_notification(
            async move |_: v2::CancelSessionNotification, _: ConnectionTo<Client>| {
                stopped.stop();
                Ok(())
            },
            on_receive_notification!(),
        )
        .connect_to(ByteStreams::new(writer.compat_write(), reader.compat()))
        .await
}

/// Their client, in front of our agent.
struct Theirs {
    session: ActiveSession<Agent>,
    updates: UnboundedReceiver<v2::SessionUpdate>,
    questions: UnboundedReceiver<Responder<v2::RequestPermissionResponse>>,
}

impl Theirs {
    async fn state(&mut self) -> v2::StateUpdate {
        match self.updates.recv().await {
            Some(v2::SessionUpdate::StateUpdate(state)) => state,
            other => panic!("{other:?}"),
        }
    }

    /// Begins a turn, which has come to its question when this returns.
    async fn turn(&mut self) -> Result<Responder<v2::RequestPermissionResponse>> {
        self.session.send_prompt("Go.").block_task().await?;
        assert!(matches!(self.state().await, v2::StateUpdate::Running(_)));
        Ok(self.questions.recv().await.expect("the connection is open"))
    }

    async fn ends(&mut self, reason: v2::StopReason) {
        let ended = self.state().await;
        let v2::StateUpdate::Idle(idle) = &ended else { panic!("{ended:?}") };
        assert_eq!(idle.stop_reason, Some(reason));
    }

    async fn grant(&mut self, question: Responder<v2::RequestPermissionResponse>) -> Result<()> {
        let selected = v2::SelectedPermissionOutcome::new("yes");
        let selected = v2::RequestPermissionOutcome::Selected(selected);
        question.respond(v2::RequestPermissionResponse::new(selected))?;
        self.ends(v2::StopReason::EndTurn).await;
        Ok(())
    }

    async fn stop(&mut self, question: Responder<v2::RequestPermissionResponse>) -> Result<()> {
        self.session.cancel_active_work()?;
        question.cancellation().cancelled().await;
        let cancelled = v2::CancelledPermissionOutcome::new().into();
        question.respond(v2::RequestPermissionResponse::new(cancelled))?;
        self.ends(v2::StopReason::Cancelled).await;
        Ok(())
    }

    async fn check(mut self) -> Result<()> {
        let question = self.turn().await?;
        self.grant(question).await?;

        let question = self.turn().await?;
        self.stop(question).await?;

        // A stop is for a prompt that is held, too.
        let question = self.turn().await?;
        let held = self.session.send_prompt("Later.");
        self.stop(question).await?;
        is_withdrawn(held).await;

        // A cancel withdraws a prompt that is held, and nothing else.
        let question = self.turn().await?;
        let held = self.session.send_prompt("Later.");
        held.cancel()?;
        is_withdrawn(held).await;
        self.grant(question).await
    }
}

async fn is_withdrawn(prompt: SentRequest<v2::PromptResponse>) {
    let error = prompt.block_task().await.expect_err("it was cancelled");
    assert_eq!(error.code, Error::request_cancelled().code);
}

/// Runs their client on an agent, and checks its turns.
pub(super) async fn client(stream: DuplexStream) -> Result<()> {
    let ((tell, updates), (ask, questions)) = (unbounded_channel(), unbounded_channel());
    let (reader, writer) = split(stream);
    // Nobody listens any more once the checks are over.
    Client
        .v2()
        .on_receive_notification(
            async move |told: v2::UpdateSessionNotification, _: ConnectionTo<Agent>| {
                let _ = tell.send(told.update);
                Ok(())
            },
            on_receive_notification!(),
        )
        .on_receive_request(
            async move |_: v2::RequestPermissionRequest,
                        responder: Responder<v2::RequestPermissionResponse>,
                        _: ConnectionTo<Agent>| {
                let _ = ask.send(responder);
                Ok(())
            },
            on_receive_request!(),
        )
        .connect_with(
            ByteStreams::new(writer.compat_write(), reader.compat()),
            async move |cx: ConnectionTo<Agent>| {
                let info = v2::Implementation::new("interop", "0");
                let opening = v2::InitializeRequest::new(ProtocolVersion::V2, info);
                cx.send_request(opening).block_task().await?;
                let session = cx.build_session("/").start_session().block_task().await?.session;
                Theirs { session, updates, questions }.check().await
            },
        )
        .await
}
