//! The table on the crate's first page is the table of the code.

use protocol_operations::{Input, Status, Step};

#[test]
fn the_table_in_the_docs_is_the_table() {
    let page = include_str!("../../src/lib.rs");
    let cells = |line: &str| -> Vec<String> {
        let cells = line.trim_start_matches("//!").split("  ").map(str::trim);
        cells.filter(|cell| !cell.is_empty()).map(str::to_owned).collect()
    };
    let documented: Vec<Vec<String>> = page.lines().map(cells).collect();

    let columns: Vec<String> = Status::ALL.iter().map(|&status| name(status)).collect();
    assert!(documented.contains(&columns), "{columns:?}");
    for &input in Input::ALL {
        let mut row = vec![label(input).to_owned()];
        row.extend(Status::ALL.iter().map(|&status| cell(status, input)));
        assert!(documented.contains(&row), "{row:?}");
    }
}

fn cell(status: Status, input: Input) -> String {
    let transition = status.on(input);
    let step = match transition.step {
        Step::Nothing => "-",
        Step::Notify => "notify",
        Step::NotifyAndStop => "notify and stop",
        Step::Stop => "stop",
        Step::Complete => "complete",
        Step::Lose => "lose",
        Step::CleanUp => "clean up",
        Step::Impossible => "impossible",
    };
    match (transition.next, transition.step) {
        (Some(next), Step::Nothing | Step::Impossible) if next == status => step.to_owned(),
        (Some(next), _) => format!("{}: {step}", name(next)),
        (None, _) => format!("ended: {step}"),
    }
}

fn name(status: Status) -> String {
    format!("{status:?}").to_lowercase()
}

fn label(input: Input) -> &'static str {
    match input {
        Input::GracefulCancel => "graceful cancel",
        Input::ForcedCancel => "forced cancel",
        Input::GraceExpired => "grace expired",
        Input::Finished => "finished",
        Input::WorkerLost => "worker lost",
    }
}
