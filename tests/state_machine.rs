//! Renders `docs/state-machine.md` from the transition tables of the core and compares it with the
//! committed file: a changed behaviour shows up there as a changed row. `BLESS=1` rewrites it.

mod committed;

use std::fmt::{Debug, Write};
use std::path::Path;

use protocol_core::machine::{
    CALL_TABLE, CallInput, CallPhase, CallStep, REQUEST_TABLE, RequestInput, RequestPhase,
    RequestStep, Transition,
};

#[test]
fn the_drawing_shows_the_table() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/state-machine.md");
    if let Err(difference) = committed::check(&path, &document()) {
        panic!("the tables and their drawing differ; BLESS=1 renders it anew\n{difference}");
    }
}

fn document() -> String {
    let calls = Section {
        title: "A call",
        about: "A request that we sent. Its entry is gone once it has settled, and it settles once \
                (G1).",
        phases: &CallPhase::ALL.map(|phase| (phase, call_phase(phase))),
        inputs: &CallInput::ALL.map(|input| (input, call_input(input))),
        table: CALL_TABLE.iter().map(<[_; 9]>::as_slice).collect(),
        step: call_step,
        first: CallPhase::Queued,
    };
    let requests = Section {
        title: "A request",
        about: "A request that the peer sent. It is answered once, or withheld where the dialect \
                demands silence (G2). The step that ends an `Answered` request is not in the \
                table: its entry is gone as soon as every call made on its behalf has settled, \
                which is at once if there were none (G6).",
        phases: &RequestPhase::ALL.map(|phase| (phase, request_phase(phase))),
        inputs: &RequestInput::ALL.map(|input| (input, request_input(input))),
        table: REQUEST_TABLE.iter().map(<[_; 4]>::as_slice).collect(),
        step: request_step,
        first: RequestPhase::Running,
    };
    format!("{HEAD}\n{}\n{}", calls.render(), requests.render())
}

const HEAD: &str = "\
# The state machine

Generated from the tables in `crates/protocol-core/src/machine/table.rs` by
`BLESS=1 cargo test -p rescind-tests --test state_machine`; do not edit it by hand.

Everything that a call or a request can do is a cell of one of two tables. `Machine` looks a cell
up by the phase an entry is in and by what happens to it, carries out the step, and moves the entry
to the next phase; it decides nothing else. Timers, causes, parents and shutdown only choose which
input happens. The guarantees (G) are listed in [ARCHITECTURE.md](ARCHITECTURE.md), the bugs (B) are
those that `tests/vectors` is named for.
";

/// The name of having no phase any more.
const SETTLED: &str = "Settled";

/// One of the two tables, and what its words mean.
struct Section<'a, P, I, S> {
    title: &'a str,
    about: &'a str,
    phases: &'a [(P, &'a str)],
    inputs: &'a [(I, &'a str)],
    /// A row for each phase, a column for each input.
    table: Vec<&'a [Transition<P, S>]>,
    step: fn(S) -> &'static str,
    /// Where an entry begins.
    first: P,
}

impl<P, I, S> Section<'_, P, I, S>
where
    P: Copy + Debug + PartialEq,
    I: Copy + Debug,
    S: Copy + Debug + PartialEq,
{
    fn render(&self) -> String {
        let mut out = format!("## {}\n\n{}\n\n", self.title, self.about);
        self.table_into(&mut out).expect("a String takes everything");
        self.drawing_into(&mut out).expect("a String takes everything");
        self.meanings_into(&mut out).expect("a String takes everything");
        out
    }

    fn table_into(&self, out: &mut String) -> std::fmt::Result {
        write!(out, "| |")?;
        for (input, _) in self.inputs {
            write!(out, " {input:?} |")?;
        }
        writeln!(out, "\n|---|{}", "---|".repeat(self.inputs.len()))?;
        for ((phase, _), row) in self.phases.iter().zip(&self.table) {
            write!(out, "| **{phase:?}** |")?;
            for cell in *row {
                write!(out, " {:?} → {} |", cell.step, self.name(cell.next))?;
            }
            writeln!(out)?;
        }
        writeln!(out)
    }

    fn drawing_into(&self, out: &mut String) -> std::fmt::Result {
        writeln!(out, "```mermaid\nstateDiagram-v2\n    [*] --> {:?}", self.first)?;
        for ((phase, _), row) in self.phases.iter().zip(&self.table) {
            for ((input, _), cell) in self.inputs.iter().zip(*row) {
                let next = cell.next.map_or("[*]".to_owned(), |next| format!("{next:?}"));
                writeln!(out, "    {phase:?} --> {next} : {input:?} / {:?}", cell.step)?;
            }
        }
        writeln!(out, "```\n")
    }

    fn meanings_into(&self, out: &mut String) -> std::fmt::Result {
        writeln!(out, "Phases:\n")?;
        for (phase, meaning) in self.phases {
            writeln!(out, "- **{phase:?}**: {meaning}")?;
        }
        writeln!(out, "- **{SETTLED}**: no phase any more; the entry is gone")?;
        writeln!(out, "\nInputs:\n")?;
        for (input, meaning) in self.inputs {
            writeln!(out, "- **{input:?}**: {meaning}")?;
        }
        writeln!(out, "\nSteps:\n")?;
        let mut steps: Vec<S> = Vec::new();
        for cell in self.table.iter().copied().flatten() {
            if !steps.contains(&cell.step) {
                steps.push(cell.step);
            }
        }
        for step in steps {
            writeln!(out, "- **{step:?}**: {}", (self.step)(step))?;
        }
        Ok(())
    }

    fn name(&self, phase: Option<P>) -> String {
        phase.map_or(SETTLED.to_owned(), |phase| format!("{phase:?}"))
    }
}

