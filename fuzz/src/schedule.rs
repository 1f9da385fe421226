//! One host, twice: its output is drained at different times.

use std::time::Duration;

use protocol_core::{Config, Role};
use protocol_testkit::{judge_draining, operations};

use crate::bytes::Bytes;

/// The first bytes choose the dialect and the role, and when either connection is drained. The rest
/// are operations, done to both, up to a shutdown. Messages and events may differ only as
/// [`judge_draining`] allows (G11).
pub fn schedule(data: &[u8]) {
    let mut bytes = Bytes::new(data);
    let mut config = Config::client(bytes.dialect());
    config.abandoned_grace = Duration::from_millis(40);
    config.role = bytes.pick(&[Role::Client, Role::Server]);
    let drains = [0, 1].map(|_| {
        let mut bits = [0; 4];
        let taken = bytes.take(4);
        bits[..taken.len()].copy_from_slice(taken);
        u32::from_le_bytes(bits)
    });
    if let Err(broken) = judge_draining(&config, drains, &operations(bytes.rest())) {
        panic!("{broken}");
    }
}
