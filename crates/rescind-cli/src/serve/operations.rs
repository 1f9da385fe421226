//! The operations of a dialect that has any: told of on standard error, and counted in a file.

use std::path::Path;
use std::time::Instant;

use protocol_async::{Options, SharedOperations};
use protocol_core::{CancelRule, Dialect, Timestamp};
use serde_json::value::RawValue;

use crate::note;

/// The operations of every connection. Each that was cancelled is noted when it has stopped, with
/// what it had made until then, for the protocol has no place for that.
pub(super) fn operations(dialect: &Dialect) -> SharedOperations {
    let start = Instant::now();
    let operations = SharedOperations::new(move || Timestamp::ZERO + start.elapsed());
    let CancelRule::Operation { started_by, .. } = &dialect.cancel else { return operations };
    started_by.iter().fold(operations, |operations, method| {
        let name = method.clone();
        operations.clean_up(method, move |ended| {
            let reason = ended.reason.as_ref().map_or_else(String::new, ToString::to_string);
            let partial = ended.partial.as_deref().map_or("nothing", RawValue::get);
            let token = ended.token;
            note(format_args!(
                "rescind serve: {name} {token:?} cancelled ({reason}); it had made {partial}"
            ));
        })
    })
}

/// The parts of a connection.
pub(super) fn options(options: impl Into<Options>, operations: &SharedOperations) -> Options {
    let mut options = options.into();
    if options.config.dialect.has_operations() {
        options.operations = Some(operations.clone());
    }
    options
}

/// Writes what Prometheus reads.
pub(super) fn write_metrics(path: Option<&Path>, operations: &SharedOperations) {
    let Some(path) = path else { return };
    if let Err(error) = std::fs::write(path, operations.metrics().prometheus().to_string()) {
        note(format_args!("rescind serve: {}: {error}", path.display()));
    }
}
