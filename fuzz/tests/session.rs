//! A few thousand random clients of a session: the body of the target `session` as a bounded test.

use rescind_fuzz::session_is_calm;

#[test]
fn each_request_of_a_session_has_one_response_at_most_and_nothing_is_left() {
    let mut responses = 0;
    let seeds = std::env::var("SEEDS").map_or(3_000, |seeds| seeds.parse().expect("a number"));
    for seed in 0_u64..seeds {
        let mut random = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
        let mut next = || {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            (random >> 11) as u8
        };
        let length = 40 + usize::from(next()) * 3;
        let data: Vec<u8> = (0..length).map(|_| next()).collect();
        println!("seed {seed}");
        responses += session_is_calm(&data);
    }
    println!("{responses} responses");
    assert!(responses > 1_000, "only {responses} responses were read");
}
