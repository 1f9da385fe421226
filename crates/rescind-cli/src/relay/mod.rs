//! `rescind relay`: one hop between a client and a server, each on standard streams or over HTTP.

mod bridge;
mod child;
mod connect;
mod fault;
mod guard;
mod losses;
mod report;
mod stdout;
mod stuck;
mod upstream;

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use clap::builder::ArgPredicate;
use clap::{Args, ValueEnum};
use humantime::format_duration;
use protocol_async::relay::{NotRead, Observer, Options, Trace, Wait};
use protocol_child::ChildCommand;
use protocol_core::{CloseReason, Dialect, Role};
use protocol_record::line::Verdict;
use protocol_relay::{RelayEvent, Side};
use tokio::sync::{Semaphore, watch};

use crate::address::Listen;
use crate::admission::ClientArgs;
use crate::dialect::{NameParser, Spoken, file_parser};
use crate::duration;
use crate::ending::Ending;
use crate::http::{self, Service};
use crate::noise::Noises;
use crate::process::ProcessArgs;
use crate::record::{RecordArgs, Session};
use crate::replay::{RelaySetup, Setup};
use crate::stats;
use crate::terminal::{Line, say, show};
use crate::trace::Traced;
use crate::{exit, failure, input, output_error, usage_error};
use bridge::Bridge;
use child::{Extras, Relayed};
use fault::{FaultArgs, Plan};
use guard::GuardArgs;
use losses::Losses;
use report::{has_failed, log, noise};
use stuck::StuckArgs;

/// The time that a server has to end once its input is closed.
const GRACE: Duration = Duration::from_secs(2);

