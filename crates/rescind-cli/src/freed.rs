//! Memory that was freed, and goes back to the system.

use std::convert::Infallible;
use std::time::Duration;

use tokio::time::sleep;

/// The bytes by which connections have to hold less than they did.
const LEAST: usize = 16 << 20;
/// The time between two looks.
pub const INTERVAL: Duration = Duration::from_secs(1);

/// The looks at which memory goes back after much was freed.
const LOOKS: u8 = 3;

/// Looks whether connections have freed so much that it should go back to the system.
///
/// glibc keeps a freed block below one that is in use. So one quiet client would keep all that an attack took.
#[derive(Debug, Default)]
pub struct Freed {
    peak: usize,
    before: usize,
    /// The looks at which to trim, whatever is used: what a connection held is free a while after its charge is gone.
    left: u8,
}

impl Freed {
    /// Returns whether to [`trim`], given the bytes that all connections hold. It is called each [`INTERVAL`].
    pub const fn look(&mut self, used: usize) -> bool {
        if used > self.peak {
            self.peak = used;
        }
        // While it falls, more is freed.
        if self.peak - used >= LEAST && used >= self.before {
            (self.peak, self.left) = (used, LOOKS);
        }
        self.before = used;
        let is_freed = self.left > 0;
        self.left = self.left.saturating_sub(1);
        is_freed
    }
}

/// Returns memory to the system whenever connections have freed much of it, given the bytes that they hold.
pub(crate) async fn release(used: impl Fn() -> usize) -> Infallible {
    let mut freed = Freed::default();
    loop {
        sleep(INTERVAL).await;
        if freed.look(used()) {
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
    fn f103_memory_goes_back_after_much_was_freed() {
        let mut freed = Freed::default();
        let mut trims =
            |looks: &[usize]| looks.iter().map(|used| freed.look(*used)).collect::<Vec<_>>();
        assert_eq!(trims(&[3 * LEAST, 2 * LEAST, LEAST]), [false; 3], "it rises or falls");
        assert_eq!(trims(&[LEAST; 4]), [true, true, true, false]);
        assert_eq!(trims(&[5 * LEAST, 4 * LEAST + 1, 4 * LEAST + 1]), [false; 3], "it is little");
    }
}
