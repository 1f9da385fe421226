//! `rescind relay`: one hop between a client and a server, each on standard streams or over HTTP.

mod args;
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

use std::io;
use std::process::ExitCode;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use humantime::format_duration;
use protocol_async::relay::{NotRead, Observer, Options, Trace, Wait, Waits};
use protocol_core::{CloseReason, Dialect};
use protocol_record::line::Verdict;
use protocol_relay::{RelayEvent, Side};
use tokio::sync::{Semaphore, watch};

use crate::address::Address;
use crate::connect::runtime;
use crate::ending::{Ending, SHORT_GRACE};
use crate::exit::{self, Exit};
use crate::http::Service;
use crate::input;
use crate::noise::Noises;
use crate::record::Session;
use crate::replay::{RelaySetup, Setup, relay_options};
use crate::terminal::{Line, counted, say};
pub use args::RelayArgs;
use args::Runtime;
use bridge::Bridge;
use child::{Extras, Relayed};
use fault::{FaultArgs, Plan};
use losses::Losses;
use report::{has_failed, log, noise, summarize, traced};

/// Runs the command.
///
/// # Errors
///
/// The reason that it did not do its work.
pub fn main(args: &RelayArgs) -> Result<ExitCode, Exit> {
    if let Some(address) = &args.connect {
        return connect::run(args, address);
    }
    let program = args.command[0].to_string_lossy();
    if let Some(listen) = &args.listen {
        return serve(args, listen, &program);
    }
    input::check_standard()?;
    let mut options = options(args);
    let losses = Arc::<Losses>::default();
    options.observer = Some(observer(losses.clone()));
    let noises = Arc::<Noises>::default();
    options.noise = Some(noise(noises.clone()));

    let recording = args.record.start_with(Some(&program), || {
        let setup = RelaySetup::new(args.sides(), args.grace, args.guard.rules())?;
        Ok(Some(Setup::Relay(setup).raw()))
    })?;
    let watch = args.stuck.watch(&mut options);
    let faults = plan(&args.faults, &mut options, &recording)?;
    let ending = Ending::catch("rescind relay", &recording);
    options.waits = Some(waits(ending.clone()));
    let extras = Extras { faults, watch, ending, recording: recording.clone() };
    let options = recording.relay(options);
    let spawned = match args.runtime {
        Runtime::Tokio => child::on_tokio(args.server(), (options, extras)),
        Runtime::Smol => child::on_smol(args.server(), (options, extras)),
    };
    let relayed = spawned.map_err(|error| {
        recording.finish();
        Exit::new(exit::UNREACHABLE, format_args!("can't start {program}: {error}"))
    })?;
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

/// Returns the options of a relay on standard streams.
fn options(args: &RelayArgs) -> Options {
    let [up, down] = args.sides();
    let mut options = relay_options([up, down], args.grace, args.guard.guard());
    options.trace = args.trace.then(|| trace(&up.dialect, &down.dialect));
    options.answer_after_end = args.answer_after_end;
    options
}

/// Relays between clients over HTTP and servers.
fn serve(args: &RelayArgs, address: &Address, program: &str) -> Result<ExitCode, Exit> {
    if !address.is_http {
        return Err("a relay listens at an http:// address".into());
    }
    let recording = args.record.start(Some(program))?;
    let service = Service::new(&args.dialect, address, &args.clients, recording.recorder());
    let noises = Arc::<Noises>::default();
    let served = service.and_then(|mut service| {
        service.options.session.idle_time = Some(args.session_idle);
        let bridge = Bridge {
            args: args.clone(),
            program: program.into(),
            account: service.options.account.clone(),
            recording: recording.clone(),
            noises: noises.clone(),
            places: Arc::new(Semaphore::new(args.servers.into())),
            next: AtomicU64::default(),
            is_abandoned: watch::Sender::default(),
            shared: Mutex::default(),
        };
        let ending = Ending::catch("rescind relay", &recording);
        runtime()?.block_on(Arc::new(bridge).serve(service, &ending))
    });
    if let Some(path) = recording.finish().filter(|_| !args.quiet) {
        summarize(&path);
    }
    if let Some(total) = noises.total() {
        log(format_args!("the servers' output: {total}"));
    }
    served?;
    Ok(ExitCode::SUCCESS)
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

/// Says what ended other than it should, and gives the exit code.
fn ended(
    program: &str,
    Relayed { relayed, exit, pushed, lost, .. }: Relayed,
) -> Result<ExitCode, Exit> {
    let mut lost = lost.get();
    match &relayed {
        Err(error) if is_not_read(error) => lost = lost.or(Some(error)),
        // That is what `lost` says.
        Err(error) if lost.is_none_or(|lost| lost.kind() != error.kind()) => log(error),
        _ => {}
    }
    let has_failed = has_failed(program, &exit, pushed);
    match lost {
        Some(error) => Err(Exit::output(error)),
        None => Ok(if has_failed { exit::ERROR } else { 0 }.into()),
    }
}

/// Whether this is about a client that did not read the last of what there was to say to it.
fn is_not_read(error: &io::Error) -> bool {
    let lost = error.get_ref().and_then(|error| error.downcast_ref::<NotRead>());
    lost.is_some_and(|lost| lost.side == Side::Up)
}

/// Says what is waited for. After a signal the server has a short time.
fn waits(ending: Ending) -> Waits {
    Box::new(move |wait| match wait {
        Wait::Answers { requests, within } => log(format_args!(
            "the client's input has ended; {} may still be answered for {}",
            counted(requests as u64, "request"),
            format_duration(within)
        )),
        Wait::Cancelled { requests, within } => log(format_args!(
            "the client is gone; the server has {} to answer {}, cancelled",
            format_duration(if ending.is_asked() { within.min(SHORT_GRACE) } else { within }),
            counted(requests as u64, "request")
        )),
        _ => {}
    })
}

fn observer(losses: Arc<Losses>) -> Observer {
    Box::new(move |side, event| {
        losses.count(&event);
        use CloseReason::{PeerGone, Shutdown};
        if !matches!(event, RelayEvent::Closed { reason: PeerGone | Shutdown }) {
            let line = Line::new().text(format_args!("rescind relay: {side}: "));
            say(line.value(event.to_string().as_bytes()));
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
