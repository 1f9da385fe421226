//! An ACP agent, with the schema crate: it answers a prompt in pieces, asks for a permission, and stops
//! when it is cancelled.

use agent_client_protocol_schema::v1::{
    AGENT_METHOD_NAMES as AGENT, CLIENT_METHOD_NAMES as CLIENT, ContentChunk, InitializeRequest,
    InitializeResponse, NewSessionRequest, NewSessionResponse, PermissionOption,
    PermissionOptionKind, PromptRequest, PromptResponse, RequestPermissionOutcome,
    RequestPermissionRequest, RequestPermissionResponse, SessionNotification, SessionUpdate,
    StopReason, ToolCallUpdate, ToolCallUpdateFields,
};
use protocol_async::Failure;
use protocol_router::{Context, Router};

async fn talk(prompt: PromptRequest, cx: &Context) -> Result<PromptResponse, Failure> {
    for word in ["May", "I?"] {
        let chunk = SessionUpdate::AgentMessageChunk(ContentChunk::new(word.into()));
        let update = SessionNotification::new(prompt.session_id.clone(), chunk);
        cx.notify(CLIENT.session_update, update).await?;
    }
    let allow = PermissionOption::new("yes", "Yes", PermissionOptionKind::AllowOnce);
    let call = ToolCallUpdate::new("call-1", ToolCallUpdateFields::new());
    let ask = RequestPermissionRequest::new(prompt.session_id, call, vec![allow]);
    let answer: RequestPermissionResponse = cx.call(CLIENT.session_request_permission, ask).await?;
    Ok(PromptResponse::new(match answer.outcome {
        RequestPermissionOutcome::Selected(_) => StopReason::EndTurn,
        _ => StopReason::Refusal,
    }))
}

/// The agent: `agent().serve(&protocol_tokio::stdio(config).incoming).await`.
pub fn agent() -> Router {
    Router::new()
        .request(AGENT.initialize, async |ask: InitializeRequest, _| {
            Ok(InitializeResponse::new(ask.protocol_version))
        })
        .request(AGENT.session_new, async |_: NewSessionRequest, _| {
            Ok(NewSessionResponse::new("s1"))
        })
        .request(AGENT.session_prompt, async |prompt: PromptRequest, cx| {
            cx.cancellation().run_until_cancelled(talk(prompt, &cx)).await
        })
}
