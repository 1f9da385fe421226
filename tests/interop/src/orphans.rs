//! The processes that a program leaves behind if it is killed at a random moment, while it runs a server behind a
//! wrapper.
//!
//! A process is known by its working directory, a new one for each run, or by a variable with the name of that. Every
//! process inherits both from its parent. Some change their directory, and some start others with an environment of
//! their choice.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};
use std::{env, fmt, fs, io};

use fastrand::Rng;
use rustix::process::{Pid, Signal, kill_process};

use crate::peers::{CommandLine, clangd, line, node, python, rescind};

/// The signals that a program is killed by.
pub const SIGNALS: [Signal; 4] = [Signal::TERM, Signal::INT, Signal::HUP, Signal::KILL];

/// Holds the name of the working directory.
const VARIABLE: &str = "RESCIND_ORPHANS";

/// The time after the signal from which a process counts as left behind. Our own graces are two of 2 s. A busy machine
/// may take several times as long for the steps between them.
const LEFT_AFTER: Duration = Duration::from_secs(30);
/// Longer than any program takes to come up.
const PATIENCE: Duration = Duration::from_secs(120);
/// The number of attempts to kill a program that may have ended before.
const TRIES: usize = 4;
/// Programs that run at the same time.
const AT_ONCE: usize = 4;

/// A real server.
#[derive(Clone, Debug)]
pub struct Server {
    /// The name in the results.
    pub name: &'static str,
    dialect: &'static str,
    /// The method and the params of `rescind call`.
    asked: [&'static str; 2],
    command: CommandLine,
}

/// A program that runs a server without becoming it.
#[derive(Clone, Copy, Debug)]
pub enum Wrapper {
    /// A shell that waits for it.
    Shell,
    /// A shell that runs it beside itself, and then waits for it.
    Beside,
    /// npm's own wrapper, `npx`.
    Npx,
}

/// Every wrapper, in the order of the tests.
pub const WRAPPERS: [Wrapper; 3] = [Wrapper::Shell, Wrapper::Beside, Wrapper::Npx];

/// A program that is killed.
#[derive(Clone, Debug)]
pub struct Program {
    /// The name in the results, with a version if it is published.
    pub name: String,
    kind: Kind,
}

#[derive(Clone, Debug)]
enum Kind {
    /// `rescind relay`, which is up when the client is answered.
    Relay,
    /// `rescind call`, which ends by itself.
    Call,
    /// One that listens on a port, and is up when it does.
    Gateway { command: CommandLine, server_as_text: bool },
}

/// A program that is run and killed, with the server behind it.
#[derive(Clone, Debug)]
pub struct Case {
    /// The program that is killed.
    pub program: Program,
    /// The server that it runs.
    pub server: Server,
    /// The wrapper between the two.
    pub wrapper: Wrapper,
}

/// The results of one program and one signal.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// The number of runs in which it was killed.
    pub killed: usize,
    /// The number of runs that were skipped, since the program never comes up.
    pub not_up: usize,
    /// The number of runs that left a process.
    pub left: usize,
    /// The names of the processes that were left, and the number of times for each.
    pub what: BTreeMap<String, usize>,
    /// The longest time until nothing was left, of the runs that left nothing.
    pub slowest: Duration,
}

