//! Holds random conversations with the target `messages`, and prints which share of the formula they reach.
//!
//! `shares TIMES [SEED]`

use std::env;

use rescind_fuzz::held;

fn main() {
    let mut arguments = env::args().skip(1).map(|it| it.parse::<u64>().expect("a number"));
    let (times, seed) = (arguments.next().unwrap_or(10_000), arguments.next().unwrap_or(1));
    let mut random = seed | 1;
    let mut next = || {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random
    };
    let (mut best, mut data) = (0.0, Vec::new());
    for _ in 0..times {
        data.clear();
        let len = 20 + next() % 600;
        data.extend((0..len).map(|_| next() as u8));
        let (peak, formula) = held(&data);
        let share = peak as f64 / formula as f64;
        if share > best {
            best = share;
            println!("{share:.3}: {peak} of {formula}, by {:?}", &data[..12]);
        }
    }
}
