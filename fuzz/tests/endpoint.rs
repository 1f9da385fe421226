//! A few thousand random hosts and peers of an endpoint: the body of the target `endpoint` as a bounded test.

use rescind_fuzz::endpoint_is_calm;

#[test]
fn f122_each_request_gets_one_response_and_each_call_one_outcome() {
    let (mut responded, mut probes) = (0, 0);
    let seeds = std::env::var("SEEDS").map_or(1_500, |seeds| seeds.parse().expect("a number"));
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
        let [some, stood] = endpoint_is_calm(&data);
        (responded, probes) = (responded + some, probes + stood);
    }
    println!("{responded} responses, {probes} probes");
    assert!(responded > 10_000, "only {responded} requests got a response");
    assert!(probes > 100, "only {probes} probes");
}
