//! What the crate's first page says is what the table says.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use protocol_operations::{Input, Status, Step};

fn step(step: Step) -> &'static str {
    match step {
        Step::Nothing => "-",
        Step::Tell => "tell",
        Step::TellAndStop => "tell and stop",
        Step::Stop => "stop",
        Step::Complete => "complete",
        Step::Lose => "lose",
        Step::CleanUp => "clean up",
    }
}

#[test]
fn the_table_in_the_docs_is_the_table() {
    let page = include_str!("../src/lib.rs");
    for &status in Status::ALL {
        let mut row = format!("//! | {} |", format!("{status:?}").to_lowercase());
        for &input in Input::ALL {
            let transition = status.on(input);
            let cell = match (transition.next, step(transition.step)) {
                (Some(next), "-") if next == status => "-".to_owned(),
                (Some(next), step) => format!("{}: {step}", format!("{next:?}").to_lowercase()),
                (None, step) => format!("gone: {step}"),
            };
            row += &format!(" {cell} |");
        }
        assert!(page.lines().any(|line| line == row), "{row}");
    }
}
