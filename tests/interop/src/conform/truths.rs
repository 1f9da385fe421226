//! The known flaws and strengths of these peers, which the tests have to find.

use rescind_conform::Report;

/// A peer by the beginning of its name, the checks that do not hold for it, and some that do.
type Truth = (&'static str, &'static [&'static str], &'static [&'static str]);

const TRUTHS: &[Truth] = &[
    // Id 0 can't be cancelled, nor can "".
    ("MCP TypeScript SDK 1", &["cancel/id-zero", "cancel/id-empty"], &["cancel/one-read"]),
    // And progress goes on after a cancel.
    ("server-everything", &["cancel/id-zero", "progress/after-cancel"], &["cancel/one-read"]),
    // "3" and 3 are one id.
    ("MCP Python SDK", &["cancel/other-type"], &["cancel/one-read"]),
    ("clangd", &[], &["cancel/one-read", "cancel/running", "honour/one-read"]),
    ("pylsp", &["honour/one-read"], &["cancel/one-read"]),
    // A part of the result answers a cancel, and nothing says so.
    ("typescript-language-server", &["honour/whole"], &["cancel/one-read"]),
    // Four requests that wait for their client, and nothing is read any more.
    ("tower-lsp", &["load/asking"], &["cancel/one-read"]),
    // Cancels are passed on with an id that the server does not know.
    ("lspmux", &["relay-cancel/live"], &[]),
    ("debugpy", &[], &["output/clean", "end/orphan"]),
    ("lldb-dap", &[], &["output/clean"]),
];

/// Returns the known verdicts of a peer that were not seen.
#[must_use]
pub fn truths(name: &str, report: &Report) -> Vec<String> {
    let mut missed = Vec::new();
    for (_, fails, holds) in TRUTHS.iter().filter(|(begins, ..)| name.starts_with(begins)) {
        let wanted = fails.iter().map(|id| (id, "fail")).chain(holds.iter().map(|id| (id, "pass")));
        for (id, verdict) in wanted {
            let seen = report.outcomes.iter().find(|outcome| outcome.id == *id);
            let seen = seen.map_or("not there", |outcome| outcome.verdict.as_str());
            if seen != verdict {
                missed.push(format!("{name}: {id} is {seen}, and was to be {verdict}"));
            }
        }
    }
    missed
}