/// Relay between a client on standard input and output and a server
///
/// Spawns COMMAND, or connects to --connect, and passes on what the two say to each other: requests under ids of each
/// connection's own, their answers under the ids that they came with, and each cancel as a cancel of
/// the request that it means. The two may speak different dialects: --up is the client's, --down the
/// server's.
///
/// What breaks a rule is answered and not passed on; that, and whatever else could not be passed on,
/// is reported on standard error. With --deadline, --idle or --cap no request takes for ever.
///
/// It ends when one of them hangs up and everything in flight is answered. A client that ends its input
/// may still be reading: what it has asked for is answered for a while (--answer-after-end), and then
/// cancelled, and the server may say for another while how that ended (--grace). The server is given two
/// seconds then (--exit-grace); whatever is left of it and of all that it started is sent SIGTERM, and as long
/// after that SIGKILL, also when the relay itself is killed.
///
/// The first SIGTERM, SIGINT or SIGHUP ends it in the same way, without --answer-after-end and with a second
/// for --grace. A second signal ends it at once. Exit codes: 0 the server succeeded, 1 it failed or was
/// killed, 2 usage, 6 it could not be started or reached, 7 standard output could not be written,
/// or was not read to the end.
#[derive(Clone, Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub struct RelayArgs {
    /// The protocol that both sides speak: jsonrpc, acp, lsp, mcp, abp, dap or erlmcp, or a revision of
    /// one; `rescind dialects` lists them. With --listen and --connect it is mcp-http
    #[arg(long, value_name = "NAME", default_value = "acp", default_value_ifs([("listen", ArgPredicate::IsPresent, "mcp-http"), ("connect", ArgPredicate::IsPresent, "mcp-http")]), value_parser = NameParser, hide_possible_values = true)]
    dialect: Spoken,

    /// Both sides speak the dialect that this JSON file describes: `{"base": NAME}`, and whatever
    /// differs from that one
    #[arg(long, value_name = "FILE", conflicts_with = "dialect", value_parser = file_parser())]
    dialect_file: Option<Spoken>,

    /// The protocol that the client speaks
    #[arg(long, value_name = "NAME", group = "client", requires = "server", conflicts_with_all = ["dialect", "dialect_file"], value_parser = NameParser, hide_possible_values = true)]
    up: Option<Spoken>,

    /// The client speaks the dialect that this JSON file describes
    #[arg(long, value_name = "FILE", group = "client", requires = "server", conflicts_with_all = ["dialect", "dialect_file"], value_parser = file_parser())]
    up_file: Option<Spoken>,

    /// The protocol that the server speaks
    #[arg(long, value_name = "NAME", group = "server", requires = "client", conflicts_with_all = ["dialect", "dialect_file"], value_parser = NameParser, hide_possible_values = true)]
    down: Option<Spoken>,

    /// The server speaks the dialect that this JSON file describes
    #[arg(long, value_name = "FILE", group = "server", requires = "client", conflicts_with_all = ["dialect", "dialect_file"], value_parser = file_parser())]
    down_file: Option<Spoken>,

    /// What moves the bytes
    #[arg(long, value_name = "NAME", default_value = "tokio")]
    runtime: Runtime,

    /// How long the requests of a client whose input has ended may still be answered before they are
    /// cancelled, such as 300ms or 30s; 0 for a client that ends its input only when it is gone
    #[arg(long, value_name = "DUR", default_value = "5s", value_parser = duration)]
    answer_after_end: Duration,

    /// How long the server may take to answer what was cancelled because the client is gone
    #[arg(long, value_name = "DUR", default_value = "30s", value_parser = duration)]
    grace: Duration,

    /// Print every message with its side, direction and milliseconds
    #[arg(long)]
    trace: bool,

    /// Don't say at the end what was recorded
    #[arg(long)]
    quiet: bool,

    /// Relay for whoever opens a session there, such as `http://127.0.0.1:8080/mcp`: MCP over HTTP, in the
    /// revisions of `--dialect mcp-http` or one of them, or ACP with `--dialect acp`. Each session has a server.
    /// With port 0 the system chooses one. The address is printed to standard error. A signal cancels and answers what is in flight
    #[arg(long, value_name = "URL", conflicts_with_all = ["runtime", "dialect_file", "client", "server", "answer_after_end", "trace", "on_stuck", "fault", "ca"], group = "address")]
    listen: Option<Listen>,

    /// Relay to the server there instead of spawning COMMAND, such as `http://127.0.0.1:8080/mcp` or
    /// `https://example.com/mcp`: MCP over HTTP, in the revision that the client speaks, or ACP with `--dialect
    /// acp`. With --token-file the server is shown that secret
    #[arg(long, value_name = "URL", conflicts_with_all = ["command", "runtime", "dialect_file", "client", "server", "on_stuck", "fault", "cwd", "env", "exit_grace", "leave_detached", "servers", "session_idle", "allow_origin", "allow_anyone", "connections", "memory"], group = "address")]
    connect: Option<Listen>,

    /// Of an `https://` server, take only a certificate that is signed by one in this file, of PEM [default:
    /// those that this machine trusts]
    #[arg(long, value_name = "FILE", requires = "connect")]
    ca: Option<PathBuf>,

    /// Servers at the same time. A session has one until it has ended, and one session more is refused
    #[arg(long, value_name = "COUNT", default_value_t = 64, requires = "listen")]
    servers: u16,

    /// End a session, with its server, whose client waits for nothing and says nothing for this long
    #[arg(long, value_name = "DUR", default_value = "30m", value_parser = duration, requires = "listen")]
    session_idle: Duration,

    #[command(flatten)]
    clients: ClientArgs,

    #[command(flatten)]
    guard: GuardArgs,

    #[command(flatten)]
    stuck: StuckArgs,

    #[command(flatten)]
    faults: FaultArgs,

    #[command(flatten)]
    process: ProcessArgs,

    #[command(flatten)]
    record: RecordArgs,

    /// The server to spawn, and its arguments
    #[arg(last = true, required_unless_present = "connect", value_name = "COMMAND")]
    command: Vec<OsString>,
}

const EXAMPLES: &str = "\
Examples:
  Cancel a slow request through two hops:
    rescind call --cancel-after 300ms sleep '{\"ms\":10000}' -- \\
        rescind relay -- rescind relay -- rescind serve
  Put an LSP client in front of an ACP server, and see both conversations:
    rescind call --dialect lsp echo '[1]' -- \\
        rescind relay --up lsp --down acp --trace -- rescind serve
  Be a server on standard streams that is one of MCP over HTTP:
    rescind relay --connect https://example.com/mcp --token-file secret.txt";

/// The runtime that moves the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Runtime {
    /// tokio's current-thread runtime
    Tokio,
    /// The executor of smol
    Smol,
}

impl RelayArgs {
    /// Returns the command that starts a server.
    fn server(&self) -> ChildCommand {
        let mut command = Command::new(&self.command[0]);
        command.args(&self.command[1..]);
        self.process.child(command, GRACE)
    }
}

