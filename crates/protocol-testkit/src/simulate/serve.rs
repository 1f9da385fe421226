//! A handler under test, and the scripted peer at its other end.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::rc::Rc;
use std::sync::Arc;

use protocol_async::{Incoming, Options, connect, connect_messages};
use protocol_core::Framing;

use super::executor::{Simulation, index, with};
use super::far::{Choose, Far, carry};
use super::judge::Judge;
use super::network::{Reader, Writer};
use super::script::Script;
use super::served::Served;
use super::socket::Socket;
use super::trace::Hop;
use super::watched::watch;

impl Simulation {
    /// Serves a scripted peer by a handler: the future that `handler` makes of what arrives, as
    /// `router.serve(&incoming).await` does. Everything that is checked without a line of yours is
    /// checked of it; the [module](super) says what.
    pub fn serve<F: Future + 'static>(self, script: Script, handler: impl FnOnce(Incoming) -> F) {
        let framing = script.config.dialect.framing;
        let is_apart =
            framing == Framing::Whole || framing == Framing::Newline && self.weather(4) == 0;
        // A line of bytes has no better way to keep messages apart.
        let framing = if is_apart { Framing::Newline } else { framing };
        let (connection, served) = served(&script, framing, true);
        let (token, mut options) = (served.token.clone(), Options::new(script.config.clone()));
        (script.options)(&mut options);
        options.entropy = || Some(std::array::from_fn(|_| Simulation.weather(256) as u8));
        options.trace = Some(Box::new(move |way, message| {
            let _ = &token;
            watch(connection, way, message);
        }));
        let (reader, writer) = self.far_line(&script, &served);
        let (peer, incoming);
        served.reader.set(with(|world| world.tasks_made));
        if is_apart {
            let driver;
            let socket = Socket::new(reader, writer);
            (peer, incoming, driver) = connect_messages(socket, self, options);
            self.spawn("driver", async move { drop(driver.await) });
        } else {
            let driver;
            (peer, incoming, driver) = connect(reader, writer, self, options);
            self.spawn("driver", async move { drop(driver.await) });
        }
        *served.near.borrow_mut() = Some(peer);
        let handler = handler(incoming);
        self.spawn("handler", async move { drop(handler.await) });
    }

    /// As [`serve`](Self::serve), for a handler that has no connection of ours: it reads and writes
    /// whole messages. What can't be seen in the messages can't be checked of it.
    pub fn serve_messages<F: Future + 'static>(
        self,
        script: Script,
        handler: impl FnOnce(Socket) -> F,
    ) {
        let (connection, served) = served(&script, Framing::Newline, false);
        let (reader, writer) = self.far_line(&script, &served);
        served.reader.set(with(|world| world.tasks_made));
        let handler = handler(Socket::new(reader, writer).watched(connection));
        self.spawn("handler", async move { drop(handler.await) });
    }

    /// The near end of a line to the scripted peer.
    fn far_line(self, script: &Script, served: &Served) -> (Reader, Writer) {
        let is_cut = script.hangs_up && self.weather(4) == 0;
        let fuse = if is_cut { self.weather(4_000) as usize } else { usize::MAX };
        let [near, (reader, writer)] = self.line(fuse);
        self.spawn_network(carry(served.far.clone(), reader, writer, self));
        near
    }
}

fn served(script: &Script, framing: Framing, is_ours: bool) -> (usize, Rc<Served>) {
    let mut script = script.clone();
    // A cancel that may come at each step comes nearly always: a seed draws how many there may be.
    let most = script.cancels as u64;
    script.cancels = index(Simulation.weather(most.saturating_add(1)));
    let script = &script;
    let choose = Simulation.is_search().then_some((|among| Simulation.choose(among)) as Choose);
    let served = Rc::new(Served {
        far: Rc::new(RefCell::new(Far::new(script.clone(), framing, choose))),
        judge: RefCell::new(Judge::new(script, is_ours)),
        near: RefCell::new(None),
        reader: Cell::new(0),
        token: Arc::default(),
    });
    let (role, dialect) = (script.config.role, script.config.dialect.clone());
    with(|world| {
        Arc::make_mut(&mut world.trace.hops).push(Hop { role, dialect });
        world.served.push(served.clone());
        (world.served.len() - 1, served)
    })
}
