//! Renders `docs/state-machine.md` from the transitions of the core, and compares it with the committed
//! file: a changed behaviour shows up there as a changed cell. `BLESS=1` rewrites it.
//!
//! The transitions are no part of the core's public face, so their file is compiled in here. The meaning
//! of a phase, an input or a step is written once, where it is declared there. It is read from there.

mod committed;
#[path = "../crates/protocol-core/src/machine/table.rs"]
#[allow(dead_code, unreachable_pub, reason = "the core uses more of it")]
mod table;

use std::fmt::{self, Debug, Write};
use std::path::Path;
use std::time::Duration;

use table::{
    CallInput, CallPhase, CallStep, Life, LifeInput, LifeStep, RequestInput, RequestPhase,
    RequestStep, Transition,
};

/// The file of the transitions, with a comment on each of their words.
const SOURCE: &str = include_str!("../crates/protocol-core/src/machine/table.rs");

#[test]
fn the_page_shows_the_tables() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/state-machine.md");
    if let Err(difference) = committed::check(&path, &document()) {
        panic!("the tables and their page differ; BLESS=1 renders it anew\n{difference}");
    }
}

fn document() -> String {
    let calls = Section {
        title: "A call",
        about: CALL,
        phases: words("CallPhase", CallPhase::ALL),
        inputs: words("CallInput", CallInput::ALL),
        steps: meanings("CallStep"),
        table: table(CallPhase::ALL, CallInput::ALL, CallPhase::on),
        impossible: CallStep::Impossible,
    };
    let requests = Section {
        title: "A request",
        about: REQUEST,
        phases: words("RequestPhase", RequestPhase::ALL),
        inputs: words("RequestInput", RequestInput::ALL),
        steps: meanings("RequestStep"),
        table: table(RequestPhase::ALL, RequestInput::ALL, RequestPhase::on),
        impossible: RequestStep::Impossible,
    };
    let life = Section {
        title: "The connection",
        about: LIFE,
        phases: words("Life", Life::ALL),
        inputs: words("LifeInput", LifeInput::ALL),
        steps: meanings("LifeStep"),
        table: table(Life::ALL, LifeInput::ALL, Life::on),
        impossible: LifeStep::Impossible,
    };
    let sections = [calls.render(), requests.render(), life.render()].map(|it| it.expect(TAKES));
    format!("{HEAD}\n{}\n{GRACE}\n{}", sections.join("\n"), graces())
}

const TAKES: &str = "a String takes everything";

const HEAD: &str = "\
# The state machine

