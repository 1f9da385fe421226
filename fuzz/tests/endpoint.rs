//! A few thousand random hosts and peers of an endpoint: the body of the target `endpoint` as a bounded test.

use protocol_testkit::Random;
use rescind_fuzz::endpoint_is_calm;

#[test]
fn f122_each_request_gets_one_response_and_each_call_one_outcome() {
    let (mut responded, mut probes) = (0, 0);
    let seeds = std::env::var("SEEDS").map_or(1_500, |seeds| seeds.parse().expect("a number"));
    for seed in 0_u64..seeds {
        let mut random = Random::new(seed);
        let length = 40 + usize::from(random.bytes(1)[0]) * 3;
        let data = random.bytes(length);
        println!("seed {seed}");
        let [some, stood] = endpoint_is_calm(&data);
        (responded, probes) = (responded + some, probes + stood);
    }
    println!("{responded} responses, {probes} probes");
    assert!(responded > 10_000, "only {responded} requests got a response");
    assert!(probes > 100, "only {probes} probes");
}
