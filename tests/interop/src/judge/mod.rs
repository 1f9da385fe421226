//! The judge of relays: a client and a server at once, with the relay under test in between.
//!
//! Each scenario runs against a relay process of its own, once with the client as the caller and
//! once with the server. What both sides sent and saw is one log; the rules are checked on that, so
//! that a rule holds in every scenario and not only in the one that was written for it.

mod bench;
mod message;
mod play;
mod rules;
mod scenarios;
mod silent;

use std::fmt;
use std::time::Duration;

pub use bench::{Side, tunnel};
pub use message::{Cancelled, Cancellers, Framing, Protocol};
pub use rules::Rule;
pub use scenarios::{SCENARIOS, Scenario};

use bench::Bench;
use play::Play;
use rules::Checks;

/// What is judged, and how.
#[derive(Clone, Debug)]
pub struct Trial {
    /// What the relay speaks with its client.
    pub near: Protocol,
    /// What it speaks with its server.
    pub far: Protocol,
    /// The relay's command; the far end's is appended to it.
    pub relay: Vec<String>,
    /// The judge's own program, which is the far end.
    pub judge: String,
    /// How long to wait for a message before it counts as lost.
    pub patience: Duration,
}

/// What the judge found.
#[derive(Clone, Debug, Default)]
pub struct Verdict {
    rules: Vec<(Rule, usize)>,
    /// Each breach, in the order of the scenarios.
    pub findings: Vec<Finding>,
}

/// One breach of a rule.
#[derive(Clone, Debug)]
pub struct Finding {
    /// Which.
    pub rule: Rule,
    /// In which scenario.
    pub scenario: &'static str,
    /// Who called.
    pub caller: Side,
    /// What happened.
    pub what: String,
}

impl Trial {
    /// Runs every scenario in both directions.
    ///
    /// # Panics
    ///
    /// If the relay does not start.
    #[must_use]
    pub fn run(&self) -> Verdict {
        let mut verdict = Verdict::default();
        let mut checks = Checks::default();
        for scenario in SCENARIOS {
            for (caller, protocol) in [(Side::Near, self.near), (Side::Far, self.far)] {
                let is_server = caller == Side::Far;
                if !scenario.applies(protocol)
                    || is_server && protocol.cancellers == Cancellers::Client
                {
                    continue;
                }
                let broken = self.play(scenario, caller, &mut checks);
                verdict.findings.extend(broken.into_iter().map(|(rule, what)| Finding {
                    rule,
                    scenario: scenario.name,
                    caller,
                    what,
                }));
            }
        }
        verdict.rules = Rule::ALL.map(|rule| (rule, checks.made(rule))).into();
        verdict
    }

    fn play(&self, scenario: &Scenario, caller: Side, checks: &mut Checks) -> Vec<(Rule, String)> {
        let protocols = [self.near, self.far];
        let bench = Bench::start(protocols, &self.relay, &self.judge, self.patience);
        let mut bench = bench.expect("the relay starts");
        let mut play = Play::new(&mut bench, caller);
        // Where it stopped short, the rules say what was missing.
        let played = (scenario.run)(&mut play).and_then(|()| play.barrier());
        play.finish();
        rules::check(&bench.log, protocols, checks);
        let mut broken = checks.take_broken();
        if played.is_none() && broken.is_empty() {
            broken.push((Rule::ForwardedOnce, "the scenario came to a halt".into()));
        }
        broken
    }
}

impl Verdict {
    /// Whether no rule was broken.
    #[must_use]
    pub fn passed(&self) -> bool {
        self.findings.is_empty()
    }

    /// The rules that were broken.
    #[must_use]
    pub fn broken(&self) -> Vec<Rule> {
        let mut broken: Vec<Rule> = self.findings.iter().map(|finding| finding.rule).collect();
        broken.sort_unstable();
        broken.dedup();
        broken
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for &(rule, made) in &self.rules {
            let findings = || self.findings.iter().filter(|finding| finding.rule == rule);
            let verdict = match (findings().count(), made) {
                (0, 0) => "not tried".into(),
                (0, _) => "holds".into(),
                (count, _) => format!("BROKEN {count} times"),
            };
            writeln!(f, "{verdict:>16} in {made:>5} checks: {rule}")?;
            for Finding { scenario, caller, what, .. } in findings().take(3) {
                let caller = if *caller == Side::Near { "client" } else { "server" };
                writeln!(f, "{:>19}{scenario}, called by the {caller}: {what}", "")?;
            }
        }
        Ok(())
    }
}
