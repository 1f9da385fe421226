//! The way from the relay's writer to the peer, on which faults are done.

use std::io;
use std::pin::pin;

use futures_util::future::{Either, pending, select};
use futures_util::{AsyncReadExt, AsyncWriteExt};
use protocol_async::Timer;
use protocol_core::Timestamp;
use protocol_relay::Side;
use smol::io::{AsyncRead, AsyncWrite};
use tokio::io::{DuplexStream, duplex};
use tokio_util::compat::{Compat, TokioAsyncReadCompatExt};

use super::plan::Plan;
use super::rule::Deed;

/// Bytes that are on the way at once.
const ROOM: usize = 64 << 10;
/// Bytes that delays may hold back; nothing more is taken until some of them are written.
const HELD: usize = 16 << 20;

impl Plan {
    /// Makes a pipe that replaces the peer's stream, and a future that carries its bytes. The future returns whether a fault
    /// cut the stream.
    pub(in crate::relay) fn pipe<W: AsyncWrite + Unpin>(
        &self,
        side: Side,
        to: W,
        timer: impl Timer,
    ) -> (Compat<DuplexStream>, impl Future<Output = io::Result<bool>>) {
        let (ours, theirs) = duplex(ROOM);
        let (left, cut) = self.cut(side).unwrap_or((u64::MAX, String::new()));
        let carrier = Carrier {
            plan: self.clone(),
            side,
            timer,
            to,
            left,
            cut,
            unread: Vec::new(),
            held: Vec::new(),
        };
        (ours.compat(), carrier.run(theirs.compat()))
    }
}

struct Carrier<W, T> {
    plan: Plan,
    side: Side,
    timer: T,
    to: W,
    /// Bytes until it is cut, and the fault that says so.
    left: u64,
    cut: String,
    /// The bytes that came and are no whole message yet.
    unread: Vec<u8>,
    /// Delayed messages, each with the time when it is due; the first that is due is last.
    held: Vec<(Timestamp, Vec<u8>)>,
}

impl<W: AsyncWrite + Unpin, T: Timer> Carrier<W, T> {
    /// Carries what comes until the relay is done with it or the peer is gone. Returns whether a fault cut it.
    async fn run(mut self, mut from: impl AsyncRead + Unpin) -> io::Result<bool> {
        let mut next = self.plan.next(self.side);
        let mut is_open = true;
        while is_open || !self.held.is_empty() {
            let mut chunk = [0; 8 << 10];
            let may_read = is_open && self.held_bytes() < HELD;
            match self.wait(&mut from, &mut chunk, may_read).await? {
                Some(0) => is_open = false,
                Some(read) => self.unread.extend_from_slice(&chunk[..read]),
                None => {}
            }
            loop {
                next = next.or_else(|| self.plan.next(self.side));
                let Some((len, deed)) = next.filter(|(len, _)| *len <= self.unread.len()) else {
                    break;
                };
                next = None;
                let message: Vec<u8> = self.unread.drain(..len).collect();
                self.carry(message, deed).await?;
            }
            self.release().await?;
            if self.left == 0 {
                return self.to.close().await.map(|()| true);
            }
        }
        self.to.close().await.map(|()| false)
    }

    /// Reads something, or waits until something that was delayed is due.
    async fn wait(
        &self,
        from: &mut (impl AsyncRead + Unpin),
        chunk: &mut [u8],
        may_read: bool,
    ) -> io::Result<Option<usize>> {
        let due = self.held.last().map(|(due, _)| *due);
        let sleep = async {
            match due {
                Some(due) => self.timer.sleep_until(due).await,
                None => pending().await,
            }
        };
        if !may_read {
            sleep.await;
            return Ok(None);
        }
        match select(from.read(chunk), pin!(sleep)).await {
            Either::Left((read, _)) => read.map(Some),
            Either::Right(((), _)) => Ok(None),
        }
    }

    fn held_bytes(&self) -> usize {
        self.held.iter().map(|(_, bytes)| bytes.len()).sum()
    }

    async fn carry(&mut self, message: Vec<u8>, deed: Option<Deed>) -> io::Result<()> {
        match deed {
            None | Some(Deed::Cut(_)) => self.write(&message).await,
            Some(Deed::Drop) => Ok(()),
            Some(Deed::Duplicate) => {
                self.write(&message).await?;
                self.write(&message).await
            }
            Some(Deed::Delay(time)) => {
                let due = self.timer.now() + time;
                let at = self.held.partition_point(|(other, _)| *other > due);
                self.held.insert(at, (due, message));
                Ok(())
            }
        }
    }

    /// Writes what was delayed and is due.
    async fn release(&mut self) -> io::Result<()> {
        while self.held.last().is_some_and(|(due, _)| *due <= self.timer.now()) {
            let (_, message) = self.held.pop().expect("it is there");
            self.write(&message).await?;
        }
        Ok(())
    }

    async fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.left == 0 {
            return Ok(());
        }
        let most = usize::try_from(self.left).unwrap_or(usize::MAX).min(bytes.len());
        self.to.write_all(&bytes[..most]).await?;
        self.left -= most as u64;
        if self.left == 0 {
            self.plan.tell(self.side, &self.cut);
        }
        self.to.flush().await
    }
}
