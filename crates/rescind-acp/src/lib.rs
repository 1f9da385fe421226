//! The methods of the Agent Client Protocol, version 1, as types.
//!
//! With the crate `rescind` this is `rescind::acp`.
//!
//! Each [`Method`] has its name on the wire, and its params and its result as types of [`schema`]. A
//! router serves one with `on_request` or `on_notification`, and a peer gets one with `call_method` or
//! `notify_method`:
//!
//! ```
//! use protocol_router::Router;
//! use rescind_acp::schema::v1::{ContentChunk, PromptResponse, SessionNotification, SessionUpdate, StopReason};
//!
//! let router = Router::new().on_request::<rescind_acp::Prompt, _>(async |prompt, cx| {
//!     let chunk = SessionUpdate::AgentMessageChunk(ContentChunk::new("Hello.".into()));
//!     let update = SessionNotification::new(prompt.session_id, chunk);
//!     cx.notify_method::<rescind_acp::Update>(update).await?;
//!     Ok(PromptResponse::new(StopReason::EndTurn))
//! });
//! ```
//!
//! The crate has types and no logic. `$/cancel_request` and `session/cancel` need no handler: a
//! connection of the dialect `Dialect::ACP_V1` cancels the requests that they name.
//!
//! Methods that the schema calls unstable are not here. A type of your own that implements [`Method`]
//! adds one, and with it an extension of the protocol.
#![forbid(unsafe_code)]

pub use agent_client_protocol_schema as schema;
pub use protocol_async::Method;

use schema::v1::{AGENT_METHOD_NAMES as AGENT, CLIENT_METHOD_NAMES as CLIENT};

/// Implements [`Method`] for a type of each line: the name, then the params and the result in `schema::v1`.
macro_rules! methods {
    ($($(#[$doc:meta])* $method:ident = $name:expr, $params:ident => $result:ty;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub enum $method {}

        impl Method for $method {
            const NAME: &'static str = $name;
            type Params = schema::v1::$params;
            type Result = $result;
        }
    )*};
}

// Served by an agent.
methods! {
    /// The request that opens a connection.
    Initialize = AGENT.initialize, InitializeRequest => schema::v1::InitializeResponse;
    /// The request to sign in.
    Authenticate = AGENT.authenticate, AuthenticateRequest => schema::v1::AuthenticateResponse;
    /// The request to sign out.
    Logout = AGENT.logout, LogoutRequest => schema::v1::LogoutResponse;
    /// The request for a new session.
    NewSession = AGENT.session_new, NewSessionRequest => schema::v1::NewSessionResponse;
    /// The request to open a session again, with its history.
    LoadSession = AGENT.session_load, LoadSessionRequest => schema::v1::LoadSessionResponse;
    /// The request to open a session again, without its history.
    ResumeSession = AGENT.session_resume, ResumeSessionRequest => schema::v1::ResumeSessionResponse;
    /// The request for the list of sessions.
    ListSessions = AGENT.session_list, ListSessionsRequest => schema::v1::ListSessionsResponse;
    /// The request to end a session.
    CloseSession = AGENT.session_close, CloseSessionRequest => schema::v1::CloseSessionResponse;
    /// The request to delete a session.
    DeleteSession = AGENT.session_delete, DeleteSessionRequest => schema::v1::DeleteSessionResponse;
    /// The request to change the mode of a session.
    SetSessionMode = AGENT.session_set_mode, SetSessionModeRequest => schema::v1::SetSessionModeResponse;
    /// The request to change an option of a session.
    SetSessionConfigOption = AGENT.session_set_config_option, SetSessionConfigOptionRequest
        => schema::v1::SetSessionConfigOptionResponse;
    /// The request that begins a turn.
    Prompt = AGENT.session_prompt, PromptRequest => schema::v1::PromptResponse;
    /// The notification that stops a turn. An agent needs no handler for it.
    Cancel = AGENT.session_cancel, CancelNotification => ();
}

// Served by a client.
methods! {
    /// The notification of progress in a session.
    Update = CLIENT.session_update, SessionNotification => ();
    /// The request to ask the user for a permission.
    RequestPermission = CLIENT.session_request_permission, RequestPermissionRequest
        => schema::v1::RequestPermissionResponse;
    /// The request to read a text file, with what the editor has not saved.
    ReadTextFile = CLIENT.fs_read_text_file, ReadTextFileRequest => schema::v1::ReadTextFileResponse;
    /// The request to write a text file.
    WriteTextFile = CLIENT.fs_write_text_file, WriteTextFileRequest => schema::v1::WriteTextFileResponse;
    /// The request to run a command in a terminal.
    CreateTerminal = CLIENT.terminal_create, CreateTerminalRequest => schema::v1::CreateTerminalResponse;
    /// The request for the output of a terminal so far.
    TerminalOutput = CLIENT.terminal_output, TerminalOutputRequest => schema::v1::TerminalOutputResponse;
    /// The request to wait until the command of a terminal ends.
    WaitForTerminalExit = CLIENT.terminal_wait_for_exit, WaitForTerminalExitRequest
        => schema::v1::WaitForTerminalExitResponse;
    /// The request to end the command of a terminal, which stays readable.
    KillTerminal = CLIENT.terminal_kill, KillTerminalRequest => schema::v1::KillTerminalResponse;
    /// The request to end the command of a terminal, and to forget it.
    ReleaseTerminal = CLIENT.terminal_release, ReleaseTerminalRequest => schema::v1::ReleaseTerminalResponse;
    /// The request to ask the user for input.
    CreateElicitation = CLIENT.elicitation_create, CreateElicitationRequest
        => schema::v1::CreateElicitationResponse;
    /// The notification that the user gave an input elsewhere.
    CompleteElicitation = CLIENT.elicitation_complete, CompleteElicitationNotification => ();
}