/// Runs the command.
#[must_use]
pub fn main(args: &RelayArgs) -> ExitCode {
    if let Some(address) = &args.connect {
        return connect(args, address);
    }
    let Some(program) = args.command.first() else {
        return usage_error("there is no COMMAND");
    };
    let program = program.to_string_lossy();
    if let Some(listen) = &args.listen {
        return serve(args, listen, &program);
    }
    if input::is_directory() {
        return usage_error("standard input is a directory");
    }
    let command = args.server();

    let both = args.dialect_file.as_ref().unwrap_or(&args.dialect);
    let up = args.up.as_ref().or(args.up_file.as_ref()).unwrap_or(both);
    let down = args.down.as_ref().or(args.down_file.as_ref()).unwrap_or(both);
    let spoken = [up, down];
    let (mut up, mut down) = (up.on_stdio(Role::Server), down.on_stdio(Role::Client));
    (up.abandoned_grace, down.abandoned_grace) = (args.grace, args.grace);
    let mut options = Options::new(up, down);
    options.guard = args.guard.guard();
    options.trace = args.trace.then(|| trace(&spoken[0].dialect, &spoken[1].dialect));
    options.answer_after_end = args.answer_after_end;
    options.waits = Some(Box::new(waits));
    let losses = Arc::<Losses>::default();
    options.observer = Some(observer(losses.clone()));
    let noises = Arc::<Noises>::default();
    options.noise = Some(noise(noises.clone()));

    let recording = match args.record.start_with(Some(&program), || {
        let setup = RelaySetup::new(spoken, args.grace, args.guard.rules())?;
        Ok(Some(Setup::Relay(setup).raw()))
    }) {
        Ok(recording) => recording,
        Err(error) => return usage_error(error),
    };
    let watch = args.stuck.watch(&mut options);
    let faults = match plan(&args.faults, &mut options, &recording) {
        Ok(faults) => faults,
        Err(problem) => return usage_error(problem),
    };
    let ending = Ending::catch("rescind relay", &recording);
    let extras = Extras { faults, watch, ending, recording: recording.clone() };
    let options = recording.relay(options);
    let spawned = match args.runtime {
        Runtime::Tokio => child::on_tokio(command, (options, extras)),
        Runtime::Smol => child::on_smol(command, (options, extras)),
    };
    match spawned {
        Err(error) => {
            recording.finish();
            failure(exit::UNREACHABLE, format_args!("can't start {program}: {error}"))
        }
        Ok(relayed) => {
            if let Some(path) = relayed.recorded.as_ref().filter(|_| !args.quiet) {
                summarize(path);
            }
            if let Some(total) = noises.total() {
                log(format_args!("the server's output: {total}"));
            }
            if let Some(total) = losses.total() {
                log(total);
            }
            ended(&program, relayed)
        }
    }
}

/// Relays between clients over HTTP and servers.
fn serve(args: &RelayArgs, listen: &Listen, program: &str) -> ExitCode {
    let Listen::Http(address) = listen else {
        return usage_error("a relay listens at an http:// address");
    };
    let recording = match args.record.start(Some(program)) {
        Ok(recording) => recording,
        Err(error) => return usage_error(error),
    };
    let service = Service::new(&args.dialect, address, &args.clients, recording.recorder());
    let noises = Arc::<Noises>::default();
    let served = service.and_then(|mut service| {
        service.options.session.idle_time = Some(args.session_idle);
        let bridge = Bridge {
            args: args.clone(),
            program: program.into(),
            account: service.account.clone(),
            recording: recording.clone(),
            noises: noises.clone(),
            places: Arc::new(Semaphore::new(args.servers.into())),
            next: AtomicU64::default(),
            is_abandoned: watch::Sender::default(),
            shared: Mutex::default(),
        };
        let ending = Ending::catch("rescind relay", &recording);
        http::run(Arc::new(bridge).serve(service, &ending))
    });
    recording.finish();
    if let Some(total) = noises.total() {
        log(format_args!("the servers' output: {total}"));
    }
    match served {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => usage_error(error),
    }
}

/// Relays to a server over HTTP.
fn connect(args: &RelayArgs, address: &Listen) -> ExitCode {
    let Listen::Http(address) = address else {
        return usage_error("a relay connects to an http:// or https:// address");
    };
    if let Err(error) = args.dialect.http_revisions() {
        return usage_error(error);
    }
    if args.ca.is_some() && !address.is_secure {
        return usage_error("--ca is for https://");
    }
    if input::is_directory() {
        return usage_error("standard input is a directory");
    }
    let url = address.http_url();
    let started = args.clients.token().and_then(|it| Ok((it, args.record.start(Some(&url))?)));
    let (secret, recording) = match started {
        Ok(started) => started,
        Err(error) => return usage_error(error),
    };
    let relayed = connect::run(args, address, secret, &recording);
    if let Some(path) = recording.finish().filter(|_| !args.quiet) {
        summarize(&path);
    }
    let [up, down] = match relayed {
        Ok(relayed) => relayed,
        Err(error) => return failure(exit::UNREACHABLE, error),
    };
    if let Err(error) = &down {
        log(format_args!("the server: {error}"));
    }
    match up {
        Err(error) => output_error(error),
        Ok(()) if down.is_err() => ExitCode::from(exit::ERROR),
        Ok(()) => ExitCode::SUCCESS,
    }
}

