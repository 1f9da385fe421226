//! Whether a process can be named.

/// Whether the process that was spawned can still be named by its id.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Spawned {
    Unreaped,
    Reaped,
}
