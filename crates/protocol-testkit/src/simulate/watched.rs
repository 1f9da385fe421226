//! The messages of a handler under test, which its judge sees.

use protocol_async::Way;

use super::executor::with;
use super::trace::Happening;

/// A handler's side read or wrote a message.
pub(super) fn watch(connection: usize, way: Way, message: &[u8]) {
    let served = with(|world| {
        let message = message.to_vec();
        world.note(match way {
            Way::Received => Happening::Read { connection, message },
            Way::Sent => Happening::Wrote { connection, message },
        });
        world.served[connection].clone()
    });
    let judged = served.judge.borrow_mut().message(way, message);
    if let Err(problem) = judged {
        with(|world| world.fail(problem));
    }
}
