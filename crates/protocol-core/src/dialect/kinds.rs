//! The kinds of work that are in use.

use alloc::borrow::Cow::Borrowed;

use super::data::{List, Text, put};
use super::signs::{Carrier, News, Sign, StopMark, WorkRule};

/// A kind of work with these signs.
const fn rule(kind: &'static str, signs: &'static [Sign]) -> WorkRule {
    WorkRule { kind: Borrowed(kind), signs: Borrowed(signs) }
}

/// A message of this kind and method, which names the work at this path.
const fn sign(carrier: Carrier, method: &'static str, name: List<Text>, news: News) -> Sign {
    Sign { carrier, method: Borrowed(method), name, state: None, news, stopped: None }
}

impl Sign {
    /// Returns the same message, if one of these states stands at the path.
    const fn with_state(mut self, path: List<Text>, states: &'static [Text]) -> Self {
        put(&mut self.state, Some((path, Borrowed(states))));
        self
    }

    /// Returns the same message, with the mark of a stop.
    const fn with_mark(mut self, path: List<Text>, text: &'static str) -> Self {
        put(&mut self.stopped, Some(StopMark { path, text: Borrowed(text) }));
        self
    }
}

const fn request(method: &'static str, name: List<Text>, news: News) -> Sign {
    sign(Carrier::Request, method, name, news)
}

const fn notification(method: &'static str, name: List<Text>, news: News) -> Sign {
    sign(Carrier::Notification, method, name, news)
}

/// The request for permission. "The Client MUST respond to all pending `session/request_permission` requests with the
/// `cancelled` outcome" (prompt turn, cancellation). In version 2 the agent cancels each with `$/cancel_request`, and the
/// client responds with this outcome (the schema of `RequestPermissionOutcome`).
const fn permission(is_cancelled: bool) -> Sign {
    let news = News::Nested { is_cancelled };
    request("session/request_permission", list!["sessionId"], news)
        .with_mark(list!["outcome", "outcome"], "cancelled")
}

const PROMPT: Sign = request("session/prompt", list!["sessionId"], News::Begun);
const CANCEL: Sign = notification("session/cancel", list!["sessionId"], News::Stop);

/// A prompt turn of ACP, version 1, which lasts until its response.
///
/// "the Agent MUST respond to the original `session/prompt` request with the `cancelled` stop reason" (prompt turn,
/// cancellation).
pub(super) const TURN_V1: &[WorkRule] = &[rule("turn", SIGNS_V1)];

const SIGNS_V1: &[Sign] =
    &[PROMPT.with_mark(list!["stopReason"], "cancelled"), CANCEL, permission(false)];

/// The foreground work of a session in ACP, version 2, which lasts until the agent is idle. The response to
/// `session/prompt` only accepts the prompt.
///
/// "the Agent MUST send an idle `state_update` session update with the `cancelled` stop reason" (prompt lifecycle,
/// cancellation).
pub(super) const TURN_V2: &[WorkRule] = &[rule("turn", SIGNS_V2)];

const SIGNS_V2: &[Sign] = &[PROMPT, CANCEL, permission(true), IDLE];

const IDLE: Sign = notification("session/update", list!["sessionId"], News::Ended)
    .with_state(list!["update", "state"], &[Borrowed("idle")])
    .with_mark(list!["update", "stopReason"], "cancelled");

/// A task of MCP 2025-11-25. The response to its request names it, and it lasts until a terminal status.
///
/// Status notifications are optional, so the results of `tasks/get` and `tasks/cancel` count too (tasks, getting tasks
/// and task status notification).
pub(super) const TASK: &[WorkRule] = &[rule("task", SIGNS_OF_TASK)];

const SIGNS_OF_TASK: &[Sign] = &[
    sign(Carrier::Result, "", list!["task", "taskId"], News::Begun),
    request("tasks/cancel", list!["taskId"], News::Stop),
    request("tasks/get", list!["taskId"], News::Asked),
    request("", list![], News::Asked).with_state(list!["task"], &[]),
    terminal(Carrier::Result, ""),
    terminal(Carrier::Notification, "notifications/tasks/status"),
];

/// A task of the extension of MCP 2026-07-28 (SEP-2663), which any call of a tool may become.
///
/// - "clients do not signal task preference on the request itself" (capability negotiation).
/// - "A server MUST NOT return `CreateTaskResult` to a client that did not include the extension capability on its
///   request" (the same).
/// - "Servers MUST set `resultType` to `"task"` when returning a `CreateTaskResult`" (polymorphic results).
/// - "The `notifications/cancelled` notification MUST NOT be used for task cancellation" (task cancellation). The result
///   of `tasks/cancel` is an "empty acknowledgement", so it ends nothing.
pub(super) const TASK_OF_EXTENSION: &[WorkRule] = &[rule("task", SIGNS_OF_EXTENSION)];

const SIGNS_OF_EXTENSION: &[Sign] = &[
    sign(Carrier::Result, "", list!["taskId"], News::Begun)
        .with_state(list!["resultType"], &[Borrowed("task")]),
    // The capability has to be in the `_meta` of the stop as well. The core does not know it, and leaves the stop to the
    // host.
    request("tasks/cancel", list!["taskId"], News::Stop).with_state(list!["_meta"], &[]),
    request("tasks/get", list!["taskId"], News::Asked),
    request("tools/call", list![], News::Asked).with_state(EXTENSION, &[]),
    terminal(Carrier::Result, ""),
    terminal(Carrier::Notification, "notifications/tasks"),
];

const EXTENSION: List<Text> = list! {
    "_meta", "io.modelcontextprotocol/clientCapabilities", "extensions", "io.modelcontextprotocol/tasks"
};

const TERMINAL: &[Text] = &[Borrowed("completed"), Borrowed("failed"), Borrowed("cancelled")];

const fn terminal(carrier: Carrier, method: &'static str) -> Sign {
    sign(carrier, method, list!["taskId"], News::Ended)
        .with_state(list!["status"], TERMINAL)
        .with_mark(list!["status"], "cancelled")
}

/// A work-done progress of LSP, which the server reports.
///
/// "The `window/workDoneProgress/cancel` notification is sent from the client to the server to cancel a progress
/// initiated on the server side" (3.17, cancel a work done progress).
pub(super) const PROGRESS_OF_LSP: &[WorkRule] = &[rule("progress", SIGNS_OF_LSP)];

const SIGNS_OF_LSP: &[Sign] = &[
    progress(News::Begun).with_state(list!["value", "kind"], &[Borrowed("begin")]),
    notification("window/workDoneProgress/cancel", list!["token"], News::Stop),
    progress(News::Ended).with_state(list!["value", "kind"], &[Borrowed("end")]),
];

const fn progress(news: News) -> Sign {
    notification("$/progress", list!["token"], news)
}

/// A progress of DAP, which the debug adapter reports. Its stop is the request that cancels requests, too.
pub(super) const PROGRESS_OF_DAP: &[WorkRule] = &[rule("progress", SIGNS_OF_DAP)];

const SIGNS_OF_DAP: &[Sign] = &[
    notification("progressStart", list!["progressId"], News::Begun),
    request("cancel", list!["progressId"], News::Stop),
    notification("progressEnd", list!["progressId"], News::Ended),
];
