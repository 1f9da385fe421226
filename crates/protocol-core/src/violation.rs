//! Which rule the peer broke.

use crate::named::named;

named! {
    /// One rule that the peer broke. The connection lives, except after the framing variants that say
    /// otherwise (G9).
    ///
    /// Answers with id null are a server's: a client reports what they would answer, and no more (F61).
    ///
    /// Never holds any of the peer's data (B3).
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    #[non_exhaustive]
    pub enum Violation {
        /// The message is not JSON. Answered -32700, id null.
        Parse {
            /// Byte of the message where reading it failed, from 0.
            offset: usize,
        } = "parse" => "not JSON, at byte {offset}",
        /// The message is not UTF-8. Answered -32700, id null.
        InvalidUtf8 {
            /// Byte of the message where the first bad sequence begins, from 0.
            offset: usize,
        } = "invalid_utf8" => "not UTF-8, at byte {offset}",
        /// The message is JSON, but no message of JSON-RPC 2.0. Answered -32600, with the id if that
        /// can be read.
        InvalidRequest {
            /// What is wrong with it.
            problem: EnvelopeProblem,
        } = "invalid_request" => "invalid request: {problem}",
        /// A notification that is no message of JSON-RPC 2.0. Can't be answered.
        InvalidNotification {
            /// What is wrong with it.
            problem: EnvelopeProblem,
        } = "invalid_notification" => "invalid notification: {problem}",
        /// A request with the id of one in flight. Answered -32600; the first is untouched (B5).
        DuplicateId = "duplicate_id" => "a request has the id of one in flight",
        /// A request over [`Limits::requests`](crate::Limits::requests). Answered with the dialect's
        /// overload code.
        TooManyRequests = "too_many_requests" => "too many requests in flight (limits.requests)",
        /// A request before the one that opens the session. Answered
        /// [`SERVER_NOT_INITIALIZED`](crate::code::SERVER_NOT_INITIALIZED).
        NotInitialized = "not_initialized" => "a request came before the session was opened",
        /// A request while we are shutting down. Answered with the dialect's overload code.
        RequestAfterShutdown = "request_after_shutdown" => "a request came during shutdown",
        /// A message longer than [`Limits::message_bytes`](crate::Limits::message_bytes). Skipped, and
        /// answered -32600, id null.
        MessageTooLarge = "message_too_large" => "a message is too long (limits.message_bytes)",
        /// A batch where the dialect has none. Answered with one -32600, id null.
        BatchRefused = "batch_refused" => "the dialect has no batches",
        /// An empty batch, or one with more than [`Limits::batch_members`](crate::Limits::batch_members).
        /// Answered with one -32600, id null.
        BatchSize = "batch_size" => "a batch is empty or too long (limits.batch_members)",
        /// A response that is malformed, to a call in flight: that call settles as malformed (B1).
        MalformedResponse {
            /// What is wrong with it.
            problem: EnvelopeProblem,
        } = "malformed_response" => "malformed response: {problem}",
        /// The first response to a call that was settled without it: its cancel or its deadline was
        /// faster.
        LateResponse = "late_response" => "a response came after its call was settled",
        /// A second response to a call.
        DuplicateResponse = "duplicate_response" => "a call was answered twice",
        /// A response to an id that we never sent, or to none (B31).
        UnknownResponse = "unknown_response" => "a response to no request of ours",
        /// A cancel that names no id. Ignored; one that is a request is answered -32602, or as one of an
        /// operation that nobody knows.
        MalformedCancel = "malformed_cancel" => "a cancel names no id",
        /// An answer that this connection gives by itself did not fit into the outbox: the peer sends
        /// bad messages or cancels, and does not read.
        ResponseDropped = "response_dropped"
            => "an answer to a bad message or a cancel did not fit (limits.unsent_bytes)",
        /// A header block that is longer than [`Limits::header_bytes`](crate::Limits::header_bytes).
        /// Ends the connection.
        HeaderTooLong = "header_too_long" => "a header block is too long (limits.header_bytes)",
        /// A header block without a usable Content-Length. Ends the connection.
        InvalidHeader = "invalid_header" => "a header block has no usable Content-Length",
        /// The input ended inside a message.
        Truncated = "truncated" => "the input ended inside a message",
    }
    /// The name in `snake_case`, without details.
    as_str
}

named! {
    /// What is wrong with an envelope.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    #[non_exhaustive]
    pub enum EnvelopeProblem {
        /// The message is neither an object nor an array.
        NotAnObject = "the message is not an object",
        /// `jsonrpc` is missing or not `"2.0"`.
        Version = "jsonrpc is not \"2.0\"",
        /// A member of the envelope stands twice.
        DuplicateMember = "a member stands twice",
        /// `method` is not a string.
        Method = "method is not a string",
        /// ABP: `type` is missing or not a string.
        Type = "type is not a string",
        /// ABP: `capability` is missing, not a string, or a type of message.
        Capability = "capability is not the name of one",
        /// `params` is neither an array nor an object.
        Params = "params is neither an array nor an object",
        /// `id` is of a type or a size that no request may have.
        Id = "the id is not one that a request may have",
        /// Neither a method, nor a result, nor an error.
        Empty = "there is no method, no result and no error",
        /// Both a result and an error.
        ResultAndError = "there is both a result and an error",
        /// `error` is not an object with an integer `code` and a string `message`.
        Error = "error is not an object with an integer code and a string message",
        /// The dialect allows no request of this method in a batch.
        InBatch = "a request of this method may not be in a batch",
        /// Nested deeper than [`Limits::depth`](crate::Limits::depth).
        TooDeep = "the message is nested too deeply",
    }
    /// One phrase: what is wrong.
    as_str + Display
}

impl core::error::Error for Violation {}