/// The real servers that are there.
#[must_use]
pub fn servers() -> Vec<Server> {
    let package = |file: &str| node(&format!("node_modules/{file}"));
    let everything = package("@modelcontextprotocol/server-everything/dist/index.js")
        .map(|command| [command, line(&["stdio"])].concat());
    let pyright = package("pyright/langserver.index.js")
        .map(|command| [command, line(&["--stdio"])].concat());
    let (lsp, mcp) = (["workspace/symbol", r#"{"query":"f"}"#], ["tools/list", "{}"]);
    let all = [
        ("clangd", "lsp", lsp, clangd()),
        ("pyright", "lsp", lsp, pyright),
        ("server-everything", "mcp-2025-11-25", mcp, everything),
        ("a server on the MCP Python SDK", "mcp-2025-11-25", mcp, python("mcp_server.py")),
    ];
    let found = all.into_iter().filter_map(|(name, dialect, asked, command)| {
        Some(Server { name, dialect, asked, command: command? })
    });
    found.collect()
}

/// `rescind relay` and `rescind call`.
#[must_use]
pub fn ours() -> Vec<Program> {
    let program = |name: &str, kind| Program { name: name.into(), kind };
    vec![program("rescind relay", Kind::Relay), program("rescind call", Kind::Call)]
}

/// The published relays that are in a folder: `node_modules/.bin` and `venv/bin` are looked into.
#[must_use]
pub fn published(folder: &Path) -> Vec<Program> {
    let all = [
        (
            "supergateway",
            "npm",
            "node_modules/.bin/supergateway",
            &["--port", "PORT", "--stdio"][..],
            true,
        ),
        (
            "mcp-proxy",
            "PyPI",
            "venv/bin/mcp-proxy",
            &["--pass-environment", "--port", "PORT", "--"],
            false,
        ),
        ("mcp-proxy", "npm", "node_modules/.bin/mcp-proxy", &["--port", "PORT", "--"], false),
    ];
    let found = all.into_iter().filter_map(|(name, from, program, options, server_as_text)| {
        let program = folder.join(program);
        let version = version(&program).ok()?;
        let command = [line(&[&program.to_string_lossy()]), line(options)].concat();
        let kind = Kind::Gateway { command, server_as_text };
        Some(Program { name: format!("{name} {version} ({from})"), kind })
    });
    found.collect()
}

/// Returns a program's own version: the last word, for some put their name before it.
fn version(program: &Path) -> io::Result<String> {
    let said = Command::new(program).arg("--version").output()?;
    let said = String::from_utf8_lossy(&said.stdout);
    Ok(said.split_whitespace().last().unwrap_or("?").to_owned())
}

impl Program {
    /// Whether it can run this server.
    #[must_use]
    pub fn takes(&self, server: &Server) -> bool {
        !matches!(self.kind, Kind::Gateway { .. }) || server.dialect.starts_with("mcp")
    }
}

impl Wrapper {
    fn around(self, server: &[String]) -> CommandLine {
        let front = match self {
            Self::Shell => line(&["sh", "-c", r#""$@"; exit $?"#, "wrapper"]),
            Self::Beside => line(&["sh", "-c", r#"exec 3<&0; "$@" <&3 3<&- & wait $!"#, "wrapper"]),
            Self::Npx => {
                return [line(&["npx", "--offline", "-c"]), vec![as_text(server)]].concat();
            }
        };
        [&front, server].concat()
    }
}

/// A command line for a shell.
fn as_text(command: &[String]) -> String {
    let quoted = command.iter().map(|word| format!("'{}'", word.replace('\'', r"'\''")));
    quoted.collect::<Vec<_>>().join(" ")
}

impl Case {
    fn command(&self, port: u16) -> CommandLine {
        let Server { dialect, asked, command, .. } = &self.server;
        let wrapped = self.wrapper.around(command);
        match &self.program.kind {
            Kind::Relay => {
                [line(&[rescind(), "relay", "--dialect", dialect, "--"]), wrapped].concat()
            }
            Kind::Call => {
                let [method, params] = asked;
                let call = [rescind(), "call", "--dialect", dialect, method, params, "--"];
                [line(&call), wrapped].concat()
            }
            Kind::Gateway { command, server_as_text } => {
                let port = |word: &String| word.replace("PORT", &port.to_string());
                let server = if *server_as_text { vec![as_text(&wrapped)] } else { wrapped };
                [command.iter().map(port).collect(), server].concat()
            }
        }
    }

    /// Kills it so often by each signal, each time after a random moment. The moment is drawn from the time that the
    /// program takes to be up, or to do all its work.
    ///
    /// # Panics
    ///
    /// If it can't be run.
    #[must_use]
    pub fn torture(&self, rounds: usize, rng: &mut Rng) -> Vec<(Signal, Tally)> {
        let Some(takes) = self.time_to_be_up() else {
            return SIGNALS.map(|it| (it, Tally { not_up: rounds, ..Tally::default() })).into();
        };
        let tally = |signal| {
            let mut tally = Tally::default();
            // One that ends by itself may do so before.
            for _ in 0..TRIES * rounds {
                if tally.killed == rounds {
                    break;
                }
                let moment = takes.mul_f64(rng.f64() * 1.1);
                let run = Run::start(self);
                // Much of what happens is in its first milliseconds.
                thread::sleep(moment);
                run.kill(signal, &mut tally);
            }
            (signal, tally)
        };
        SIGNALS.into_iter().map(tally).collect()
    }

    /// `None` if it does not come up.
    fn time_to_be_up(&self) -> Option<Duration> {
        let mut run = Run::start(self);
        let took = run.wait_until_up(self)?;
        // It, a wrapper and a server at least. Somebody else may listen on that port by now.
        let is_there = matches!(self.program.kind, Kind::Call) || alive(&run.place).len() > 2;
        run.kill(Signal::KILL, &mut Tally::default());
        is_there.then_some(took)
    }
}

/// A program that runs.
struct Run {
    child: Child,
    place: PathBuf,
    port: u16,
    begun: Instant,
    /// Its input stays open: nothing but the signal ends it.
    _stdin: ChildStdin,
    /// A word each time that it says something.
    says: Receiver<()>,
}

impl Run {
    fn start(case: &Case) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);

        let name =
            format!("orphans-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let place = env::temp_dir().join(name);
        fs::create_dir(&place).expect("there is room for a folder");
        let place = place.canonicalize().expect("it is there");
        let port = free_port().expect("there is a free port");
        let command = case.command(port);
        let begun = Instant::now();
        // Our parent may have us ignore a signal, as a shell does for its jobs in the background.
        let mut child = Command::new("env")
            .arg("--default-signal")
            .args(&command)
            .current_dir(&place)
            .env(VARIABLE, &place)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let mut stdin = child.stdin.take().expect("it is piped");
        if matches!(case.program.kind, Kind::Relay) {
            // It may not be read.
            let _ = stdin.write_all(opening(case.server.dialect).as_bytes());
        }
        let mut stdout = child.stdout.take().expect("it is piped");
        let (tell, says) = channel();
        thread::spawn(move || {
            let mut bytes = [0; 4096];
            while stdout.read(&mut bytes).is_ok_and(|read| read > 0) {
                // Nobody may listen any more; it is read all the same.
                let _ = tell.send(());
            }
        });
        Self { child, place, port, begun, _stdin: stdin, says }
    }

    fn wait_until_up(&mut self, case: &Case) -> Option<Duration> {
        let until = self.begun + PATIENCE;
        loop {
            let is_up = match &case.program.kind {
                Kind::Relay => self.says.try_recv().is_ok(),
                Kind::Call => self.child.try_wait().is_ok_and(|status| status.is_some()),
                Kind::Gateway { .. } => {
                    TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).is_ok()
                }
            };
            if is_up {
                return Some(self.begun.elapsed());
            }
            if Instant::now() > until {
                return None;
            }
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Kills it, and looks at what is left.
    fn kill(mut self, signal: Signal, tally: &mut Tally) {
        let is_over = self.child.try_wait().is_ok_and(|status| status.is_some());
        if !is_over {
            tally.killed += 1;
            let id = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
            // It may have ended in this moment.
            let _ = kill_process(id.expect("it is an id"), signal);
        }
        let killed = Instant::now();
        let left = loop {
            // A zombie counts as gone; this reaps it.
            let _ = self.child.try_wait();
            let left = alive(&self.place);
            if left.is_empty() || killed.elapsed() > LEFT_AFTER {
                break left;
            }
            thread::sleep(Duration::from_millis(50));
        };
        if left.is_empty() {
            tally.slowest = tally.slowest.max(killed.elapsed());
        } else {
            tally.left += 1;
            left.iter().for_each(|(id, _)| eprintln!("{signal:?} left {}", described(*id)));
            let mut names: Vec<String> = left.iter().map(|(_, name)| name.clone()).collect();
            names.sort();
            *tally.what.entry(names.join(", ")).or_default() += 1;
        }
    }
}

/// Nothing of it is left after this, whatever happened.
impl Drop for Run {
    fn drop(&mut self) {
        loop {
            let left = alive(&self.place);
            if left.is_empty() {
                break;
            }
            for (id, _) in left {
                // It may be gone.
                let _ = kill_process(id, Signal::KILL);
            }
            let _ = self.child.try_wait();
            thread::sleep(Duration::from_millis(50));
        }
        let _ = self.child.wait();
        // A folder that stays behind is in the way of nothing.
        let _ = fs::remove_dir_all(&self.place);
    }
}

/// The processes that were started in a folder, by their names.
fn alive(place: &Path) -> Vec<(Pid, String)> {
    let variable = format!("{VARIABLE}={}", place.display()).into_bytes();
    let running = |process: fs::DirEntry| {
        let id = Pid::from_raw(process.file_name().to_str()?.parse().ok()?)?;
        let process = process.path();
        // A process that is gone has none of the two.
        let is_there = fs::read_link(process.join("cwd")).is_ok_and(|folder| folder == place);
        let environment = fs::read(process.join("environ")).unwrap_or_default();
        let is_marked = environment.split(|byte| *byte == 0).any(|entry| entry == variable);
        let name = fs::read_to_string(process.join("comm")).ok()?;
        (is_there || is_marked).then(|| (id, name.trim_end().to_owned()))
    };
    fs::read_dir("/proc").expect("there is /proc").flatten().filter_map(running).collect()
}

/// Describes a process for a person who looks for its origin: its state in `/proc`, and its command line.
fn described(id: Pid) -> String {
    let read = |name: &str| fs::read_to_string(format!("/proc/{}/{name}", id.as_raw_pid()));
    let (state, command) = (read("stat").unwrap_or_default(), read("cmdline").unwrap_or_default());
    format!("{} {}", state.trim_end(), command.replace('\0', " "))
}

fn free_port() -> io::Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}

/// The first words of a client.
fn opening(dialect: &str) -> String {
    let params = if dialect == "lsp" {
        r#"{"processId":null,"rootUri":null,"capabilities":{}}"#.to_owned()
    } else {
        let client = r#""clientInfo":{"name":"orphans","version":"1"}"#;
        format!(r#"{{"protocolVersion":"2025-11-25","capabilities":{{}},{client}}}"#)
    };
    let message = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"initialize","params":{params}}}"#);
    if dialect == "lsp" {
        format!("Content-Length: {}\r\n\r\n{message}", message.len())
    } else {
        message + "\n"
    }
}

/// Runs the cases, several at a time, and adds up what was seen of each program and signal.
///
/// # Panics
///
/// As [`Case::torture`].
#[must_use]
pub fn torture(cases: &[Case], rounds: usize, seed: u64) -> Table {
    let (next, table) = (AtomicU64::new(0), Mutex::new(Table::default()));
    let work = || loop {
        let at = next.fetch_add(1, Ordering::Relaxed);
        let Some(case) = usize::try_from(at).ok().and_then(|at| cases.get(at)) else { return };
        let seen = case.torture(rounds, &mut Rng::with_seed(seed.wrapping_add(at)));
        let mut table = table.lock().expect("nobody panicked with it");
        for (signal, tally) in seen {
            table.add(&case.program.name, signal, tally);
        }
    };
    thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(work);
        }
    });
    table.into_inner().expect("nobody panicked with it")
}

/// The results, by program and signal.
#[derive(Debug, Default)]
pub struct Table(pub Vec<(String, Signal, Tally)>);

impl Table {
    fn add(&mut self, program: &str, signal: Signal, more: Tally) {
        let mut rows = self.0.iter_mut();
        let found = rows.find(|(name, by, _)| (name.as_str(), *by) == (program, signal));
        let Some((.., tally)) = found else {
            self.0.push((program.to_owned(), signal, more));
            return;
        };
        tally.killed += more.killed;
        tally.not_up += more.not_up;
        tally.left += more.left;
        tally.slowest = tally.slowest.max(more.slowest);
        for (what, times) in more.what {
            *tally.what.entry(what).or_default() += times;
        }
    }
}

/// As in docs/interop.md.
impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "| | killed by | times | not up | something left | mostly | else gone within |"
        )?;
        writeln!(f, "|---|---|---|---|---|---|---|")?;
        for (program, signal, tally) in &self.0 {
            let Tally { killed, not_up, left, what, slowest } = tally;
            let mostly = what.iter().max_by_key(|(_, times)| **times).map_or("", |(what, _)| what);
            let name = match *signal {
                Signal::TERM => "SIGTERM",
                Signal::INT => "SIGINT",
                Signal::HUP => "SIGHUP",
                _ => "SIGKILL",
            };
            let slowest = slowest.as_secs_f64();
            let counts = format!("{killed} | {not_up} | {left}");
            writeln!(f, "| {program} | {name} | {counts} | {mostly} | {slowest:.1} s |")?;
        }
        Ok(())
    }
}
