//! Renders `docs/state-machine.md` from the transition tables of the core and compares it with the
//! committed file: a changed behaviour shows up there as a changed cell. `BLESS=1` rewrites it.
//!
//! What a phase, an input or a step means is said once, where the core declares it; this takes it from
//! there.

mod committed;

use std::collections::BTreeMap;
use std::fmt::{Debug, Write};
use std::path::Path;

use protocol_core::machine::{
    CALL_TABLE, CANCEL_INPUTS, CallInput, CallPhase, CallStep, CancelForm, Consent, LIFE_TABLE,
    Life, LifeInput, LifeStep, Patience, REQUEST_TABLE, RequestInput, RequestPhase, RequestStep,
    Transition,
};

/// Where the tables are, with a comment on each of their words.
const SOURCE: &str = include_str!("../crates/protocol-core/src/machine/table.rs");

#[test]
fn the_page_shows_the_tables() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/state-machine.md");
    if let Err(difference) = committed::check(&path, &document()) {
        panic!("the tables and their page differ; BLESS=1 renders it anew\n{difference}");
    }
}

fn document() -> String {
    let words = Words::of(SOURCE);
    let calls = Section {
        title: "A call",
        about: CALL,
        phases: CallPhase::ALL,
        inputs: CallInput::ALL,
        steps: CallStep::ALL,
        table: CALL_TABLE.iter().map(|row| &row[..]).collect(),
        groups: CALL_GROUPS,
        end: Some("settled"),
        beside: None,
    };
    let requests = Section {
        title: "A request",
        about: REQUEST,
        phases: RequestPhase::ALL,
        inputs: RequestInput::ALL,
        steps: RequestStep::ALL,
        table: REQUEST_TABLE.iter().map(|row| &row[..]).collect(),
        groups: REQUEST_GROUPS,
        end: None,
        beside: Some("Answered --> [*] : its calls have settled"),
    };
    let life = Section {
        title: "The connection",
        about: LIFE,
        phases: Life::ALL,
        inputs: LifeInput::ALL,
        steps: LifeStep::ALL,
        table: LIFE_TABLE.iter().map(|row| &row[..]).collect(),
        groups: &[],
        end: None,
        beside: None,
    };
    let sections =
        [calls.render(&words), cancels(&words), requests.render(&words), life.render(&words)];
    format!("{HEAD}\n{}", sections.join("\n"))
}

const HEAD: &str = "\
# The state machine

Generated from `crates/protocol-core/src/machine/table.rs` by
`BLESS=1 cargo test -p rescind-tests --test state_machine`. Do not edit it by hand.

Everything that a call, a request or a connection can do is a cell of one of three tables. `Machine` keeps the
phase of each in its row. When something happens it looks up the cell of that phase and that input, carries out
the step, and goes to the next phase. It decides nothing else: timers, causes, parents and what the dialect says
only choose which input it is.

