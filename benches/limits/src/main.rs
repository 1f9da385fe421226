//! The speed of single parts, beside the fastest that others have for the same bytes.
//!
//! - `speed MILLISECONDS`: W4 and W8, with about so much time for each figure
//! - `decode MESSAGE TIMES`, `encode TIMES`, `operations KINDS TIMES`: work of a fixed size, for callgrind;
//!   of `decode` only what `Reader::read` does counts
//! - `growth STEP MANY TIMES`: a step beside so many remembered ids, early cancels or owners of a token
//! - `count` and one of those: the allocations of that work

mod decode;
mod growth;
mod operations;

use std::time::Duration;

use bench_harness::report::number;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["speed", milliseconds] => {
            if cfg!(not(feature = "parsers")) {
                panic!("build it with --features parsers");
            }
            let budget = Duration::from_millis(number(milliseconds) as u64);
            decode::speed(budget);
            operations::speed(budget);
        }
        ["count", ref work @ ..] => println!("{}", fixed(work)),
        ref work => {
            fixed(work);
        }
    }
}

/// Work of a fixed size; gives its allocations.
fn fixed(work: &[&str]) -> u64 {
    match *work {
        ["decode", message, times] => decode::some(message, number(times)),
        ["encode", times] => decode::encode(number(times)),
        ["operations", kinds, times] => operations::some(number(kinds), number(times)),
        ["growth", step, many, times] => growth::some(step, number(many), number(times)),
        _ => panic!("asked for {work:?}; see the source for what there is to ask for"),
    }
}
