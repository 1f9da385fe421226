//! One world: two peers, perhaps with a relay between them, and how their connection ends.

use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use protocol_async::{Canceller, Options, Peer, connect, connect_messages, relay};
use protocol_core::{
    CancelRule, Cancellers, Cause, Config, Dialect, Framing, Role, Shutdown, Violation,
};
use protocol_relay::RelayEvent;
use protocol_testkit::simulate::{Reader, Simulation, Socket, Writer};
use serde_json::{Value, json};

use crate::history::{Harshness, History};
use crate::wire::{self, Log};
use crate::workload::{call, serve};

const DIALECTS: [Dialect; 7] = [
    Dialect::JSON_RPC,
    Dialect::ACP_V1,
    Dialect::LSP_3_17,
    Dialect::MCP_2025_11_25,
    Dialect::MCP_2026_07_28,
    Dialect::ABP,
    Dialect::ERLMCP,
];

/// When every call has settled.
const AFTERWARDS: Duration = Duration::from_secs(2 * 60 * 60);

/// The way in which one side ends the connection.
#[derive(Clone, Copy, Debug)]
enum Ending {
    Shutdown(Shutdown),
    /// Nobody serves any more; the last handle is gone too, unless a caller has one.
    StopServing,
    /// The driver is dropped.
    StopDriving,
}

const ENDINGS: [Ending; 5] = [
    Ending::Shutdown(Shutdown::Drain),
    Ending::Shutdown(Shutdown::CancelAll),
    Ending::Shutdown(Shutdown::Abandon),
    Ending::StopServing,
    Ending::StopDriving,
];

/// One side of the connection.
struct Site {
    dialect: Dialect,
    /// The connection has it too, as long as it lives.
    log: Arc<Mutex<Log>>,
    serving: Canceller,
    driving: Canceller,
}

/// Draws a world, sets it going, and judges it in the end.
pub(crate) fn world(_: Simulation) {
    let (history, sites) = begin();
    Simulation.check(move |_| {
        let mut problems = history.problems();
        for site in sites {
            let Site { dialect, log, .. } = &*site;
            if Arc::strong_count(log) > 1 {
                problems.push("G8: a connection outlives its handles".into());
            }
            problems.extend(wire::judge(
                dialect,
                &log.lock().unwrap(),
                history.harshness.is_interrupted,
            ));
        }
        if problems.is_empty() { Ok(()) } else { Err(problems.join("\n")) }
    });
}

/// Draws a world, and sets it going.
fn begin() -> (History, [Rc<Site>; 2]) {
    let near = Simulation.one_of(&DIALECTS);
    let far = if Simulation.choose(4) == 0 { Some(Simulation.one_of(&DIALECTS)) } else { None };
    let fuse = if Simulation.choose(4) == 0 {
        usize::try_from(Simulation.choose(8_000)).unwrap()
    } else {
        usize::MAX
    };
    let interruption = (Simulation.choose(4) == 0).then(|| Simulation.one_of(&ENDINGS));
    let is_interrupted = fuse < usize::MAX || interruption.is_some();
    // A connection's own refusals are dropped if they find no room, and without a server there is
    // nobody to see that (`History::drop_answer`).
    let is_tight = !is_interrupted && Simulation.choose(8) == 0;
    let history = History::new(Harshness {
        is_interrupted,
        is_tight,
        is_relayed: far.is_some(),
        cancels_pass: [near.clone(), far.clone().unwrap_or(near.clone())].iter().all(|dialect| {
            dialect.cancellers == Cancellers::Both
                && dialect.cancel != CancelRule::Local
                && !dialect.has_operations()
        }),
    });
    let config = |dialect, role| config(dialect, role, is_tight);
    let [client, mut server] = Simulation.line(fuse);
    if let Some(far) = far.clone() {
        let (up, down) = (config(near.clone(), Role::Server), config(far, Role::Client));
        let mut options = relay::Options::new(up, down);
        options.observer = Some(Box::new(move |side, event| {
            Simulation.note(format!("Relay {side} {event:?}"));
            if let RelayEvent::Violation { violation: Violation::ResponseDropped, .. } = event {
                History::drop_answer();
            }
        }));
        let [behind, last] = Simulation.line(fuse);
        let hop = relay(std::mem::replace(&mut server, last), behind, Simulation, options);
        Simulation.spawn("a relay", async move { drop(hop.await) });
    }
    let client = open(client, config(near.clone(), Role::Client), &history);
    let server = open(server, config(far.unwrap_or(near), Role::Server), &history);
    let sites = [client.1.clone(), server.1.clone()];
    if let Some(ending) = interruption {
        let (peer, site) = if Simulation.choose(2) == 0 { client.clone() } else { server.clone() };
        Simulation.spawn("an interruption", async move {
            Simulation.sleep(Simulation.time_below(400)).await;
            site.end(&peer, ending);
        });
    }
    Simulation.spawn("the conductor", conduct([client, server], history.clone()));
    (history, sites)
}

