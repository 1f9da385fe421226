//! Checks of response streams over HTTP. Nothing arrives on a closed stream, so a witness tells what became of the work.

use super::base::*;

const KNOWN_END: Step = All(&[Natural('t'), Tells('t', WorkEnd::Finished)]);
/// A request that is cancelled by its protocol's way.
const CANCELLED_A: &[Step] = &[KNOWN_END, RUNNING_A, Send(&[Cancel('a')]), Witnessed('a')];

const fn http(id: &'static str, title: &'static str) -> Check {
    BASE.named(id, title)
        .needs(&[Need::Http, Need::Witness, Need::Slow])
        .witness("The result of the --witness request, which was right before about work whose end is known.")
}

/// In their order.
pub(super) const HTTP: &[Check] = &[
    http("http/closed", "a request whose response stream is closed is cancelled")
        .clauses(&[MCP_NEW.should("Over HTTP the end of the response stream is the cancel of its request, and the server stops the work.")])
        .steps(CANCELLED_A)
        .rules(&[EndedAs('a', WorkEnd::Cancelled)]),
    http("http/cancel", "a cancel that is posted while the request is at work stops that")
        .clauses(&[MCP.should("The receiver of a cancel stops the work.").if_heeded()])
        .steps(CANCELLED_A)
        .rules(&[EndedAs('a', WorkEnd::Cancelled)]),
    http("http/lost", "a request whose response stream is lost goes on to its end")
        .clauses(&[MCP_HTTP.should("A disconnection is not taken for the cancel of a request.")])
        .steps(&[
            KNOWN_END,
            Send(&[SLOW_B]),
            Started('b'),
            Send(&[Cancel('b')]),
            Tells('b', WorkEnd::Cancelled),
            RUNNING_A,
            Send(&[Lose('a')]),
            Witnessed('a'),
        ])
        .rules(&[EndedAs('a', WorkEnd::Finished)]),
];
