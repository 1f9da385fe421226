//! The agent with this project, and the types of the official SDK.

use agent_client_protocol::v1::schema::{
    AGENT_METHOD_NAMES as AGENT, CLIENT_METHOD_NAMES as CLIENT, ContentBlock, ContentChunk,
    InitializeRequest, InitializeResponse, NewSessionRequest, NewSessionResponse, PromptRequest,
    PromptResponse, SessionNotification, SessionUpdate, StopReason,
};
use protocol_async::Failure;
use protocol_core::{Config, Dialect};
use protocol_router::{Context, Router};

async fn talk(prompt: PromptRequest, cx: &Context) -> Result<PromptResponse, Failure> {
    let ContentBlock::Text(asked) = &prompt.prompt[0] else { panic!("a text") };
    for number in 0..asked.text.parse::<u64>().expect("a number") {
        let text = format!("{number} of the words that a model says");
        let update = SessionUpdate::AgentMessageChunk(ContentChunk::new(text.into()));
        let update = SessionNotification::new(prompt.session_id.clone(), update);
        cx.notify(CLIENT.session_update, update).await?;
        // An agent waits for its model between two updates.
        tokio::task::yield_now().await;
    }
    Ok(PromptResponse::new(StopReason::EndTurn))
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let stdio = protocol_tokio::stdio(Config::server(Dialect::ACP_V1));
    let router = Router::new()
        .request(AGENT.initialize, async |ask: InitializeRequest, _| {
            Ok(InitializeResponse::new(ask.protocol_version))
        })
        .request(AGENT.session_new, async |_: NewSessionRequest, _| {
            Ok(NewSessionResponse::new("s1"))
        })
        .request(AGENT.session_prompt, async |prompt: PromptRequest, cx| {
            cx.cancellation().run_until_cancelled(talk(prompt, &cx)).await
        });
    router.serve(&stdio.incoming).await;
}
