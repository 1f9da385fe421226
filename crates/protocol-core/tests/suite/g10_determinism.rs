//! G10, G11: any order of method calls is legal, the same inputs give the same outputs, and how
//! bytes were split changes nothing. Two connected hosts do random things, and somebody on the line
//! writes whatever he likes.

use crate::support::world::{self, Random, limited};
use protocol_core::{Config, Dialect, Framing, ResponseRule};

fn presets(random: &mut Random) -> [Config; 2] {
    // Bytes can be split anywhere only where the dialect frames them.
    let framed: Vec<_> =
        Dialect::PRESETS.iter().filter(|dialect| dialect.framing != Framing::Whole).collect();
    let mut config = Config::client(random.pick(&framed).expect("there are some").clone());
    config.dialect.response =
        random.pick(&[ResponseRule::Required, ResponseRule::Silent]).expect("two");
    config.close_over_limit = random.below(4) == 0;
    world::both_roles(limited(config))
}

#[test]
fn g10_any_order_of_calls_is_legal_and_the_same_inputs_give_the_same_outputs() {
    for seed in 1..=400 {
        world::assert_determined(seed, presets);
    }
}

#[test]
fn the_random_worlds_meet_everything() {
    let all = [
        "settled",
        "result",
        "malformed",
        "timed_out deadline",
        "timed_out idle_timeout",
        "timed_out hard_cap",
        "cancelled caller",
        "cancelled dropped",
        "cancelled parent",
        "connection_lost peer_gone",
        "connection_lost shutdown",
        "connection_lost internal",
        "tree_settled",
        "ready",
        "violation late_response",
        "violation duplicate_response",
        "violation unknown_response",
        "violation duplicate_id",
        "violation too_many_requests",
        "violation request_after_shutdown",
        "violation parse",
        "violation malformed_response",
        "violation malformed_cancel",
        "violation invalid_request",
        "violation batch_refused",
        "violation response_dropped",
        "closed peer_gone",
        "closed shutdown",
        "closed over_limit",
        "closed broken_framing",
        "taken false",
        "Withdrawn",
        "AlreadySent",
        "Sent",
        "Settled",
        "AlreadySettled",
        "sent [{",
    ];
    world::assert_met(400, presets, &all);
}
