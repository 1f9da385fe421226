//! Response streams of HTTP that close, whose effect only a witness tells: no response comes on a closed stream.

use super::base::*;

const KNOWN_END: Step = Tells('t', WorkEnd::Finished);
/// A request that is cancelled by its protocol's way.
const CANCELLED_A: &[Step] =
    &[Natural('t'), KNOWN_END, Send(&[SLOW_A]), Started('a'), Send(&[Cancel('a')]), Witnessed('a')];

const fn http(id: &'static str, title: &'static str) -> Check {
    BASE.named(id, title)
        .needs(&[Need::Http, Need::Witness, Need::Slow])
        .witness("The result of the request of --witness, which tells of other work what is known: that it finished, or was cancelled.")
}

/// In their order.
pub(super) const HTTP: &[Check] = &[
    http("http/closed", "a request whose response stream is closed is cancelled")
        .clauses(&[MCP_CLOSED.must("Over HTTP a server treats the end of the response stream as the cancel of its request.")])
        .steps(CANCELLED_A)
        .rules(&[EndedAs('a', WorkEnd::Cancelled)]),
    http("http/cancel", "a cancel that is posted while the request is at work stops that")
        .clauses(&[MCP.should("The receiver of a cancel stops the work.")])
        .steps(CANCELLED_A)
        .rules(&[EndedAs('a', WorkEnd::Cancelled)]),
    http("http/lost", "a request whose response stream is lost goes on to its end")
        .clauses(&[MCP_HTTP.should("A disconnection is not taken for the cancel of a request.")])
        .steps(&[
            Natural('t'),
            KNOWN_END,
            Send(&[SLOW_B]),
            Started('b'),
            Send(&[Cancel('b')]),
            Tells('b', WorkEnd::Cancelled),
            Send(&[SLOW_A]),
            Started('a'),
            Send(&[Lose('a')]),
            Witnessed('a'),
        ])
        .rules(&[EndedAs('a', WorkEnd::Finished)]),
];
