//! The scenarios that are searched: small worlds that together hold every kind of event in every
//! order.

use std::time::Duration;

use protocol_core::{Cause, Grace, Role, Shutdown};
use protocol_testkit::explore::Scenario;
use protocol_testkit::{Answering, Asked, Hostile, Method, Operation};

use Role::{Client, Server};

const fn call(at: Role, asked: Asked) -> Operation {
    Operation::Call { at, asked }
}

const fn cancel(at: Role, call: u8, cause: Cause) -> Operation {
    Operation::Cancel { at, call, cause }
}

const fn hostile(to: Role, message: Hostile, id: u8) -> Operation {
    Operation::Hostile { to, message, id }
}

const fn shutdown(at: Role, how: Shutdown) -> Operation {
    Operation::Shutdown { at, how }
}

const WORK: Asked = Asked::work(1);
const LISTEN: Asked = Asked { method: Method::Listen, ..WORK };
const DECLARE: Asked = Asked { method: Method::Declare, ..WORK };
const TASK: Asked = Asked { method: Method::Task, ..WORK };
const INITIALIZE: Asked = Asked { method: Method::Initialize, ..WORK };
const DISCOVER: Asked = Asked { method: Method::Discover, ..WORK };
const FIVE_MILLIS: Option<Grace> = Some(Grace::Settle(Duration::from_millis(5)));
const PATIENT_TASK: Asked = Asked { method: Method::Task, grace: FIVE_MILLIS, ..WORK };
const TOOL: Asked = Asked { method: Method::Tool, ..WORK };
const TIMED_TOOL: Asked = Asked { deadline: 6, ..TOOL };
const PATIENT_TOOL: Asked = Asked { grace: FIVE_MILLIS, ..TOOL };
const CHILD: Asked = Asked { parent: Some(0), ..WORK };
const TIMED: Asked = Asked { deadline: 6, idle: 4, hard_cap: 9, ..WORK };
const PATIENT: Asked = Asked { grace: FIVE_MILLIS, deadline: 9, ..WORK };

const fn begin(request: u8) -> Operation {
    Operation::Begin { at: Server, request }
}

const fn send_cancel(call: u8) -> Operation {
    Operation::SendCancel { at: Client, call }
}

const ALL: &[Answering] = &[Answering::Result, Answering::Error, Answering::Cancelled];
const TWO: &[Answering] = &[Answering::Result, Answering::Cancelled];
const ONE: &[Answering] = &[Answering::Result];
/// The newest, two older ones, and none that is known.
const REVISIONS: &[Answering] = &[
    Answering::Result,
    Answering::Revision(0),
    Answering::Revision(1),
    Answering::Revision(2),
    Answering::Revision(5),
];

