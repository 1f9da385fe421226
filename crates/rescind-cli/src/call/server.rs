//! A server that was started or reached, and the connection to it.

use std::env;
use std::ffi::OsString;
use std::process::{Command, ExitStatus};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use protocol_blocking::threaded::{self, Incoming, Options, Peer};
use protocol_child::{Owner, Spawned};
use protocol_core::{CloseReason, Role, Shutdown};

use super::attempt::{Attempt, Unreached};
use super::client::Client;
use super::opening;
use super::websocket::Socket;
use crate::dialect::Spoken;
use crate::http_client;
use crate::process::{self, ProcessArgs};

/// The time that a server has to end once its input is closed.
const GRACE: Duration = Duration::from_millis(500);

/// A server that runs and is spoken to.
pub(super) struct Server {
    spoken: Spoken,
    pub(super) peer: Peer,
    end: End,
    serving: JoinHandle<CloseReason>,
}

/// The other end of the connection.
enum End {
    Child(Owner),
    Socket(Socket),
}

impl Server {
    /// Starts the command, or the built-in peer, and connects to it; or connects to the address.
    pub(super) fn reach(spoken: Spoken, attempt: &Attempt<'_>) -> Result<Self, Unreached> {
        let Attempt { args, report, recording, deadline, .. } = *attempt;
        let config = match &args.connect {
            Some(_) => spoken.config(Role::Client),
            None => spoken.on_stdio(Role::Client),
        };
        let mut options = Options::new(config);
        options.trace = report.trace(&spoken.dialect);
        let (peer, incoming, end) = match &args.connect {
            Some(address) => {
                if address.is_http {
                    spoken.http_revisions().map_err(|why| Unreached::Usage(why.into()))?;
                }
                let trust = args.credentials.trust(address).map_err(Unreached::Usage)?;
                let options = recording.connection("server", options);
                let secret = args.credentials.token().map_err(Unreached::Usage)?;
                let (peer, incoming, socket) = if address.is_http {
                    let opened = http_client::open(address, &trust, secret, options, deadline);
                    let (peer, incoming, driver) = opened.map_err(|why| match deadline {
                        Some(at) if at <= Instant::now() => Unreached::TimedOut,
                        _ => Unreached::Failed(why),
                    })?;
                    (peer, incoming, Socket { driver })
                } else {
                    Socket::open(address, &trust, secret, options, deadline)?
                };
                (peer, incoming, End::Socket(socket))
            }
            None => {
                let spawned = spawn(&spoken, &args.command, &args.process)?;
                options.noise = Some(report.noise());
                let options = recording.connection("server", options);
                let connected = args.runtime.connect(spawned, options);
                let (peer, incoming, owner) = connected.map_err(|error| {
                    Unreached::Failed(format!("can't talk to the server: {error}"))
                })?;
                (peer, incoming, End::Child(owner))
            }
        };
        Ok(Self { spoken, peer, end, serving: serve(incoming, attempt) })
    }

    /// Says goodbye, and waits for the server's end. Gives its status, if we started it.
    pub(super) fn end(self) -> Option<ExitStatus> {
        opening::close(&self.spoken, &self.peer);
        // The server's own requests are over too. Then its input is closed.
        self.peer.shutdown(Shutdown::CancelAll);
        let status = match self.end {
            End::Child(owner) => {
                let process = owner.process().clone();
                drop(owner);
                process.wait().ok()
            }
            End::Socket(socket) => {
                socket.end();
                None
            }
        };
        // Output that came before the answer is shown before it.
        let _ = self.serving.join();
        status
    }
}

/// Spawns the command, or ourselves as the built-in peer. Its standard error is ours.
///
/// It is in a process group of its own: Ctrl-C is for us, and we pass it on as a cancel.
fn spawn(spoken: &Spoken, command: &[OsString], args: &ProcessArgs) -> Result<Spawned, String> {
    let spawn = match process::command(command) {
        Some(spawn) => spawn,
        None => {
            let ourselves = env::current_exe()
                .map_err(|error| format!("can't find the built-in peer: {error}"))?;
            let mut spawn = Command::new(ourselves);
            spawn.arg("serve").args(spoken.arguments());
            spawn
        }
    };
    let program = spawn.get_program().to_string_lossy().into_owned();
    protocol_child::spawn(args.child(spawn, GRACE))
        .map_err(|error| format!("can't start {program}: {error}"))
}

/// Serves what the server asks for and shows what it notifies, until the connection ends.
fn serve(incoming: Incoming, attempt: &Attempt<'_>) -> JoinHandle<CloseReason> {
    let client = Client::new(attempt);
    thread::spawn(move || threaded::serve(&incoming, 2, &client))
}
