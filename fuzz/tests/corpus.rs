//! The committed corpus, replayed: every finding of the past stays fixed.

use std::path::PathBuf;

use rescind_fuzz::pack::{pack, unpack};
use rescind_fuzz::{TARGETS, Target};

fn replay(name: &str, target: Target) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("corpus").join(name);
    let packed = std::fs::read(path.with_extension("pack")).expect("the pack is committed");
    let entries = unpack(&packed);
    assert!(!entries.is_empty(), "an empty corpus shows nothing");
    assert!(pack(&entries) == packed, "{name}.pack is not as corpus.sh writes it");
    for (entry, bytes) in &entries {
        // A panic ends the test; this says at which input.
        println!("{name}: {entry}");
        target(bytes);
    }
}

/// One test a target, so that they run side by side.
macro_rules! replayed {
    ($($name:ident)*) => {
        $(#[test]
        fn $name() {
            replay(stringify!($name), rescind_fuzz::$name);
        })*

        #[test]
        fn every_target_is_replayed() {
            assert_eq!([$(stringify!($name)),*], TARGETS.map(|(name, _)| name));
        }
    };
}

replayed!(frames messages operations schedule relay differential handler endpoint session);
