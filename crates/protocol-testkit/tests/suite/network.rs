//! The ends of a simulated line keep the rules of [`AsyncRead`] and [`AsyncWrite`].

use std::future::poll_fn;
use std::pin::Pin;
use std::time::Duration;

use futures_io::{AsyncRead, AsyncWrite};
use protocol_testkit::simulate::simulate;

#[test]
fn an_empty_buffer_takes_nothing_from_a_line_and_gives_it_nothing() {
    simulate(0..20, |simulation| {
        let [(mut reader, near), (far, mut writer)] = simulation.line(usize::MAX);
        simulation.spawn("both ends", async move {
            for bytes in [&b""[..], b"x"] {
                let written = poll_fn(|cx| Pin::new(&mut writer).poll_write(cx, bytes)).await;
                assert_eq!(written.unwrap(), bytes.len());
            }
            simulation.sleep(Duration::from_secs(2)).await;
            let mut room = [0];
            for len in 0..=1 {
                let room = &mut room[..len];
                let read = poll_fn(|cx| Pin::new(&mut reader).poll_read(cx, room)).await;
                assert_eq!(read.unwrap(), len);
            }
            assert_eq!(room, *b"x");
            drop((near, far));
        });
    });
}
