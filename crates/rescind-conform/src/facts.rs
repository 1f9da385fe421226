//! The facts about a server that its checks need, and the runs that find them out.

use std::mem;
use std::time::Duration;

use protocol_core::{CancelRule, Dialect, MessageOrder};
use serde_json::{Value, json};

use crate::check::Need;
use crate::document::Document;
use crate::family::{Family, NEWEST_MCP, Opening, Request, SESSION, name_in, put};
use crate::lateness::Stretch;
use crate::options::Options;
use crate::report::json::milliseconds;
use crate::session::{Session, Waited};
use crate::stop::{Stop, lacks};
use crate::target::{Target, Unreached};
use crate::tools;
use crate::wire::{Outcome, Wire};

/// The facts about a server.
#[derive(Clone, Debug)]
pub(crate) struct Facts {
    pub(crate) dialect: Dialect,
    pub(crate) opening: Vec<Opening>,
    /// A language server's document.
    pub(crate) document: Option<Document>,
    /// A request that it answers at once.
    pub(crate) quick: Request,
    /// A request that takes its time, or the reason why none is known.
    pub(crate) slow: Result<Slow, Stop>,
    /// The cancels of that which it ignores, as its protocol lets it.
    pub(crate) ignores: Ignored,
    pub(crate) reverse: Option<Request>,
    /// A request whose result tells how the work of another ended.
    pub(crate) witness: Option<Request>,
    /// The request that begins work that can be stopped, or the reason why none is known.
    pub(crate) work: Result<Request, Stop>,
    /// Whether it declares that its tools have tasks, and that these can be cancelled.
    pub(crate) stops_tasks: bool,
    /// Whether it is a process of its own.
    pub(crate) is_process: bool,
    /// Its name and version, as it says.
    pub(crate) name: String,
}

/// The cancels of slow requests that have no effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ignored {
    None,
    /// It ignores cancels of requests at work, and not of requests that wait for their turn.
    AtWork,
    All,
}

impl Ignored {
    /// Returns the line that tells users of it.
    pub(crate) const fn words(self) -> Option<&'static str> {
        match self {
            Self::None => None,
            Self::AtWork => Some(
                "the server ignores cancels of requests at work, as its protocol lets it: their effects are information",
            ),
            Self::All => Some(
                "the server ignores every cancel, as its protocol lets it: effects of cancels are information",
            ),
        }
    }
}

/// A request that takes its time.
#[derive(Clone, Debug, Default)]
pub(crate) struct Slow {
    pub(crate) request: Request,
    /// The time that it took, asked to take as long as the options say.
    pub(crate) natural: Duration,
    /// The same without the time by which the machine was late.
    pub(crate) undelayed: Duration,
    /// The milliseconds that it was asked to take then.
    pub(crate) asked_ms: u64,
    /// Whether it reports progress.
    pub(crate) has_progress: bool,
    /// Whether the server reads and answers others meanwhile.
    pub(crate) reads_on: bool,
    /// Whether the machine was too late to tell that it does not report progress or read on.
    pub(crate) was_late: bool,
}

impl Slow {
    /// Returns the time that it takes when it is asked for this many milliseconds, if it heeds that.
    ///
    /// That is at least what it is asked for. If it took more when it was measured, it may take a share more or a
    /// fixed time more, of which the lesser counts. An eighth is left to chance.
    pub(crate) fn lasts(&self, ms: u64) -> Duration {
        let asks = |ms| self.request.lasting(ms);
        let asked = |ms: u64| match () {
            () if asks(1) != asks(1000) => Some(Duration::from_millis(ms)),
            () if asks(1) != asks(1001) => Some(Duration::from_secs(ms.div_ceil(1000))),
            () => None,
        };
        let Some((time, measured)) = asked(ms).zip(asked(self.asked_ms.max(1))) else {
            return self.natural;
        };
        let took = self.undelayed * 7 / 8;
        let times = took.as_secs_f64() / measured.as_secs_f64();
        time.mul_f64(times.max(1.0)).min(time + took.saturating_sub(measured))
    }
    fn is_better_than(&self, other: &Self) -> bool {
        (self.has_progress, self.reads_on) > (other.has_progress, other.reads_on)
    }
}

