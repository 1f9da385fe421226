//! The agent with the official SDK.

use agent_client_protocol::v1::ConnectionTo;
use agent_client_protocol::v1::schema::{
    ContentBlock, ContentChunk, InitializeRequest, InitializeResponse, NewSessionRequest,
    NewSessionResponse, PromptRequest, PromptResponse, SessionNotification, SessionUpdate,
    StopReason,
};
use agent_client_protocol::{Agent, Client, Result, Stdio, on_receive_request};

async fn talk(prompt: PromptRequest, cx: ConnectionTo<Client>) -> Result<PromptResponse> {
    let ContentBlock::Text(asked) = &prompt.prompt[0] else { panic!("a text") };
    for number in 0..asked.text.parse::<u64>().expect("a number") {
        let text = format!("{number} of the words that a model says");
        let update = SessionUpdate::AgentMessageChunk(ContentChunk::new(text.into()));
        cx.send_notification(SessionNotification::new(prompt.session_id.clone(), update))?;
        // An agent waits for its model between two updates.
        tokio::task::yield_now().await;
    }
    Ok(PromptResponse::new(StopReason::EndTurn))
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
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
        .connect_to(Stdio::new())
        .await
}