fn config(dialect: Dialect, role: Role, is_tight: bool) -> Config {
    let mut config = Config::client(dialect.clone());
    config.role = role;
    config.unix_time_at_zero = Duration::from_secs(1_000_000_000);
    if dialect.framing == Framing::Whole {
        // A line has no other way to keep messages apart.
        config.dialect.framing = Framing::Newline;
    }
    if is_tight {
        config.limits.calls = 4;
        config.limits.requests = 4;
        config.limits.unsent_bytes = 400;
    }
    config
}

/// Makes one side, its driver and its server. The driver is of bytes or of whole messages.
fn open((reader, writer): (Reader, Writer), config: Config, history: &History) -> (Peer, Rc<Site>) {
    let site = Rc::new(Site {
        dialect: config.dialect.clone(),
        log: Arc::default(),
        serving: Canceller::new(),
        driving: Canceller::new(),
    });
    let (role, framing, log) = (config.role, config.dialect.framing, site.log.clone());
    let mut options = Options::new(config);
    options.entropy = || Some(std::array::from_fn(|_| Simulation.choose(256) as u8));
    options.trace = Some(Box::new(move |way, message| {
        let message = String::from_utf8_lossy(message).into_owned();
        Simulation.note(format!("{role:?} {way:?} {message}"));
        log.lock().unwrap().push((way, message));
    }));
    let (driving, is_apart) =
        (site.driving.marker(), framing == Framing::Newline && Simulation.choose(4) == 0);
    let (peer, incoming) = if is_apart {
        let socket = Socket::new(reader, writer);
        let (peer, incoming, driver) = connect_messages(socket, Simulation, options);
        Simulation.spawn("a driver", async move { drop(driving.unless_cancelled(driver).await) });
        (peer, incoming)
    } else {
        let (peer, incoming, driver) = connect(reader, writer, Simulation, options);
        Simulation.spawn("a driver", async move { drop(driving.unless_cancelled(driver).await) });
        (peer, incoming)
    };
    let (serving, history) = (site.serving.marker(), history.clone());
    Simulation.spawn("a server", async move {
        let _ = serving.unless_cancelled(serve(incoming, &history)).await;
    });
    (peer, site)
}

impl Site {
    fn end(&self, peer: &Peer, ending: Ending) {
        match ending {
            Ending::Shutdown(how) => peer.shutdown(how),
            Ending::StopServing => self.serving.cancel(Cause::Internal),
            Ending::StopDriving => self.driving.cancel(Cause::Internal),
        }
    }
}

/// Opens the session, lets both sides call, and judges the end of it all.
async fn conduct(sides: [(Peer, Rc<Site>); 2], history: History) {
    let _ = sides[0].0.call::<Value>("initialize", json!({})).await;
    for (peer, _) in &sides {
        for _ in 0..=Simulation.choose(8) {
            let (peer, history) = (peer.clone(), history.clone());
            Simulation.spawn("a caller", async move {
                Simulation.sleep(Simulation.time_below(300)).await;
                call(&peer, &history).await;
            });
        }
    }
    Simulation.sleep(AFTERWARDS).await;
    for (peer, _) in &sides {
        peer.flushed().await;
        let left = peer.in_flight(usize::MAX);
        if !left.is_empty() {
            history.problem(format!("G8: still in flight: {left:?}"));
        }
    }
    let (peer, site) = &sides[Simulation.choose(2) as usize];
    site.end(peer, Simulation.one_of(&ENDINGS));
}