/// The reason why nothing is known that takes a server its time.
const NO_SLOW: &str = "no request is known that takes its time (--slow METHOD PARAMS)";
/// The checks of a server without slow requests.
const ONLY_OF_SLOW: &str = "checks that need a slow request are not exercised";
/// The reason why no work is known.
const NO_WORK: &str = "no work is known that can be stopped (--slow METHOD PARAMS)";
/// The time that a server may take to say that it does not know the newest opening.
const FALLBACK: Duration = Duration::from_secs(10);
/// The characters of a server's name that are told.
const NAME: usize = 80;
/// The number of times that a request is made which takes as long as it takes.
const ROUNDS: usize = 8;
/// It takes too long if it did so often.
const TOO_LONG: usize = 3;
/// A document that takes less than this part of the time is lengthened,
const LEAST: u32 = 20;
/// by so many hundredths,
const LONGER: u128 = 400;
/// and so often it is shortened or lengthened.
const FITTINGS: usize = 3;
/// Then another request about it is chosen that takes at least this part of the time.
const SLOW: u32 = 4;
/// The number of times that a request is measured again on a machine that is late.
const LATE: u64 = 5;
/// The number of tools that are tried.
const TOOLS: usize = 6;

impl Facts {
    /// Finds out what a server speaks, what it answers at once, and what takes it time.
    pub(crate) fn find(target: &dyn Target, options: &Options) -> Result<Self, Unreached> {
        let mut facts = Self::opened(target, options)?;
        let mut session = facts.open(target, options.suite.patience)?;
        facts.is_process = session.child().is_some();
        facts.quick = facts.find_quick(&mut session)?;
        let candidates = match &options.slow {
            Some(slow) => [slow.clone()].into_iter().chain(slow.with_texts()).collect(),
            None => facts.candidates(&mut session, options),
        };
        drop(session);
        facts.try_all(target, candidates, options)?;
        facts.fit_document(target, options)?;
        if options.slow.is_none() {
            facts.try_others(target, options)?;
        }
        Ok(facts)
    }

    /// Tries other requests about a document if the costliest takes no time.
    fn try_others(&mut self, target: &dyn Target, options: &Options) -> Result<(), Unreached> {
        let most = Duration::from_millis(options.slow_ms);
        let takes =
            |facts: &Self, least| facts.slow.as_ref().is_ok_and(|slow| slow.undelayed >= least);
        let Some(document) = self.document.clone().filter(|_| !takes(self, most / LEAST)) else {
            return Ok(());
        };
        for document in document.with_others() {
            let request = document.quick();
            let slow = lacks(NO_SLOW);
            let mut facts = Self { document: Some(document), slow, ..self.clone() };
            facts.try_all(target, vec![request], options)?;
            if takes(&facts, most / SLOW) {
                *self = facts;
                return self.fit_document(target, options);
            }
        }
        Ok(())
    }

    /// A document that takes a server longer than a slow request should is shortened, and one that takes it no time
    /// lengthened.
    fn fit_document(&mut self, target: &dyn Target, options: &Options) -> Result<(), Unreached> {
        let most = Duration::from_millis(options.slow_ms);
        for _ in 0..FITTINGS {
            let (Some(document), Ok(slow)) = (&self.document, &self.slow) else { break };
            let hundredths = match slow.undelayed {
                time if time > most => most.as_millis() * 100 / time.as_millis().max(1),
                time if time < most / LEAST => LONGER,
                _ => break,
            };
            let fitted = document.scaled(usize::try_from(hundredths).unwrap_or(100));
            let (request, reads_on) = (slow.request.clone(), slow.reads_on);
            let measured = mem::replace(&mut self.slow, lacks(NO_SLOW));
            let last = (self.document.replace(fitted), measured);
            self.try_all(target, vec![request], options)?;
            match &mut self.slow {
                // It was seen once, and so it is known, whatever the length of the document.
                Ok(slow) => slow.reads_on |= reads_on,
                Err(_) => {
                    // It was too much for the server.
                    (self.document, self.slow) = last;
                    break;
                }
            }
        }
        Ok(())
    }

    /// Returns the facts of the same server whose document takes it so many times as long.
    pub(crate) fn longer(&self, times: u8) -> Self {
        let mut facts = self.clone();
        if let (Some(document), Ok(slow)) = (&mut facts.document, &mut facts.slow) {
            *document = document.scaled(usize::from(times) * 100);
            slow.asked_ms *= u64::from(times);
            let times = u32::from(times);
            (slow.natural, slow.undelayed) = (slow.natural * times, slow.undelayed * times);
        }
        facts
    }