/// The scenarios that `.ci/run` searches in every preset.
pub(crate) const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "calls and cancels both ways",
        budget: &[
            (call(Client, WORK), 1),
            (call(Server, WORK), 1),
            (cancel(Client, 0, Cause::Caller), 1),
            (cancel(Server, 0, Cause::Caller), 1),
        ],
        answers: ALL,
        timers: false,
    },
    Scenario {
        name: "two calls, withdrawn, cancelled, dropped and detached",
        budget: &[
            (call(Client, WORK), 2),
            (cancel(Client, 0, Cause::Caller), 2),
            (cancel(Client, 1, Cause::Dropped), 1),
            (Operation::Detach { at: Client, call: 1 }, 1),
        ],
        answers: TWO,
        timers: false,
    },
    Scenario {
        name: "the line is cut",
        budget: &[
            (call(Client, WORK), 1),
            (call(Server, WORK), 1),
            (cancel(Client, 0, Cause::Caller), 1),
            (Operation::Cut, 1),
        ],
        answers: TWO,
        timers: false,
    },
    Scenario {
        name: "one side hangs up",
        budget: &[
            (call(Client, WORK), 2),
            (call(Server, WORK), 1),
            (cancel(Client, 0, Cause::Caller), 1),
            (Operation::HangUp { at: Client }, 1),
        ],
        answers: ONE,
        timers: false,
    },
    Scenario {
        name: "shutdown, draining and cancelling all",
        budget: &[
            (call(Client, WORK), 1),
            (call(Server, WORK), 1),
            (shutdown(Client, Shutdown::Drain), 1),
            (shutdown(Server, Shutdown::CancelAll), 1),
        ],
        answers: TWO,
        timers: false,
    },
    Scenario {
        name: "shutdown, abandoning",
        budget: &[
            (call(Client, WORK), 1),
            (call(Server, WORK), 1),
            (cancel(Server, 0, Cause::Caller), 1),
            (shutdown(Client, Shutdown::Abandon), 1),
        ],
        answers: TWO,
        timers: false,
    },
    Scenario {
        name: "deadline, idle timeout and hard cap against progress",
        budget: &[
            (call(Client, TIMED), 1),
            (cancel(Client, 0, Cause::Caller), 1),
            (Operation::Progress { at: Server, token: 1 }, 2),
        ],
        answers: TWO,
        timers: true,
    },
    Scenario {
        name: "a grace that ends, late answers",
        budget: &[
            (call(Client, PATIENT), 2),
            (cancel(Client, 0, Cause::Caller), 1),
            (cancel(Client, 1, Cause::Dropped), 1),
        ],
        answers: ONE,
        timers: true,
    },
    Scenario {
        name: "calls made on behalf of a request",
        budget: &[
            (call(Client, WORK), 1),
            (call(Server, CHILD), 2),
            (cancel(Client, 0, Cause::Caller), 1),
            (Operation::GiveUp { at: Server, request: 0 }, 1),
        ],
        answers: ONE,
        timers: false,
    },
    Scenario {
        name: "duplicate ids, and cancels of them",
        budget: &[
            (call(Client, WORK), 1),
            (hostile(Server, Hostile::Request, 0), 2),
            (hostile(Server, Hostile::Cancel, 0), 2),
        ],
        answers: TWO,
        timers: false,
    },
    Scenario {
        name: "stray, duplicate and malformed responses",
        budget: &[
            (call(Client, WORK), 1),
            (cancel(Client, 0, Cause::Caller), 1),
            (hostile(Client, Hostile::Result, 0), 2),
            (hostile(Client, Hostile::NoVersion, 0), 1),
            (hostile(Client, Hostile::OnlyParams, 0), 1),
            (hostile(Client, Hostile::CancelError, 1), 1),
        ],
        answers: ONE,
        timers: false,
    },
    Scenario {
        name: "malformed messages",
        budget: &[
            (call(Client, WORK), 1),
            (cancel(Client, 0, Cause::Caller), 1),
            (hostile(Server, Hostile::NotJson, 0), 1),
            (hostile(Server, Hostile::RequestNoVersion, 0), 1),
            (hostile(Server, Hostile::CancelOfNothing, 0), 1),
        ],
        answers: ONE,
        timers: false,
    },
    Scenario {
        name: "a batch that is cancelled inside, beside a call",
        budget: &[
            (call(Client, WORK), 1),
            (cancel(Client, 0, Cause::Caller), 1),
            (hostile(Server, Hostile::Batch, 1), 1),
            (hostile(Server, Hostile::Cancel, 1), 1),
        ],
        answers: TWO,
        timers: false,
    },
    Scenario {
        name: "the exchange of capabilities, twice",
        budget: &[
            (call(Client, DECLARE), 2),
            (call(Client, WORK), 1),
            (call(Server, WORK), 1),
            (cancel(Client, 1, Cause::Caller), 1),
            (cancel(Server, 0, Cause::Caller), 1),
        ],
        answers: ONE,
        timers: false,
    },
    Scenario {
        name: "what may not be cancelled, and what the server may end",
        budget: &[
            (call(Client, LISTEN), 1),
            (call(Client, TASK), 1),
            (cancel(Client, 0, Cause::Caller), 1),
            (cancel(Client, 1, Cause::Dropped), 1),
            (Operation::End { at: Server, request: 0 }, 1),
        ],
        answers: ONE,
        timers: false,
    },
];

/// The scenarios for presets whose cancels are requests.
pub(crate) const ACKNOWLEDGED: &[Scenario] = &[
    Scenario {
        name: "a cancel crosses the answer, a second one comes, and one of nothing",
        budget: &[
            (call(Client, WORK), 1),
            (cancel(Client, 0, Cause::Caller), 2),
            (hostile(Server, Hostile::Cancel, 1), 2),
            (hostile(Server, Hostile::Cancel, 2), 1),
            (hostile(Server, Hostile::CancelOfNothing, 0), 1),
        ],
        answers: ALL,
        timers: false,
    },
    Scenario {
        name: "an id is used again after it was cancelled",
        budget: &[
            (hostile(Server, Hostile::Request, 2), 3),
            (hostile(Server, Hostile::Cancel, 2), 3),
            (Operation::GiveUp { at: Server, request: 0 }, 1),
        ],
        answers: TWO,
        timers: false,
    },
    Scenario {
        name: "acknowledgements that nobody waits for",
        budget: &[
            (call(Client, WORK), 1),
            (cancel(Client, 0, Cause::Caller), 1),
            (send_cancel(0), 1),
            (hostile(Client, Hostile::NoVersion, 1), 1),
            (hostile(Client, Hostile::NoVersion, 2), 2),
            (hostile(Client, Hostile::Empty, 2), 1),
        ],
        answers: ONE,
        timers: false,
    },
    Scenario {
        name: "the wrong side cancels",
        budget: &[
            (call(Server, WORK), 1),
            (cancel(Server, 0, Cause::Caller), 1),
            (send_cancel(0), 1),
            (Operation::SendCancel { at: Server, call: 0 }, 1),
            (hostile(Client, Hostile::Cancel, 0), 2),
        ],
        answers: TWO,
        timers: false,
    },
];

