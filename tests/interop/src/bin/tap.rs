//! A server with a tap in front: `tap RECORD COMMAND…`.

use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, record, command @ ..] = &arguments[..] else { return ExitCode::FAILURE };
    match rescind_interop::tap::tap(record, command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("tap: {error}");
            ExitCode::FAILURE
        }
    }
}