    /// Tries requests that may take their time, and keeps the best.
    fn try_all(
        &mut self,
        target: &dyn Target,
        candidates: Vec<Request>,
        options: &Options,
    ) -> Result<(), Unreached> {
        for candidate in candidates.into_iter().take(TOOLS) {
            let mut session = self.open(target, options.suite.patience)?;
            // Without a list, the first request that takes its time and is read beside will do.
            let is_mcp = self.family().is_mcp();
            let is_enough = |slow: &Slow| slow.has_progress || slow.reads_on && !is_mcp;
            let was_late = |measured: &Result<Slow, Stop>| match measured {
                Ok(slow) => slow.was_late && !(slow.reads_on && is_enough(slow)),
                Err(stop) => matches!(stop, Stop::Missed(_)),
            };
            let mut measured = Err(Stop::too_late());
            for times in 1..=LATE + 1 {
                measured = self.measure(&mut session, &candidate, options.slow_ms * times);
                if !was_late(&measured) {
                    break;
                }
            }
            self.learn_reverse(&session, &candidate);
            match (measured, &self.slow) {
                (Ok(slow), Ok(best)) if !slow.is_better_than(best) => {}
                (Ok(slow), _) => self.slow = Ok(slow),
                (Err(stop @ Stop::Missed(_)), Err(_)) => self.slow = Err(stop),
                (Err(stop), Err(known)) if options.slow.is_some() && known.why() == NO_SLOW => {
                    self.slow =
                        lacks(format!("the request of --slow is of no use: {}", stop.why()));
                }
                (Err(_), _) => {}
            }
            if self.slow.as_ref().is_ok_and(is_enough) {
                break;
            }
        }
        Ok(())
    }

    /// Takes a turn for what makes an agent ask something, if it did in this session.
    pub(crate) fn learn_reverse(&mut self, session: &Session, turn: &Request) {
        let has_asked = session.asked_of_us(0).next().is_some();
        if has_asked && turn.is_in_session() && self.reverse.is_none() {
            self.reverse = Some(turn.clone());
        }
    }

    /// Returns the facts of the same server whose client shows the progress that it creates.
    pub(crate) fn for_work(&self) -> Self {
        let mut facts = self.clone();
        if let (Family::Lsp, Some(opening)) = (self.family(), facts.opening.first_mut()) {
            opening.message.params["capabilities"]["window"]["workDoneProgress"] = json!(true);
        }
        facts
    }

    /// Returns whether calls may become tasks in this revision.
    pub(crate) fn has_tasks(&self) -> bool {
        self.family() == Family::McpUntil2025 && !self.dialect.work.is_empty()
    }

    /// Opens, in an older revision of MCP if the newest is refused.
    fn opened(target: &dyn Target, options: &Options) -> Result<Self, Unreached> {
        let mut dialect = options.dialect.clone();
        if ["mcp", "mcp-http"].contains(&&*dialect.name) {
            let revision = |version| revision(&options.dialect, version);
            dialect = revision(NEWEST_MCP).unwrap_or(dialect);
            let patience = FALLBACK.min(options.suite.patience);
            if let Ok(facts) = Self::with(dialect, target, options, patience) {
                return Ok(facts);
            }
            dialect = revision("2025-11-25").unwrap_or(Dialect::MCP_2025_11_25);
        }
        Self::with(dialect, target, options, options.suite.patience)
    }

    fn with(
        dialect: Dialect,
        target: &dyn Target,
        options: &Options,
        patience: Duration,
    ) -> Result<Self, Unreached> {
        let family = Family::of(&dialect);
        let opening = options.open.clone().unwrap_or_else(|| family.opening(&dialect));
        let (reverse, witness) = (options.reverse.clone(), options.witness.clone());
        let mut facts = Self { opening, reverse, witness, ..Self::unknown(dialect) };
        let session = facts.open(target, patience)?;
        let first = session.all_answers().find_map(|(.., outcome)| match outcome {
            Outcome::Result(result) => Some(result.clone()),
            _ => None,
        });
        let first = first.unwrap_or_default();
        let version = first["protocolVersion"].as_str();
        let revision = version.and_then(|version| revision(&facts.dialect, version));
        if let (true, Some(settled)) = (family.is_mcp(), revision) {
            facts.dialect = settled;
        }
        if family == Family::Dap && first["supportsCancelRequest"] != true {
            facts.dialect.cancel = CancelRule::Local;
        }
        let tasks = &first["capabilities"]["tasks"];
        facts.stops_tasks =
            tasks["cancel"].is_object() && tasks["requests"]["tools"]["call"].is_object();
        let members = ["serverInfo", "agentInfo", "info", "app"];
        let name = name_in(&first, &members, "io.modelcontextprotocol/serverInfo");
        // Some put all of how they were built there.
        facts.name = name.chars().take(NAME).collect();
        if family == Family::Lsp && options.open.is_none() {
            facts.document = Document::for_server(&first, options.language.as_deref());
        }
        Ok(facts)
    }

