//! Calls of the host's own code.

use std::any::Any;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};

use protocol_endpoint::Failure;

/// Runs the host's own code where a panic of it must harm nothing else. The panic hook reports the panic.
pub fn catch_panic(work: impl FnOnce()) {
    let _ = unless_it_panics(work);
}

/// Runs the host's own code. Returns `None` if it panics. The panic hook reports the panic.
pub fn unless_it_panics<T>(run: impl FnOnce() -> T) -> Option<T> {
    catch_unwind(AssertUnwindSafe(run)).map_err(drop_panic).ok()
}

/// Runs a part of the handler of this method. If it panics, `failed` makes the result of that failure.
pub fn run_handler<T>(
    method: &str,
    part: impl FnOnce() -> T,
    failed: impl FnOnce(Failure) -> T,
) -> T {
    catch_unwind(AssertUnwindSafe(part)).unwrap_or_else(|panic| {
        let failure = Failure::panicked(method, &*panic);
        catch_panic(|| drop(panic));
        failed(failure)
    })
}

/// Drops the value of a panic, whose destructor is the host's too.
fn drop_panic(panic: Box<dyn Any + Send>) {
    if let Err(another) = catch_unwind(AssertUnwindSafe(|| drop(panic))) {
        mem::forget(another);
    }
}

#[cfg(test)]
mod tests {
    use std::panic::panic_any;

    use super::*;

    /// A value whose destructor panics with another, so many times.
    struct Bomb(u32);

    impl Drop for Bomb {
        fn drop(&mut self) {
            if self.0 > 0 {
                panic_any(Bomb(self.0 - 1));
            }
        }
    }

    #[test]
    fn b33_a_panic_with_a_value_whose_destructor_panics_is_caught() {
        catch_panic(|| panic_any(Bomb(3)));
    }
}