Three tables hold every transition of a call, of a request and of the connection. This page shows them. It is generated from
[table.rs](../crates/protocol-core/src/machine/table.rs), where a comment gives the reason of each transition. After a change of that file, run
`BLESS=1 cargo test -p rescind-tests --test state_machine`. The guarantees (G) are listed in [ARCHITECTURE.md](ARCHITECTURE.md#guarantees), the bugs (B) in
[testing.md](testing.md#the-bugs).

`Machine` keeps one phase for each call, for each request and for the connection. An **input** is something that happens: a command of the host, a message of
the peer, or a timer. The machine looks up what the input does in the current **phase**, carries out the **step**, and enters the next phase. Timers, causes,
parents and the rules of the dialect only select the input.

In a table each row is an input and each column a phase:

- `Step → Next` carries out the step and enters the next phase. `Step` alone keeps the phase, and `→ Next` alone does nothing else.
- A dot (·) does nothing and keeps the phase.
- A dash (–) marks a pair that can't occur: the input never comes in that phase. The comment in the file gives the reason.
";

const CALL: &str = "\
A call is a request that we sent. It begins as `Queued`. It settles exactly once, and its row is gone then (G1).

- Where cancels are requests, the cancel of a call has a number of its own. A response to that number is an acknowledgement.
- A call whose timer runs out gets two inputs at once: its cancellation, and then `GiveUp`. So does a cancelled call whose grace is zero.";

const REQUEST: &str = "\
A request is one that the peer sent, and begins as `Running`. It gets one response, or none where the dialect wants silence (G2). A request in the phase
`Responded` keeps its row until every call that was made on its behalf has settled (G6). If there is none, the row is gone at once.";

const LIFE: &str = "\
The phase of the connection decides which calls and requests are still accepted. It begins as `Opening` in dialects that have a session, else as `Open`.";

const GRACE: &str = "\
## Grace

A cancelled call waits for its response during its grace, and then gets the input `GiveUp` (G12). The grace is that of the call, or else that of its dialect.
It may have no limit. A call that nobody awaits, because it was dropped or a shutdown cancelled it, waits at most for `Config::abandoned_grace`.
";

/// Renders the rule of grace for each kind of call.
fn graces() -> String {
    let (short, longest, long) =
        (Duration::from_secs(1), Duration::from_secs(2), Duration::from_secs(3));
    let name = |grace: Option<Duration>| match grace {
        None => "no limit",
        Some(grace) if grace == longest => "`abandoned_grace`",
        Some(_) => "its grace",
    };
    let rows = [
        ("without a limit", None),
        ("shorter than `abandoned_grace`", Some(short)),
        ("longer than `abandoned_grace`", Some(long)),
    ];
    let rows = rows.map(|(chosen, grace)| {
        let [awaited, unawaited] = [true, false].map(|it| name(table::grace(grace, longest, it)));
        format!("| {chosen} | {awaited} | {unawaited} |\n")
    });
    let head = "| its grace | somebody awaits it | nobody awaits it |\n|---|---|---|\n";
    format!("{head}{}", rows.concat())
}

/// Looks up every pair of a phase and an input: a row for each phase.
fn table<P: Copy, I: Copy, N: Into<Option<P>>, S>(
    phases: &[P],
    inputs: &[I],
    on: impl Fn(P, I) -> Transition<N, S>,
) -> Vec<Vec<Cell<P, S>>> {
    let look_up = |phase: P, input: I| {
        let Transition { next, step } = on(phase, input);
        Transition { next: next.into(), step }
    };
    let row = |&phase: &P| inputs.iter().map(|&input| look_up(phase, input)).collect();
    phases.iter().map(row).collect()
}

/// Reads the meanings of an enum of the tables, which are those of all its values.
fn words<T: Debug>(of: &str, all: &[T]) -> Words {
    let words = meanings(of);
    let names: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
    let all: Vec<String> = all.iter().map(|value| format!("{value:?}")).collect();
    assert_eq!(names, all, "{of}::ALL lists its values in their order");
    words
}

/// Words in their order, each with its meaning.
type Words = Vec<(&'static str, String)>;

/// Reads the values of an enum of the tables, with the comment on each.
fn meanings(of: &str) -> Words {
    let (_, after) = SOURCE.split_once(&format!("enum {of} {{\n")).expect("it is declared there");
    let (body, _) = after.split_once("\n}").expect("each enum ends");
    let (mut words, mut comment) = (Vec::new(), Vec::new());
    for line in body.lines().map(str::trim) {
        match (line.strip_prefix("///"), line.strip_suffix(',')) {
            (Some(text), _) => comment.push(text.trim()),
            (None, Some(word)) => {
                assert!(!comment.is_empty(), "{of}::{word} has no comment");
                words.push((word, comment.join(" ")));
                comment.clear();
            }
            (None, None) => panic!("neither a comment nor a word: {line}"),
        }
    }
    words
}

fn list(title: &str, words: &Words) -> String {
    let is_shown = |word: &str| !["Nothing", "Impossible"].contains(&word);
    let words = words.iter().filter(|(word, _)| is_shown(word));
    let items = words.map(|(word, meaning)| format!("- **{word}**: {meaning}\n"));
    format!("{title}:\n\n{}", items.collect::<String>())
}

/// A transition as it is shown. A settled call has no phase.
type Cell<P, S> = Transition<Option<P>, S>;

/// One of the tables, and the meanings of its words.
struct Section<P, S> {
    title: &'static str,
    about: &'static str,
    phases: Words,
    inputs: Words,
    steps: Words,
    /// The transitions: a row for each phase, a column for each input.
    table: Vec<Vec<Cell<P, S>>>,
    /// The step of the pairs that can't occur.
    impossible: S,
}

impl<P: Copy + Debug + PartialEq, S: Copy + Debug + PartialEq> Section<P, S> {
    fn render(&self) -> Result<String, fmt::Error> {
        let mut out = format!("## {}\n\n{}\n\n", self.title, self.about);
        self.tabulate(&mut out)?;
        let lists = [("Phases", &self.phases), ("Inputs", &self.inputs), ("Steps", &self.steps)];
        Ok(out + &lists.map(|(title, words)| list(title, words)).join("\n"))
    }

    fn tabulate(&self, out: &mut String) -> fmt::Result {
        write!(out, "| |")?;
        for (phase, _) in &self.phases {
            write!(out, " {phase} |")?;
        }
        writeln!(out, "\n|---|{}", "---|".repeat(self.phases.len()))?;
        for (column, (input, _)) in self.inputs.iter().enumerate() {
            write!(out, "| **{input}** |")?;
            for ((phase, _), row) in self.phases.iter().zip(&self.table) {
                write!(out, " {} |", self.cell(phase, row[column]))?;
            }
            writeln!(out)?;
        }
        writeln!(out)
    }

    fn cell(&self, phase: &str, Transition { next, step }: Cell<P, S>) -> String {
        let next = next.map_or("settled".to_owned(), |next| format!("{next:?}"));
        if step == self.impossible {
            assert_eq!(next, phase, "nothing happens where nothing can");
            return "–".to_owned();
        }
        match (name_of_step(step), next == phase) {
            (None, true) => "·".to_owned(),
            (None, false) => format!("→ {next}"),
            (Some(step), true) => step,
            (Some(step), false) => format!("{step} → {next}"),
        }
    }
}

/// Returns the name of a step, if it does anything.
fn name_of_step<S: Debug>(step: S) -> Option<String> {
    Some(format!("{step:?}")).filter(|step| step != "Nothing")
}