In a table there is a row for each input and a column for each phase. `Step → Next` says what is done and which
phase comes next. `Step` alone leaves the phase as it is, `→ Next` alone does nothing else, and a dot means that
nothing happens at all. A drawing shows every transition that leaves its phase, as `input / step`, and none that
stays. The guarantees (G) are listed in [ARCHITECTURE.md](ARCHITECTURE.md), the bugs (B) in
[testing.md](testing.md#the-bugs).
";

const CALL: &str = "\
A request that we sent. Its row is gone once it is settled, and it settles once (G1). Where cancels are requests of
their own, the cancel of a call has a number of its own; an answer to that number is an acknowledgement.";

const REQUEST: &str = "\
A request that the peer sent. It is answered once, or its answer is withheld where the dialect wants silence (G2).
An `Answered` request keeps its row until every call that was made on its behalf has settled, which is at once if
there is none (G6).";

const LIFE: &str = "\
The connection as a whole, and what it still takes.";

const CANCELS: &str = "\
What a cancel, or a timer that runs out, is to the table above. It depends on which kind of cancel the dialect has,
on whether this call may be cancelled on the wire, and on whether anybody waits for its answer afterwards.";

/// Inputs that are told apart by their circumstances only, under one name.
const CALL_GROUPS: &[(&str, &[CallInput])] = {
    use CallInput::*;
    &[
        (
            "any cancel",
            &[
                Cancel,
                CancelNow,
                CancelOperation,
                CancelOperationNow,
                CancelRefused,
                CancelRefusedNow,
            ],
        ),
        ("any cancel that does not wait", &[CancelNow, CancelOperationNow, CancelRefusedNow]),
        ("any answer", &[Result, Token, Error, CancelError, Malformed]),
        ("any other answer", &[Result, Token, Error, Malformed]),
        ("any other answer", &[Result, Error, Malformed]),
    ]
};

const REQUEST_GROUPS: &[(&str, &[RequestInput])] = {
    use RequestInput::*;
    &[
        ("any answer, End", &[Respond, RespondUnlessCancelled, RespondAsCancelled, End]),
        ("any answer", &[Respond, RespondUnlessCancelled, RespondAsCancelled]),
    ]
};

/// What each word of the tables means, as the core says it: by the name of the enum and of the variant.
struct Words(BTreeMap<(String, String), String>);

impl Words {
    /// Reads the enums that `axis!` declares.
    fn of(source: &str) -> Self {
        let mut words = BTreeMap::new();
        for axis in source.split("\naxis! {\n").skip(1) {
            let (axis, _) = axis.split_once("\n}\n").expect("each axis ends");
            let (mut name, mut comment) = (None, Vec::new());
            for line in axis.lines().map(str::trim) {
                if let Some(text) = line.strip_prefix("///") {
                    comment.push(text.trim());
                } else if let Some(enum_name) = line.strip_suffix(" {") {
                    name = Some(enum_name.to_owned());
                    comment.clear();
                } else if let (Some(variant), Some(name)) = (line.strip_suffix(','), &name) {
                    words.insert((name.clone(), variant.to_owned()), comment.join(" "));
                    comment.clear();
                }
            }
        }
        Self(words)
    }

    fn of_word<T: Debug>(&self, word: T) -> &str {
        let (path, variant) = (std::any::type_name::<T>(), format!("{word:?}"));
        let name = path.rsplit("::").next().unwrap_or(path);
        let meaning = self.0.get(&(name.to_owned(), variant.clone()));
        meaning.unwrap_or_else(|| panic!("{name}::{variant} has no comment"))
    }

    fn list<T: Copy + Debug>(&self, title: &str, all: &[T]) -> String {
        let item = |word: &T| format!("- **{word:?}**: {}\n", self.of_word(*word));
        format!("{title}:\n\n{}\n", all.iter().map(item).collect::<String>())
    }
}

/// One of the tables, and what its words mean.
struct Section<'a, P: 'static, I: 'static, S: 'static> {
    title: &'a str,
    about: &'a str,
    phases: &'static [P],
    inputs: &'static [I],
    steps: &'static [S],
    /// A row for each phase, a column for each input.
    table: Vec<&'a [Transition<P, S>]>,
    groups: &'a [(&'a str, &'a [I])],
    /// What it is to have no row any more.
    end: Option<&'a str>,
    /// What the drawing shows and no cell holds.
    beside: Option<&'a str>,
}

impl<P, I, S> Section<'_, P, I, S>
where
    P: Copy + Debug + PartialEq,
    I: Copy + Debug + PartialEq,
    S: Copy + Debug + PartialEq,
{
    fn render(&self, words: &Words) -> String {
        let mut out = format!("## {}\n\n{}\n\n", self.title, self.about);
        self.drawing_into(&mut out).expect("a String takes everything");
        self.table_into(&mut out).expect("a String takes everything");
        out += &words.list("Phases", self.phases);
        out += &words.list("Inputs", self.inputs);
        out += words.list("Steps", self.steps).trim_end();
        out + "\n"
    }

    fn table_into(&self, out: &mut String) -> std::fmt::Result {
        write!(out, "| |")?;
        for phase in self.phases {
            write!(out, " {phase:?} |")?;
        }
        writeln!(out, "\n|---|{}", "---|".repeat(self.phases.len()))?;
        for (column, input) in self.inputs.iter().enumerate() {
            write!(out, "| **{input:?}** |")?;
            for (phase, row) in self.phases.iter().zip(&self.table) {
                write!(out, " {} |", self.cell(*phase, row[column]))?;
            }
            writeln!(out)?;
        }
        writeln!(out)
    }

    fn cell(&self, phase: P, Transition { next, step }: Transition<P, S>) -> String {
        let (step, stays) = (name_of_step(step), next == Some(phase));
        match (step, stays) {
            (None, true) => "·".into(),
            (None, false) => format!("→ {}", self.name(next)),
            (Some(step), true) => step,
            (Some(step), false) => format!("{step} → {}", self.name(next)),
        }
    }

    fn drawing_into(&self, out: &mut String) -> std::fmt::Result {
        writeln!(out, "```mermaid\nstateDiagram-v2\n    [*] --> {:?}", self.phases[0])?;
        for (phase, row) in self.phases.iter().zip(&self.table) {
            let mut edges: Vec<(Transition<P, S>, Vec<I>)> = Vec::new();
            for (input, cell) in
                self.inputs.iter().zip(*row).filter(|(_, it)| it.next != Some(*phase))
            {
                match edges.iter_mut().find(|(known, _)| known == cell) {
                    Some((_, inputs)) => inputs.push(*input),
                    None => edges.push((*cell, vec![*input])),
                }
            }
            for (Transition { next, step }, inputs) in edges {
                let next = next.map_or("[*]".to_owned(), |next| format!("{next:?}"));
                let step = name_of_step(step).map(|step| format!(" / {step}")).unwrap_or_default();
                writeln!(out, "    {phase:?} --> {next} : {}{step}", self.in_few_words(inputs))?;
            }
        }
        if let Some(beside) = self.beside {
            writeln!(out, "    {beside}")?;
        }
        writeln!(out, "```\n")
    }

    /// The inputs of one edge; those that make up a group, as that.
    fn in_few_words(&self, mut inputs: Vec<I>) -> String {
        let mut words = Vec::new();
        for (name, group) in self.groups {
            if group.iter().all(|input| inputs.contains(input)) {
                inputs.retain(|input| !group.contains(input));
                words.push((*name).to_owned());
            }
        }
        words.extend(inputs.iter().map(|input| format!("{input:?}")));
        words.join(", ")
    }

    fn name(&self, phase: Option<P>) -> String {
        let end = || self.end.expect("only rows that go have an end").to_owned();
        phase.map_or_else(end, |phase| format!("{phase:?}"))
    }
}

/// The name of a step, if it does anything.
fn name_of_step<S: Debug>(step: S) -> Option<String> {
    Some(format!("{step:?}")).filter(|step| step != "Nothing")
}

/// What a cancel is to the table of calls.
fn cancels(words: &Words) -> String {
    let mut out = format!("## A cancel\n\n{CANCELS}\n\n| | |");
    let put = |out: &mut String, text: String| *out += &text;
    for patience in Patience::ALL {
        put(&mut out, format!(" {patience:?} |"));
    }
    put(&mut out, format!("\n|---|---|{}\n", "---|".repeat(Patience::ALL.len())));
    for (form, by_consent) in CancelForm::ALL.iter().zip(CANCEL_INPUTS) {
        for (consent, inputs) in Consent::ALL.iter().zip(by_consent) {
            put(&mut out, format!("| **{form:?}** | **{consent:?}** |"));
            inputs.iter().for_each(|input| put(&mut out, format!(" {input:?} |")));
            out.push('\n');
        }
    }
    out.push('\n');
    out += &words.list("Kinds of cancels", CancelForm::ALL);
    out += &words.list("Consent", Consent::ALL);
    out += words.list("Patience", Patience::ALL).trim_end();
    out + "\n"
}
