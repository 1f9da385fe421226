//! Memory that was freed, and goes back to the system.

use std::convert::Infallible;
use std::time::Duration;

use protocol_async::Account;
use tokio::time::sleep;

/// The bytes by which connections have to hold less than they did.
const LEAST: usize = 16 << 20;
/// The time between two looks.
pub const INTERVAL: Duration = Duration::from_secs(1);

/// Looks whether connections have freed so much that it should go back to the system.
///
/// glibc keeps a freed block below one that is in use, however small that is and however long nobody needs the other.
/// So one quiet client would keep all that an attack took.
#[derive(Debug, Default)]
pub struct Freed {
    peak: usize,
    before: usize,
}

impl Freed {
    /// Returns whether to [`trim`], given the bytes that all connections hold. It is called each [`INTERVAL`].
    pub const fn look(&mut self, used: usize) -> bool {
        if used > self.peak {
            self.peak = used;
        }
        // While it falls, more is freed.
        let is_freed = self.peak - used >= LEAST && used >= self.before;
        if is_freed {
            self.peak = used;
        }
        self.before = used;
        is_freed
    }
}

/// Returns memory to the system whenever the connections of an account have freed much of it.
pub(crate) async fn release(account: Account) -> Infallible {
    let mut freed = Freed::default();
    loop {
        sleep(INTERVAL).await;
        if freed.look(account.used()) {
            trim();
        }
    }
}

/// Returns the memory that is free to the system.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[allow(unsafe_code, reason = "each function of C is unsafe to call")]
pub fn trim() {
    // SAFETY: it takes a number, and any thread may call it at any time.
    unsafe { libc::malloc_trim(0) };
}

/// Does nothing: other allocators do it by themselves.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub const fn trim() {}

#[cfg(test)]
mod tests {
    use super::{Freed, LEAST};

    #[test]
    fn f103_memory_goes_back_once_after_much_was_freed() {
        let mut freed = Freed::default();
        let looks = [3 * LEAST, 2 * LEAST, LEAST, LEAST, LEAST, 5 * LEAST, 4 * LEAST + 1, 4 * LEAST + 1];
        let trims: Vec<_> = looks.into_iter().map(|used| freed.look(used)).collect();
        assert_eq!(trims, [false, false, false, true, false, false, false, false]);
    }
}
