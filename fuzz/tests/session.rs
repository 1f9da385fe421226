//! A few thousand random clients of a session: the body of the target `session` as a bounded test.

use protocol_testkit::Random;
use rescind_fuzz::session_is_calm;

#[test]
fn each_request_of_a_session_has_one_response_at_most_and_nothing_is_left() {
    let mut responses = 0;
    let seeds = std::env::var("SEEDS").map_or(3_000, |seeds| seeds.parse().expect("a number"));
    for seed in 0_u64..seeds {
        let mut random = Random::new(seed);
        let length = 40 + usize::from(random.bytes(1)[0]) * 3;
        let data = random.bytes(length);
        println!("seed {seed}");
        responses += session_is_calm(&data);
    }
    println!("{responses} responses");
    assert!(responses > 1_000, "only {responses} responses were read");
}
