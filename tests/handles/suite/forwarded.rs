//! Notifications that a router passes on, in the order of the wire.

use protocol_async::Arrival;
use protocol_core::{Config, Dialect};

use super::{Router, TICK, connect, run, sleep, spawn};
use crate::pipe::pipe;

/// Passes so many notifications on to a peer that takes them in gusts, with room for so many bytes.
fn forward(count: u64, unsent_bytes: usize) {
    let pair = |near: Config| {
        let (near_reader, far_writer) = pipe(4 << 10);
        let (far_reader, near_writer) = pipe(4 << 10);
        let far = Config::server(Dialect::LSP_3_17);
        (connect(near_reader, near_writer, near), connect(far_reader, far_writer, far))
    };
    run(async move {
        let mut config = Config::client(Dialect::LSP_3_17);
        config.limits.unsent_bytes = unsent_bytes;
        let ((client, _), (_, front)) = pair(Config::client(Dialect::LSP_3_17));
        let ((back, _), (_, server)) = pair(config);
        spawn(async move {
            let router = Router::new().notification("didChange", async move |n: (u64,), _| {
                Ok(back.notify("didChange", n).await?)
            });
            router.serve(&front).await;
        });
        spawn(async move {
            for n in 0..count {
                client.notify("didChange", [n]).await.unwrap();
            }
        });
        for expected in 0..count {
            let Ok(Arrival::Notification(change)) = server.receive().await else {
                panic!("it ended after {expected}")
            };
            assert_eq!(change.params::<(u64,)>().unwrap().0, expected);
            if expected % 2_000 == 0 {
                sleep(TICK).await;
            }
        }
    });
}

#[test]
fn f86_notifications_are_forwarded_in_order() {
    forward(6_000, 8 << 20);
}

#[test]
fn f86_notifications_are_forwarded_in_order_where_room_is_scarce() {
    forward(60_000, 8 << 10);
}
