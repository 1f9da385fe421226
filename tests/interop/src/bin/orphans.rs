//! Kills programs at random moments, and prints the processes that they leave behind: `orphans [--rounds N] [--seed N]
//! [--published FOLDER]`. The programs are `rescind relay` and `call`, or the published relays in FOLDER. Each is
//! killed N times by each signal, with each of four servers behind each of three wrappers. Exits 1 if anything was
//! left, or never came up.
//!
//! The tables in `tests/side_by_side` and their sums in docs/interop.md come from two runs. `--rounds 9` takes 50
//! minutes, and `--published /tmp/relays --rounds 3` takes 12. The relays were installed with
//!
//! ```sh
//! npm install --prefix /tmp/relays --ignore-scripts supergateway@4.0.0 mcp-proxy@6.7.19
//! python3 -m venv /tmp/relays/venv && /tmp/relays/venv/bin/pip install mcp-proxy==0.13.0
//! ```

use std::env;
use std::path::PathBuf;
use std::process::ExitCode;

use rescind_interop::orphans::{Case, WRAPPERS, ours, published, servers, torture};

const USAGE: u8 = 2;

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let (mut rounds, mut seed, mut programs) = (9, fastrand::u64(..), ours());
    for option in arguments.chunks(2) {
        let is_read = match option {
            [name, value] if name == "--rounds" => value.parse().map(|read| rounds = read).is_ok(),
            [name, value] if name == "--seed" => value.parse().map(|read| seed = read).is_ok(),
            [name, value] if name == "--published" => {
                programs = published(&PathBuf::from(value));
                !programs.is_empty()
            }
            _ => false,
        };
        if !is_read {
            eprintln!("usage: orphans [--rounds N] [--seed N] [--published FOLDER]");
            return ExitCode::from(USAGE);
        }
    }
    eprintln!("--seed {seed}");
    let mut cases = Vec::new();
    for program in &programs {
        for server in servers().into_iter().filter(|server| program.takes(server)) {
            let case = |wrapper| Case { program: program.clone(), server: server.clone(), wrapper };
            cases.extend(WRAPPERS.map(case));
        }
    }
    let table = torture(&cases, rounds, seed);
    print!("{table}");
    if table.0.iter().all(|(.., tally)| tally.left + tally.not_up == 0) {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