    /// Creates the facts about a server that was not met yet.
    pub(crate) fn unknown(dialect: Dialect) -> Self {
        Self {
            dialect,
            opening: vec![],
            document: None,
            quick: Request::new("", json!({})),
            slow: lacks(NO_SLOW),
            ignores: Ignored::None,
            reverse: None,
            witness: None,
            work: lacks(NO_WORK),
            stops_tasks: false,
            is_process: false,
            name: String::new(),
        }
    }

    /// Returns what holds for many checks, because something is not known or cancels are ignored.
    pub(crate) fn lacks(&self) -> Option<String> {
        let has_cancels = self.dialect.cancel != CancelRule::Local;
        let needs_slow = has_cancels && self.family() != Family::Erlmcp;
        match &self.slow {
            Err(stop) if needs_slow => Some(format!("{}: {ONLY_OF_SLOW}", stop.why())),
            _ => self.ignores.words().map(String::from),
        }
    }

    pub(crate) fn family(&self) -> Family {
        Family::of(&self.dialect)
    }

    /// Returns whether the transport has what a check needs. To a server without it the check does not apply.
    pub(crate) fn applies(&self, need: Need) -> bool {
        let is_http = self.dialect.order == MessageOrder::MayChange;
        match need {
            Need::Process => self.is_process,
            Need::OneStream => !is_http,
            Need::Http => is_http,
            Need::Message => self.dialect.cancel != CancelRule::ClosedStream,
            _ => true,
        }
    }

    /// Starts a server and opens the session.
    pub(crate) fn open(
        &self,
        target: &dyn Target,
        patience: Duration,
    ) -> Result<Session, Unreached> {
        let mut session = self.unopened(target, patience)?;
        self.perform_opening(&mut session)?;
        Ok(session)
    }

    /// Starts a server and opens nothing.
    pub(crate) fn unopened(
        &self,
        target: &dyn Target,
        patience: Duration,
    ) -> Result<Session, Unreached> {
        let link = target.start().map_err(|error| Unreached::Start(error.to_string()))?;
        Ok(Session::new(link, Wire::new(self.dialect.clone()), patience, None))
    }

    fn perform_opening(&self, session: &mut Session) -> Result<(), Unreached> {
        for step in &self.opening {
            if !step.is_request {
                session.notify(&step.message);
                continue;
            }
            let (id, waited) = session.ask("open", &step.message);
            let how = match waited {
                Waited::Done if session.result_of(&id).is_some() => continue,
                Waited::Done => {
                    format!("refused: {}", session.said(&id).unwrap_or_default())
                }
                Waited::Ended => {
                    format!("not answered: the server ended{}", session.how_it_ended())
                }
                Waited::TimedOut | Waited::Talking | Waited::Late => "not answered".to_owned(),
            };
            let why = format!("{} is {how}", step.message.method);
            return Err(Unreached::Opening { why, stderr: session.stderr() });
        }
        if let Some(document) = &self.document {
            let message = session.wire.notification("textDocument/didOpen", &document.opened());
            session.send(&[message], false);
        }
        Ok(())
    }

    /// A request that is answered, whatever the answer.
    fn find_quick(&self, session: &mut Session) -> Result<Request, Unreached> {
        let own = self.document.as_ref().map(Document::quick);
        for request in self.family().quick().into_iter().chain(own) {
            if session.ask("quick", &request).1 == Waited::Done {
                return Ok(request);
            }
        }
        let why = match session.has_ended() {
            true => format!("no request is answered: the server ended{}", session.how_it_ended()),
            false => format!("no request is answered within {}", session.waited()),
        };
        Err(Unreached::Opening { why, stderr: session.stderr() })
    }

    /// Requests that may take their time.
    fn candidates(&self, session: &mut Session, options: &Options) -> Vec<Request> {
        if let Some(document) = &self.document {
            return vec![document.quick()];
        }
        if !self.family().is_mcp() {
            return self.family().slow();
        }
        tools::slow_ones(&tools::listed(session), options.allow_tools)
    }