/// The scenarios for presets whose peers agree on a revision while they speak.
pub(crate) const NEGOTIATED: &[Scenario] = &[
    Scenario {
        name: "a revision is agreed on, beside cancels both ways",
        budget: &[
            (call(Client, INITIALIZE), 1),
            (call(Client, WORK), 1),
            (call(Server, WORK), 1),
            (cancel(Client, 1, Cause::Caller), 1),
            (cancel(Server, 0, Cause::Dropped), 1),
        ],
        answers: REVISIONS,
        timers: false,
    },
    Scenario {
        name: "one revision is agreed on, and then another",
        budget: &[
            (call(Client, INITIALIZE), 1),
            (call(Client, DISCOVER), 1),
            (call(Client, PATIENT_TASK), 1),
            (cancel(Client, 2, Cause::Caller), 2),
        ],
        answers: REVISIONS,
        timers: true,
    },
    Scenario {
        name: "a batch, before and after the revision is agreed on",
        budget: &[
            (call(Client, INITIALIZE), 1),
            (hostile(Server, Hostile::Batch, 1), 1),
            (hostile(Server, Hostile::Cancel, 1), 1),
        ],
        answers: &[Answering::Result, Answering::Revision(3)],
        timers: false,
    },
    Scenario {
        name: "a stream that the server may end, before and after the revision is agreed on",
        budget: &[
            (call(Client, INITIALIZE), 1),
            (call(Client, LISTEN), 1),
            (cancel(Client, 1, Cause::Caller), 1),
            (Operation::End { at: Server, request: 0 }, 1),
            (Operation::End { at: Server, request: 1 }, 1),
        ],
        answers: REVISIONS,
        timers: false,
    },
];

/// The scenarios through a relay, for presets whose peers agree on a revision while they speak.
pub(crate) const RELAYED_NEGOTIATED: &[Scenario] = &[Scenario {
    name: "a revision is agreed on through the relay, beside cancels both ways",
    budget: &[
        (call(Client, INITIALIZE), 1),
        (call(Client, WORK), 1),
        (call(Server, WORK), 1),
        (cancel(Client, 1, Cause::Caller), 1),
        (cancel(Server, 0, Cause::Caller), 1),
    ],
    answers: &[Answering::Result, Answering::Revision(1)],
    timers: false,
}];

/// The scenarios for presets whose requests go on as operations.
pub(crate) const OPERATIONS: &[Scenario] = &[
    Scenario {
        name: "an operation, cancelled before its token, after it and after its end",
        budget: &[
            (call(Client, TOOL), 1),
            (begin(0), 2),
            (cancel(Client, 0, Cause::Caller), 1),
            (send_cancel(0), 2),
            (Operation::GiveUp { at: Server, request: 0 }, 1),
        ],
        answers: ALL,
        timers: false,
    },
    Scenario {
        name: "two operations, withdrawn, cancelled, dropped and detached",
        budget: &[
            (call(Client, TOOL), 2),
            (begin(0), 1),
            (begin(1), 1),
            (cancel(Client, 0, Cause::Caller), 1),
            (cancel(Client, 1, Cause::Dropped), 1),
            (Operation::Detach { at: Client, call: 1 }, 1),
        ],
        answers: ONE,
        timers: false,
    },
    Scenario {
        name: "an operation and every shutdown",
        budget: &[
            (call(Client, TOOL), 1),
            (begin(0), 1),
            (cancel(Client, 0, Cause::Caller), 1),
            (shutdown(Server, Shutdown::Drain), 1),
            (shutdown(Server, Shutdown::CancelAll), 1),
            (shutdown(Server, Shutdown::Abandon), 1),
            (shutdown(Client, Shutdown::Drain), 1),
        ],
        answers: ONE,
        timers: false,
    },
    Scenario {
        name: "the line of an operation is cut",
        budget: &[
            (call(Client, TOOL), 2),
            (begin(0), 1),
            (cancel(Client, 0, Cause::Caller), 1),
            (Operation::Cut, 1),
        ],
        answers: ONE,
        timers: false,
    },
    Scenario {
        name: "the call of an operation times out before the token",
        budget: &[
            (call(Client, TIMED_TOOL), 1),
            (call(Client, PATIENT_TOOL), 1),
            (begin(0), 1),
            (begin(1), 1),
            (cancel(Client, 0, Cause::Caller), 1),
            (cancel(Client, 1, Cause::Caller), 1),
        ],
        answers: ONE,
        timers: true,
    },
    Scenario {
        name: "hostile cancels and answers of an operation",
        budget: &[
            (call(Client, TOOL), 1),
            (begin(0), 1),
            (cancel(Client, 0, Cause::Caller), 1),
            (hostile(Server, Hostile::Cancel, 0), 1),
            (hostile(Server, Hostile::Request, 0), 1),
            (hostile(Client, Hostile::Result, 0), 1),
            (hostile(Client, Hostile::CodeIsText, 1), 1),
            (hostile(Client, Hostile::Empty, 1), 1),
        ],
        answers: ONE,
        timers: false,
    },
    Scenario {
        name: "calls made on behalf of an operation",
        budget: &[
            (call(Client, TOOL), 1),
            (begin(0), 1),
            (call(Server, CHILD), 2),
            (cancel(Client, 0, Cause::Caller), 1),
            (Operation::GiveUp { at: Server, request: 0 }, 1),
        ],
        answers: ONE,
        timers: false,
    },
];

