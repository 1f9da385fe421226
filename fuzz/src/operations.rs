//! Two connected hosts against their reference models.

use protocol_testkit::{World, both_roles, small};

use crate::bytes::Bytes;

/// The first byte chooses the dialect, the second the line between the hosts; the rest are
/// operations. After each of them the real state and the model must agree, and at the end nothing
/// may be left.
pub fn operations(data: &[u8]) {
    let mut bytes = Bytes::new(data);
    let configs = both_roles(small(bytes.dialect()));
    let capacity = bytes.pick(&[usize::MAX, 1, 1_000]);
    let mut world = World::on_a_line_of(configs, capacity);
    let operations = protocol_testkit::operations(bytes.rest());
    for (place, operation) in operations.iter().enumerate() {
        if let Err(broken) = world.apply(operation) {
            panic!("{broken}, after {:#?}", printed(&operations[..=place]));
        }
    }
    if let Err(broken) = world.finish() {
        panic!("{broken}, at the end of {:#?}", printed(&operations));
    }
}

fn printed(operations: &[protocol_testkit::Operation]) -> Vec<String> {
    operations.iter().map(ToString::to_string).collect()
}
