//! A check is data that one interpreter plays and one judge reads.

use crate::family::Family;
use crate::worded::worded;

worded! {
    /// The strength of a clause.
    pub enum Level {
        /// The protocol demands it: a server that fails it breaks the protocol.
        Must = "MUST",
        /// The protocol demands it of who declares it.
        Capability = "capability",
        /// The protocol recommends it, or users need it.
        Should = "SHOULD",
        /// It is told, and judged by nobody.
        Information = "information",
    }
}

/// Something that some protocols ask for, in our words.
#[derive(Clone, Copy, Debug)]
pub struct Clause {
    /// The protocols that ask for it.
    pub families: &'static [Family],
    /// The strength with which they ask.
    pub level: Level,
    /// The demand, in our words.
    pub text: &'static str,
    /// The place where that stands.
    pub source: &'static str,
    /// Whether it only informs about a server that ignores cancels, where the protocol allows that.
    pub if_heeded: bool,
}

impl Clause {
    /// Returns the same for servers that heed cancels.
    pub(crate) const fn if_heeded(self) -> Self {
        Self { if_heeded: true, ..self }
    }
}

/// A page, and the protocols that it is about.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Source {
    families: &'static [Family],
    page: &'static str,
}

impl Source {
    pub(crate) const fn new(families: &'static [Family], page: &'static str) -> Self {
        Self { families, page }
    }

    /// Returns the same page for these protocols.
    pub(crate) const fn of(self, families: &'static [Family]) -> Self {
        Self { families, ..self }
    }

    pub(crate) const fn must(self, text: &'static str) -> Clause {
        self.clause(Level::Must, text)
    }

    pub(crate) const fn capability(self, text: &'static str) -> Clause {
        self.clause(Level::Capability, text)
    }

    pub(crate) const fn should(self, text: &'static str) -> Clause {
        self.clause(Level::Should, text)
    }

    pub(crate) const fn information(self, text: &'static str) -> Clause {
        self.clause(Level::Information, text)
    }

    const fn clause(self, level: Level, text: &'static str) -> Clause {
        Clause { families: self.families, level, text, source: self.page, if_heeded: false }
    }
}

/// One check: what is done, what has to come, and who says so.
///
/// The steps of checks of servers and clients are data. A conversation with a relay is one step, which is a function.
#[derive(Clone, Copy, Debug)]
pub struct Row<N: 'static, S: 'static, R: 'static> {
    /// Names it, for good.
    pub id: &'static str,
    /// The statement that holds if it passes.
    pub title: &'static str,
    /// The protocols that ask for that; to others the check does not apply.
    pub clauses: &'static [Clause],
    /// The things that it can't be done without.
    pub needs: &'static [N],
    /// The steps, in order.
    pub steps: &'static [S],
    /// The rules, all of which are judged.
    pub rules: &'static [R],
    /// The event that makes sure that the subject had its chance, or that something did happen.
    pub witness: &'static str,
}

impl<N, S, R> Row<N, S, R> {
    /// A check of nothing, which others complete.
    pub(crate) const BASE: Self =
        Self { id: "", title: "", clauses: &[], needs: &[], steps: &[], rules: &[], witness: "" };

    /// The clause that a protocol has on it.
    #[must_use]
    pub fn clause(&self, family: Family) -> Option<&'static Clause> {
        self.clauses.iter().find(|clause| clause.families.contains(&family))
    }

    /// Returns the same check under a name of its own.
    pub(crate) const fn named(self, id: &'static str, title: &'static str) -> Self {
        Self { id, title, ..self }
    }

    pub(crate) const fn clauses(self, clauses: &'static [Clause]) -> Self {
        Self { clauses, ..self }
    }

    pub(crate) const fn needs(self, needs: &'static [N]) -> Self {
        Self { needs, ..self }
    }

    pub(crate) const fn steps(self, steps: &'static [S]) -> Self {
        Self { steps, ..self }
    }

    pub(crate) const fn rules(self, rules: &'static [R]) -> Self {
        Self { rules, ..self }
    }

    pub(crate) const fn witness(self, witness: &'static str) -> Self {
        Self { witness, ..self }
    }
}

/// A thing that a check can't be done without.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Need {
    /// A request that takes its time, and more than one read.
    Slow,
    /// That it reports progress.
    Progress,
    /// That the server reads other requests while it is at work.
    ReadsOn,
    /// A request that makes the server ask something of us.
    Reverse,
    /// Work with a name that can be stopped by it, and that is seen to run before it ends.
    Work,
    /// A process, which can end and leave others behind.
    Process,
    /// One stream, which carries everything in order and ends. Over HTTP there is none.
    OneStream,
    /// A cancel that is a message. Where it is the end of the response stream, nothing can come there after it.
    Message,
    /// That each request has a response stream of its own, which may be lost.
    Http,
    /// A request whose result tells how the work of another ended.
    Witness,
    /// A client that cancels the held request, by itself or when it is triggered.
    Cancels,
    /// A client that answers what it is asked while it waits for us.
    Answers,
    /// A request of ours that takes a client its time.
    Ask,
    /// The same where a request that is done at once proves nothing: the protocol wants silence.
    AskIfSilent,
    /// A client that has declared that its own work can be cancelled, where the protocol wants that.
    Declared,
}

/// The name of a request in a check.
pub type Name = char;

/// A response of ours.
#[derive(Clone, Copy, Debug)]
pub enum Reply {
    /// The held request, with its result.
    Result,
    /// The held request, with an error.
    Error(i64),
    /// The response that the protocol wants to a cancelled request.
    Cancelled,
    /// Not the held request, but the id that looks like its own and has the other type.
    OtherType,
    /// An id that the client never used.
    Unknown(&'static str),
    /// An error without an id.
    NoId,
}

worded! {
    /// The end of the work of a request, as the witness tells.
    pub enum WorkEnd {
        /// It went on to its end.
        Finished = "went on to its end",
        /// It was stopped.
        Cancelled = "was cancelled",
    }
}

/// The id of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Id {
    /// Any that was not used yet; the seed chooses where they begin.
    Fresh,
    /// The id that is this JSON token.
    Token(&'static str),
}