    /// Lets a server do a request a few times, and returns what was seen, or why it does not take long enough.
    ///
    /// The first does not count: it may be long because the server starts then what it works with. Of the others the
    /// shortest is how long it takes, and one that lets others pass is enough.
    fn measure(&self, session: &mut Session, request: &Request, ms: u64) -> Result<Slow, Stop> {
        self.measure_once(session, request, ms)?;
        let most = Duration::from_millis(ms);
        let mut best = self.measure_once(session, request, ms)?;
        let mut on_time = usize::from(!best.was_late);
        for round in 1..self.rounds() {
            // Work that takes too long, and not because the machine was busy for a moment, will be shortened. It is
            // measured then.
            let is_certain = if best.undelayed > most { round >= TOO_LONG } else { best.reads_on };
            if is_certain {
                break;
            }
            let more = self.measure_once(session, request, ms)?;
            best.natural = best.natural.min(more.natural);
            best.undelayed = best.undelayed.min(more.undelayed);
            best.has_progress &= more.has_progress;
            best.reads_on |= more.reads_on;
            on_time += usize::from(!more.was_late);
            // One that was on time may show nothing by chance.
            best.was_late = on_time < TOO_LONG.min(round + 1);
        }
        Ok(best)
    }

    /// Returns the number of attempts to cancel a request in time: once, where it can be asked to take long.
    pub(crate) fn rounds(&self) -> usize {
        if self.document.is_some() { ROUNDS } else { 1 }
    }

    /// Lets a server do a request, and another meanwhile.
    pub(crate) fn measure_once(
        &self,
        session: &mut Session,
        request: &Request,
        ms: u64,
    ) -> Result<Slow, Stop> {
        session.measured += 1;
        let round = session.measured;
        let slow = session.id("slow");
        let quick = session.id("meanwhile");
        let progress = format!("progress-{}", slow.trim_matches('"'));
        let mut messages = Vec::new();
        messages.extend(self.change(session, 1 + round));
        let mut params = request.lasting(ms);
        if request.is_in_session() {
            let opened = session.open_session()?;
            params = put(&params, &[(SESSION, json!(opened))]);
        }
        messages.push(session.wire.request(&slow, &request.method, &params, &progress));
        // In one write: whether others pass is up to the server, not to how soon we write again.
        messages.push(session.wire.request(&quick, &self.quick.method, &self.quick.params, ""));
        let begun = Stretch::begin();
        session.send(&messages, false);
        let both = |session: &Session| session.is_answered(&slow) && session.is_answered(&quick);
        let more = Duration::from_millis(ms);
        session.patience += more;
        let waited = session.wait(both);
        session.patience -= more;
        let natural = begun.lasted();
        let undelayed = natural.saturating_sub(begun.lateness());
        let (at, outcome) = match session.answers_to(&slow).next() {
            Some(answered) => answered,
            None if waited == Waited::Late => return Err(Stop::too_late()),
            None if session.has_ended() => {
                return lacks(format!("the server ended{}", session.how_it_ended()));
            }
            None => return lacks(format!("{} passed without an answer to it", session.waited())),
        };
        if outcome.is_failure() {
            let said = session.said(&slow).unwrap_or_default();
            return lacks(format!("it is answered with {said}"));
        }
        let has_progress = session.reports_of(&json!(progress)).next().is_some();
        let meanwhile = session.answered_at(&quick);
        let reads_on = meanwhile.is_some_and(|meanwhile| meanwhile < at);
        let least = Duration::from_millis(ms) / 2;
        // On a machine that is late, it is slow by comparison with what was asked after it.
        let alone = match meanwhile {
            Some(meanwhile) if reads_on => session.between(meanwhile, at),
            _ => undelayed,
        };
        if self.document.is_none() && alone < least {
            return match natural < least {
                true => lacks(format!("it is answered after {} ms", natural.as_millis())),
                false => Err(Stop::too_late()),
            };
        }
        // A machine that was late by more than this request took may have read the other only after it.
        let was_late = begun.lateness() > least.min(undelayed);
        let request = request.clone();
        Ok(Slow { request, natural, undelayed, asked_ms: ms, has_progress, reads_on, was_late })
    }

    /// Returns the message that makes a language server look at its document anew.
    pub(crate) fn change(&self, session: &Session, version: u64) -> Option<String> {
        let document = self.document.as_ref()?;
        Some(session.wire.notification("textDocument/didChange", &document.changed(version)))
    }

    /// In one line, for reports.
    pub(crate) fn describe(&self) -> Value {
        let slow = self.slow.as_ref().ok().map(|slow| {
            json!({
                "method": slow.request.method,
                "params": slow.request.params,
                "natural_ms": milliseconds(slow.natural),
                "progress": slow.has_progress,
                "reads_on": slow.reads_on,
            })
        });
        json!({ "server": self.name, "dialect": self.dialect.name, "quick": self.quick.method, "slow": slow })
    }
}

/// Returns the dialect of a revision of MCP on the transport of another.
fn revision(of: &Dialect, version: &str) -> Option<Dialect> {
    let transport = if of.name.ends_with("-http") { "-http" } else { "" };
    Dialect::named(&format!("mcp-{version}{transport}"))
}
