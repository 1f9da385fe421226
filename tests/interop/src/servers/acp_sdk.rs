//! The same with the crate `agent-client-protocol`.

use agent_client_protocol::v1::ConnectionTo;
use agent_client_protocol::v1::schema::{
    ContentChunk, InitializeRequest, InitializeResponse, NewSessionRequest, NewSessionResponse,
    PermissionOption, PermissionOptionKind, PromptRequest, PromptResponse,
    RequestPermissionOutcome, RequestPermissionRequest, SessionNotification, SessionUpdate,
    StopReason, ToolCallUpdate, ToolCallUpdateFields,
};
use agent_client_protocol::{Agent, Client, ConnectTo, Result, on_receive_request};

async fn talk(prompt: PromptRequest, cx: ConnectionTo<Client>) -> Result<PromptResponse> {
    for word in ["May", "I?"] {
        let chunk = SessionUpdate::AgentMessageChunk(ContentChunk::new(word.into()));
        cx.send_notification(SessionNotification::new(prompt.session_id.clone(), chunk))?;
    }
    let allow = PermissionOption::new("yes", "Yes", PermissionOptionKind::AllowOnce);
    let call = ToolCallUpdate::new("call-1", ToolCallUpdateFields::new());
    let ask = RequestPermissionRequest::new(prompt.session_id, call, vec![allow]);
    let answer = cx.send_request(ask).block_task().await?;
    Ok(PromptResponse::new(match answer.outcome {
        RequestPermissionOutcome::Selected(_) => StopReason::EndTurn,
        _ => StopReason::Refusal,
    }))
}

/// The agent.
///
/// # Errors
///
/// The error that ended the connection.
pub async fn agent(transport: impl ConnectTo<Agent> + 'static) -> Result<()> {
    Agent
        .v1()
        .on_receive_request(
            async move |ask: InitializeRequest, responder, _cx| {
                responder.respond(InitializeResponse::new(ask.protocol_version))
            },
            on_receive_request!(),
        )
        .on_receive_request(
            async move |_: NewSessionRequest, responder, _cx| {
                responder.respond(NewSessionResponse::new("s1"))
            },
            on_receive_request!(),
        )
        .on_receive_request(
            async move |prompt: PromptRequest, responder, cx| {
                let cancellation = responder.cancellation();
                cx.clone().spawn(async move {
                    let answer = cancellation.run_until_cancelled(talk(prompt, cx)).await;
                    responder.respond_with_result(answer)
                })
            },
            on_receive_request!(),
        )
        .connect_to(transport)
        .await
}