/// The scenarios through a relay, for presets whose requests go on as operations.
pub(crate) const RELAYED_OPERATIONS: &[Scenario] = &[Scenario {
    name: "an operation behind the relay",
    budget: &[
        (call(Client, TOOL), 1),
        (begin(0), 1),
        (cancel(Client, 0, Cause::Caller), 1),
        (send_cancel(0), 1),
    ],
    answers: TWO,
    timers: false,
}];

/// The scenarios that `.ci/run` searches through a relay, in every preset on both sides of it.
pub(crate) const RELAYED: &[Scenario] = &[
    Scenario {
        name: "a call and its cancel through the relay",
        budget: &[(call(Client, WORK), 1), (cancel(Client, 0, Cause::Caller), 1)],
        answers: ALL,
        timers: false,
    },
    Scenario {
        name: "calls both ways through the relay, one cancelled",
        budget: &[
            (call(Client, WORK), 1),
            (call(Server, WORK), 1),
            (cancel(Client, 0, Cause::Caller), 1),
        ],
        answers: ONE,
        timers: false,
    },
    Scenario {
        name: "capabilities exchanged through the relay, then a cancel",
        budget: &[
            (call(Client, DECLARE), 1),
            (call(Client, WORK), 1),
            (cancel(Client, 1, Cause::Caller), 1),
        ],
        answers: ONE,
        timers: false,
    },
    Scenario {
        name: "two calls through the relay, both cancelled",
        budget: &[
            (call(Client, WORK), 2),
            (cancel(Client, 0, Cause::Caller), 1),
            (cancel(Client, 1, Cause::Dropped), 1),
        ],
        answers: ONE,
        timers: false,
    },
    Scenario {
        name: "the server hangs up behind the relay",
        budget: &[
            (call(Client, WORK), 1),
            (cancel(Client, 0, Cause::Dropped), 1),
            (Operation::HangUp { at: Server }, 1),
        ],
        answers: ONE,
        timers: false,
    },
    Scenario {
        name: "a duplicate id and a malformed response at the relay",
        budget: &[
            (call(Client, WORK), 1),
            (hostile(Client, Hostile::Request, 0), 1),
            (hostile(Server, Hostile::NoVersion, 0), 1),
        ],
        answers: ONE,
        timers: false,
    },
];

/// The scenarios that `SEARCH=large` searches beside those.
pub(crate) const LARGE: &[Scenario] = &[
    Scenario {
        name: "large: two calls each way, two cancels, the line is cut",
        budget: &[
            (call(Client, WORK), 2),
            (call(Server, WORK), 2),
            (cancel(Client, 0, Cause::Caller), 1),
            (cancel(Server, 0, Cause::Caller), 1),
            (Operation::Cut, 1),
        ],
        answers: ONE,
        timers: false,
    },
    Scenario {
        name: "large: cancels, timers and every shutdown",
        budget: &[
            (call(Client, PATIENT), 2),
            (call(Server, WORK), 1),
            (cancel(Client, 0, Cause::Caller), 1),
            (shutdown(Client, Shutdown::CancelAll), 1),
            (shutdown(Server, Shutdown::Drain), 1),
        ],
        answers: TWO,
        timers: true,
    },
];

/// The orderings of turns, which are the same in each preset that has them.
pub(crate) const TURNS: &[Scenario] = &[Scenario {
    name: "turns that are stopped, cancelled and ended",
    budget: &[],
    answers: ONE,
    timers: false,
}];
