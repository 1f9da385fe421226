//! Random schedules over client ⇄ relay ⇄ … ⇄ relay ⇄ server, one to eight relays deep.

use crate::bench::DIALECTS;
use crate::chain::{Chain, Ending, Random};

const SCHEDULES: u64 = 1_000;

/// Runs a thousand schedules, of all depths.
fn schedules(check: impl Fn(u64, &mut Chain, &mut Random)) {
    for seed in 1..=SCHEDULES {
        let mut random = Random::new(seed);
        let depth = 1 + (seed as usize % 8);
        let dialects = (0..=depth).map(|_| random.pick(&DIALECTS)).collect();
        let mut chain = Chain::new(dialects, &mut random);
        for _ in 0..40 + 30 * depth {
            chain.step(&mut random);
        }
        check(seed, &mut chain, &mut random);
    }
}

#[test]
fn g06_b25_b26_every_request_is_answered_once_and_every_cancel_arrives_once() {
    schedules(|seed, chain, _| {
        chain.deliver_everything();
        chain.assert_cancels_arrived(seed);
        chain.answer_everything();
        chain.deliver_everything();
        chain.assert_all_settled(seed);
        assert_eq!(chain.in_flight(), 0, "schedule {seed}");
        chain.hang_up(0);
        chain.deliver_everything();
        assert!(chain.is_over(), "schedule {seed}");
    });
}

#[test]
fn g07_a_client_or_server_that_hangs_up_leaves_nothing_behind() {
    schedules(|seed, chain, random| {
        let ending = random.pick(&[Ending::AnswersAll, Ending::AnswersNothing]);
        chain.hang_up(random.below(2));
        chain.deliver_everything();
        match ending {
            Ending::AnswersAll => chain.answer_everything(),
            Ending::AnswersNothing => chain.let_every_grace_pass(),
        }
        chain.deliver_everything();
        chain.assert_all_settled(seed);
        assert_eq!(chain.relayed(), 0, "schedule {seed}");
        assert!(chain.is_over(), "schedule {seed}");
    });
}

#[test]
fn g10_the_same_schedule_writes_the_same_bytes() {
    let run = |seed| {
        let mut random = Random::new(seed);
        let dialects = (0..4).map(|_| random.pick(&DIALECTS)).collect();
        let mut chain = Chain::new(dialects, &mut random);
        for _ in 0..400 {
            chain.step(&mut random);
        }
        chain.written()
    };
    for seed in 1..=50 {
        let written = run(seed);
        assert!(!written.is_empty());
        assert_eq!(written, run(seed));
    }
}
