//! `attack`: runs the attacks on a server and prints a table of their costs.

use std::ffi::OsString;
use std::io::{self, BufRead, BufReader};
use std::process::{Child, Command, ExitCode, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::attacks::{ALL, Attack, Held};
use crate::beside::{Cost, beside};
use crate::process::Process;
use crate::wire::{Target, Wire};
use crate::{MIB, mib};
use clap::Parser;

/// Address space that a server gets which is started here.
const ROOM: usize = 8 << 30;
/// The time that a server has to free memory, once its attacker is gone.
const REST: Duration = Duration::from_secs(2);
/// The time that it has then to respond to another client.
const RECOVERY: Duration = Duration::from_secs(20);

/// Attacks a JSON-RPC server, and says what each attack cost it and another client
///
/// A server is an address, ws:// for JSON-RPC over a WebSocket, lsp:// for LSP over TCP, mcp:// for MCP's lines over TCP;
/// or a command, which is started anew for each attack, with 8 GiB of address space, and says its address in the
/// last word of its first line on standard error.
#[derive(Parser, Debug)]
struct Arguments {
    /// A server that runs
    #[arg(long, value_name = "URL", required_unless_present = "command")]
    against: Option<Target>,

    /// Its process, whose memory is looked at
    #[arg(long, requires = "against")]
    pid: Option<u32>,

    /// Only attacks with this in their names
    #[arg(long, value_name = "TEXT", default_value = "")]
    only: String,

    /// A server to start
    #[arg(last = true, conflicts_with = "against")]
    command: Vec<OsString>,
}

/// A server that is ended with this.
struct Server {
    target: Target,
    process: Option<Process>,
    child: Option<Child>,
}

impl Server {
    fn of(arguments: &Arguments) -> io::Result<Self> {
        if let Some(target) = &arguments.against {
            let process = arguments.pid.map(Process);
            return Ok(Self { target: target.clone(), process, child: None });
        }
        let mut command = Command::new(&arguments.command[0]);
        command.args(&arguments.command[1..]).stdin(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn()?;
        let process = Process(child.id());
        process.confine(ROOM)?;
        let mut stderr = BufReader::new(child.stderr.take().expect("it is piped"));
        let mut line = String::new();
        stderr.read_line(&mut line)?;
        thread::spawn(move || io::copy(&mut stderr, &mut io::sink()));
        let address = line.split_whitespace().next_back().unwrap_or_default();
        let target = address.parse().map_err(io::Error::other)?;
        Ok(Self { target, process: Some(process), child: Some(child) })
    }

    /// Describes the server once the attacker is gone.
    fn afterwards(&mut self, before: Option<usize>) -> String {
        if let Some(Ok(Some(status))) = self.child.as_mut().map(Child::try_wait) {
            return format!("died: {status}");
        }
        thread::sleep(REST);
        let kept = self.process.and_then(Process::resident).zip(before);
        let kept = kept.map_or_else(String::new, |(now, before)| {
            format!(", keeps {}", mib(now.saturating_sub(before)))
        });
        let begun = Instant::now();
        let answers = || {
            self.target.open().and_then(|mut client| {
                client.stream().set_read_timeout(RECOVERY)?;
                client.ask()
            })
        };
        while answers().is_err() {
            if begun.elapsed() > RECOVERY {
                return format!("answers nobody{kept}");
            }
            thread::sleep(Duration::from_millis(100));
        }
        format!("answers{kept}")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            // It may have ended.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Runs the command.
#[must_use]
pub fn main() -> ExitCode {
    let arguments = Arguments::parse();
    println!("| attack | sent | memory | median alone | beside | p99 beside | afterwards |");
    println!("|---|---|---|---|---|---|---|");
    for attack in ALL.iter().filter(|attack| attack.name.contains(&arguments.only)) {
        match run(&arguments, attack) {
            Ok(Some(row)) => println!("{row}"),
            Ok(None) => {}
            Err(error) => {
                eprintln!("{}: {error}", attack.name);
                return ExitCode::FAILURE;
            }
        }
    }
    ExitCode::SUCCESS
}

/// A row of the table; nothing if the attack is none on this server.
fn run(arguments: &Arguments, attack: &Attack) -> io::Result<Option<String>> {
    let mut server = Server::of(arguments)?;
    if attack.is_of_websockets && server.target.wire != Wire::WebSocket {
        return Ok(None);
    }
    let before = server.process.and_then(Process::resident);
    let (cost, held) = beside(&server.target, server.process, attack.run)?;
    let Held { taken, end, .. } = held;
    drop(held);
    let afterwards = server.afterwards(before);
    let Cost { alone, beside, memory } = &cost;
    let unanswered = if beside.failed.is_some() { ", then no answer" } else { "" };
    Ok(Some(format!(
        "| {} | {taken}, {end} | {} | {:.0?} | {:.0?}, {:.1} times{unanswered} | {:.1?} | {afterwards} |",
        attack.name,
        memory.map_or_else(|| "?".into(), |bytes| format!("{} MiB", bytes / MIB)),
        alone.median(),
        beside.median(),
        cost.slower(),
        beside.p99(),
    )))
}
