//! Judges a relay: `judge [--near PROTOCOL] [--far PROTOCOL] [--patience SECONDS] -- RELAY…`, to which
//! the far end's command is appended. PROTOCOL is acp, lsp, mcp-2025-11-25 or mcp. Prints a verdict on each rule, and exits 1 if one is broken.

use std::env;
use std::process::ExitCode;
use std::time::Duration;

use rescind_interop::judge::{Protocol, Trial, tunnel};

const USAGE: u8 = 2;

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().collect();
    if let [_, tunnel_command, path] = &arguments[..]
        && tunnel_command == "tunnel"
    {
        return match tunnel(path) {
            Ok(()) => ExitCode::SUCCESS,
            Err(_) => ExitCode::FAILURE,
        };
    }
    let Some(trial) = trial(&arguments) else {
        eprintln!(
            "usage: judge [--near PROTOCOL] [--far PROTOCOL] [--patience SECONDS] -- RELAY..."
        );
        return ExitCode::from(USAGE);
    };
    let verdict = trial.run();
    print!("{verdict}");
    if verdict.passed() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn trial(arguments: &[String]) -> Option<Trial> {
    let end = arguments.iter().position(|argument| argument == "--")?;
    let (options, relay) = (&arguments[1..end], &arguments[end + 1..]);
    let mut trial = Trial {
        near: Protocol::ACP,
        far: Protocol::ACP,
        relay: relay.to_vec(),
        judge: env::current_exe().ok()?.to_str()?.into(),
        patience: Duration::from_secs(10),
    };
    for option in options.chunks(2) {
        match option {
            [name, value] if name == "--near" => trial.near = Protocol::named(value)?,
            [name, value] if name == "--far" => trial.far = Protocol::named(value)?,
            [name, value] if name == "--patience" => {
                trial.patience = Duration::try_from_secs_f64(value.parse().ok()?).ok()?;
            }
            _ => return None,
        }
    }
    (!relay.is_empty()).then_some(trial)
}
