//! The mistakes of the peer. Those of our own host are in `error.rs`.

use crate::text_enum::text_enum;

text_enum! {
    /// A rule that the peer broke.
    ///
    /// The connection goes on, except after the variants that say otherwise (G9). Responses with id null
    /// are sent by a server only: a client reports the violation and sends nothing (F61).
    ///
    /// No variant holds any of the peer's data, so a violation can be logged (B3).
    ///
    /// ```
    /// use protocol_core::{Config, Connection, Dialect, Event, Timestamp, Violation};
    ///
    /// let mut server: Connection<()> = Connection::new(Config::server(Dialect::ACP_V1));
    /// let event = server.receive(b"{]", Timestamp::ZERO).ok_or("an event")?;
    /// let Event::Violation { violation, .. } = event else { return Err("a violation") };
    /// assert_eq!(violation.to_string(), "not JSON, at byte 1");
    /// # Ok::<(), &str>(())
    /// ```
    pub enum Violation {
        /// The message is not JSON. The response is error -32700 with id null.
        Parse {
            /// The byte of the message that can't be read, from 0.
            offset: usize,
        } = "parse" => "not JSON, at byte {offset}",
        /// The message is not UTF-8. The response is error -32700 with id null.
        InvalidUtf8 {
            /// The first byte of the first bad sequence in the message, from 0.
            offset: usize,
        } = "invalid_utf8" => "not UTF-8, at byte {offset}",
        /// The message is not one of JSON-RPC 2.0, or too long. The response is error -32600 with the
        /// message's id, or with id null if there is none.
        InvalidRequest {
            /// The defect of the message.
            problem: EnvelopeProblem,
        } = "invalid_request" => "invalid request: {problem}",
        /// A notification is not a message of JSON-RPC 2.0. Notifications get no response.
        InvalidNotification {
            /// The defect of the message.
            problem: EnvelopeProblem,
        } = "invalid_notification" => "invalid notification: {problem}",
        /// A request has the id of one in flight. The response is error -32600, and the request in
        /// flight goes on (B5).
        DuplicateId = "duplicate_id" => "a request has the id of one in flight",
        /// A request exceeds [`Limits::requests`](crate::Limits::requests). The response is the
        /// dialect's [`overload_code`](crate::Dialect::overload_code). The connection closes if
        /// [`Config::close_over_limit`](crate::Config::close_over_limit) is set.
        TooManyRequests = "too_many_requests" => "too many requests in flight (limits.requests)",
        /// A request came before the one that opens the session. The response is error
        /// [`SERVER_NOT_INITIALIZED`](crate::code::SERVER_NOT_INITIALIZED).
        NotInitialized = "not_initialized" => "a request came before the session was opened",
        /// A request came while our side is shutting down. The response is the dialect's
        /// [`overload_code`](crate::Dialect::overload_code).
        RequestAfterShutdown = "request_after_shutdown" => "a request came during shutdown",
        /// The dialect has no batches. The response to the whole batch is error -32600 with id null.
        BatchRefused = "batch_refused" => "the dialect has no batches",
        /// A batch is empty, or exceeds [`Limits::batch_members`](crate::Limits::batch_members). The
        /// response to the whole batch is error -32600 with id null.
        BatchSize = "batch_size" => "a batch is empty or too long (limits.batch_members)",
        /// The response to a call in flight is malformed. The call settles as
        /// [`Outcome::Malformed`](crate::Outcome::Malformed) (B1).
        MalformedResponse {
            /// The defect of the response.
            problem: EnvelopeProblem,
        } = "malformed_response" => "malformed response: {problem}",
        /// The first response to a call came after the call was cancelled or timed out, and settled.
        LateResponse = "late_response" => "a response came after its call was settled",
        /// A second response to one call came, or the first one to a call that is no longer remembered.
        DuplicateResponse = "duplicate_response" => "a second response to one call",
        /// A response has an id that we never sent, or no id.
        UnknownResponse = "unknown_response" => "a response to no request of ours",
        /// A cancel names no id and is ignored. If it is a request, the response is error -32602, or the
        /// one for an unknown operation.
        MalformedCancel = "malformed_cancel" => "a cancel names no id",
        /// A response to a bad message or to a cancel did not fit into the outbox. The peer keeps
        /// sending and does not read.
        ResponseDropped = "response_dropped"
            => "a response to a bad message or a cancel did not fit (limits.unsent_bytes)",
        /// A header block is longer than [`Limits::header_bytes`](crate::Limits::header_bytes). The
        /// connection closes.
        HeaderTooLong = "header_too_long" => "a header block is too long (limits.header_bytes)",
        /// A header block has no usable Content-Length. The connection closes.
        InvalidHeader = "invalid_header" => "a header block has no usable Content-Length",
        /// The input ended inside a message.
        Truncated = "truncated" => "the input ended inside a message",
    }
}

text_enum! {
    /// A defect in the envelope of a message.
    pub enum EnvelopeProblem {
        /// The message is neither an object nor an array.
        NotAnObject = "the message is not an object",
        /// `jsonrpc` is missing or not `"2.0"`.
        Version = "jsonrpc is not \"2.0\"",
        /// The envelope has the same member twice.
        DuplicateMember = "a member stands twice",
        /// `method` is not a string.
        Method = "method is not a string",
        /// ABP: `type` is missing or not a string.
        Type = "type is not a string",
        /// ABP: `capability` is missing, not a string, or the name of a message type.
        Capability = "capability is not the name of one",
        /// `params` is neither an array nor an object.
        Params = "params is neither an array nor an object",
        /// `id` has a type or a size that the dialect or the limits forbid.
        Id = "the id is not one that a request may have",
        /// The message has neither a method, nor a result, nor an error.
        Empty = "there is no method, no result and no error",
        /// The message has both a result and an error.
        ResultAndError = "there is both a result and an error",
        /// `error` is not an object with an integer `code` and a string `message`.
        Error = "error is not an object with an integer code and a string message",
        /// The dialect forbids requests of this method in a batch.
        InBatch = "a request of this method may not be in a batch",
        /// The message is nested more deeply than [`Limits::depth`](crate::Limits::depth).
        TooDeep = "the message is nested too deeply",
        /// The message is longer than [`Limits::message_bytes`](crate::Limits::message_bytes).
        TooLarge = "the message is too long",
    }
}