/// The plan for what is done to messages on purpose, if anything is: each time that is said, and recorded.
fn plan(
    args: &FaultArgs,
    options: &mut Options,
    recording: &Session,
) -> Result<Option<Plan>, &'static str> {
    if args.fault.is_empty() {
        return Ok(None);
    }
    let seed = args.fault_seed.unwrap_or_else(|| fastrand::u64(..));
    log(format_args!("faults are drawn with --fault-seed {seed}"));
    let recorder = recording.recorder();
    let tell = move |side: Side, id: Option<String>, fault: &str| {
        match &id {
            Some(id) => log(format_args!("{side}: id {id}: fault: {fault}")),
            None => log(format_args!("{side}: fault: {fault}")),
        }
        if let Some(recorder) = &recorder {
            recorder.verdict(side.as_str(), Verdict::fault(id, fault));
        }
    };
    Plan::new(args.fault.clone(), seed, options, Box::new(tell)).map(Some)
}

/// Says in one line what a recording comes to, as `rescind stats` does.
fn summarize(path: &Path) {
    /// To read a longer recording takes longer than who ends a relay waits.
    const MOST: u64 = 64 << 20;
    let is_short = path.metadata().is_ok_and(|file| file.is_file() && file.len() <= MOST);
    if let Some(summary) = is_short.then(|| stats::summary(path).ok()).flatten() {
        log(format_args!("{summary}"));
    }
}

/// Says what ended other than it should, and gives the exit code.
fn ended(program: &str, Relayed { relayed, exit, pushed, lost, .. }: Relayed) -> ExitCode {
    let mut lost = lost.get();
    match &relayed {
        Err(error) if is_not_read(error) => lost = lost.or(Some(error)),
        // That is what `lost` says.
        Err(error) if lost.is_none_or(|lost| lost.kind() != error.kind()) => log(error),
        _ => {}
    }
    let has_failed = has_failed(program, &exit, pushed);
    match lost {
        Some(error) => output_error(error),
        None if has_failed => ExitCode::from(exit::ERROR),
        None => ExitCode::SUCCESS,
    }
}

/// Whether this is about a client that did not read the last of what there was to say to it.
fn is_not_read(error: &io::Error) -> bool {
    let lost = error.get_ref().and_then(|error| error.downcast_ref::<NotRead>());
    lost.is_some_and(|lost| lost.side == Side::Up)
}

/// Says what is waited for.
fn waits(wait: Wait) {
    match wait {
        Wait::Answers { requests, within } => log(format_args!(
            "the client's input has ended; {} may still be answered for {}",
            number(requests, "request"),
            format_duration(within)
        )),
        Wait::Cancelled { requests, within } => log(format_args!(
            "the client is gone; the server has {} to answer {}, cancelled",
            format_duration(within),
            number(requests, "request")
        )),
        _ => {}
    }
}

fn number(count: usize, what: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {what}{plural}")
}

fn observer(losses: Arc<Losses>) -> Observer {
    Box::new(move |side, event| {
        losses.count(&event);
        match event {
            RelayEvent::Closed { reason: CloseReason::PeerGone | CloseReason::Shutdown } => {}
            event => {
                let line = Line::new().text(format_args!("rescind relay: {side}: "));
                say(line.value(event.to_string().as_bytes()));
            }
        }
    })
}

fn trace(up: &Dialect, down: &Dialect) -> Trace {
    let begun = Instant::now();
    let (mut up, mut down) = (traced(Side::Up, up, begun), traced(Side::Down, down, begun));
    Box::new(move |side, way, message| match side {
        Side::Up => up(way, message),
        Side::Down => down(way, message),
    })
}

/// Prints the messages of one side.
fn traced(side: Side, dialect: &Dialect, begun: Instant) -> protocol_async::Trace {
    let mut traced = Traced::new(dialect, begun);
    Box::new(move |way, message| show(traced.line(&format!("{side:4} "), way, message)))
}