fn call_phase(phase: CallPhase) -> &'static str {
    match phase {
        CallPhase::Queued => "its request waits in the outbox; nothing of it has left",
        CallPhase::Sent => "its request has left",
        CallPhase::Cancelling => "its cancel was sent, and its answer is awaited",
    }
}

fn call_input(input: CallInput) -> &'static str {
    match input {
        CallInput::Transmitted => "the transport took the request",
        CallInput::Cancel => "it is cancelled, and the answer is awaited",
        CallInput::CancelNow => {
            "it is cancelled, and nobody waits: a timer ran out, or the grace is zero"
        }
        CallInput::Forget => {
            "it is given up without telling the peer: the dialect has no cancel, the grace is over, \
             or the connection is lost"
        }
        CallInput::Result => "the peer answered with a result",
        CallInput::Error => "the peer answered with an error other than -32800",
        CallInput::CancelError => "the peer answered with error -32800",
        CallInput::Malformed => "the peer answered with something that is no response (B1)",
        CallInput::PeerEnds => "the peer ended it, where the dialect lets it",
    }
}

fn call_step(step: CallStep) -> &'static str {
    match step {
        CallStep::Nothing => "no more than the next phase says",
        CallStep::Withdraw => {
            "takes the request out of the outbox, and settles with the recorded cause (G4, B24)"
        }
        CallStep::SendCancel => "sends the cancel; never a second one (G4)",
        CallStep::SendCancelAndSettle => {
            "sends the cancel, and settles with the recorded cause (G5)"
        }
        CallStep::Settle => "settles with the recorded cause; a late answer is recognised (G12)",
        CallStep::Complete => "settles with what the peer answered (B23)",
        CallStep::CompleteCancelled => "settles as cancelled, as the peer confirmed",
        CallStep::Stray => "reports an answer to a request that never left (B31)",
    }
}

fn request_phase(phase: RequestPhase) -> &'static str {
    match phase {
        RequestPhase::Running => "the host owes an answer",
        RequestPhase::Cancelled => "it is marked cancelled; the host still owes an answer (B12)",
        RequestPhase::Answered => {
            "it is answered, and calls made on its behalf may still be in flight (G6)"
        }
    }
}

fn request_input(input: RequestInput) -> &'static str {
    match input {
        RequestInput::Cancel => "the peer, or our own side, cancels it",
        RequestInput::Respond => "the host answers, in a dialect that answers cancelled requests",
        RequestInput::RespondUnlessCancelled => {
            "the host answers, in a dialect that wants silence after a cancel (B11)"
        }
        RequestInput::End => "our side ends it without an answer, as the dialect lets it",
    }
}

fn request_step(step: RequestStep) -> &'static str {
    match step {
        RequestStep::Nothing => {
            "a second cancel, or a cancel after the answer, changes nothing (B10)"
        }
        RequestStep::MarkCancelled => {
            "sets the cancelled mark, and cancels the calls made on its behalf (G3, G6)"
        }
        RequestStep::SendResponse => "sends the answer",
        RequestStep::Withhold => "ends the request without an answer",
        RequestStep::Refuse => "refuses a second answer (G2)",
    }
}
