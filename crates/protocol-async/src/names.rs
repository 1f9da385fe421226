//! The names of the methods in flight, each kept once: the rows of calls and requests are moved often, so
//! what they hold of a name is four bytes.

use std::collections::HashMap;
use std::num::NonZeroU32;
use std::sync::Arc;

use slab::Slab;

use crate::method::{CLIPPED, clip};
use crate::outcome::MAP;

/// What stands for a name in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NameKey(NonZeroU32);

/// Names with how many rows have each. One that no row has is let go, but the last one that was asked
/// for: mostly it is asked for next.
#[derive(Debug, Default)]
pub(crate) struct Names {
    kept: Slab<Name>,
    // Hashed with a secret: the peer chooses its names.
    keys: HashMap<Arc<str>, NameKey>,
    last: Option<NameKey>,
    /// How many rows there are.
    rows: usize,
}

#[derive(Debug)]
struct Name {
    name: Arc<str>,
    rows: u32,
}

impl Names {
    /// The most bytes of a name: both tables may have grown, and are moved as they do.
    pub(crate) const ROW: usize = 3 * (size_of::<Name>() + size_of::<usize>())
        + MAP * size_of::<(Arc<str>, NameKey)>()
        + CLIPPED
        + size_of::<[usize; 2]>();
    /// Room for so many is kept when there are none.
    const KEPT: usize = 64;

    /// Keeps a name for one more row, or as much of a long one as messages show: a peer chose it, and it
    /// is kept for as long as the request is in flight.
    pub(crate) fn keep(&mut self, name: &str) -> NameKey {
        let name = clip(name);
        let last = self.last.filter(|last| &*self.kept[last.slot()].name == name);
        let key = last.or_else(|| self.keys.get(name).copied()).unwrap_or_else(|| self.add(name));
        self.rows += 1;
        self.kept[key.slot()].rows += 1;
        let before = self.last.replace(key).filter(|before| *before != key);
        if let Some(before) = before {
            self.let_go_unused(before);
        }
        key
    }

    /// A row that had a name is gone.
    pub(crate) fn let_go(&mut self, key: NameKey) {
        self.rows -= 1;
        self.kept[key.slot()].rows -= 1;
        if self.rows == 0 && self.kept.capacity() > Self::KEPT {
            *self = Self::default();
        } else if self.last != Some(key) {
            self.let_go_unused(key);
        }
    }

    pub(crate) fn get(&self, key: NameKey) -> &str {
        &self.kept[key.slot()].name
    }

    fn add(&mut self, name: &str) -> NameKey {
        let name: Arc<str> = name.into();
        let slot = self.kept.insert(Name { name: name.clone(), rows: 0 });
        let key = u32::try_from(slot + 1).ok().and_then(NonZeroU32::new).map(NameKey);
        let key = key.expect("the core keeps its tables under 2^32 rows");
        self.keys.insert(name, key);
        key
    }

    fn let_go_unused(&mut self, key: NameKey) {
        if self.kept[key.slot()].rows == 0 {
            let Name { name, .. } = self.kept.remove(key.slot());
            self.keys.remove(&name);
        }
    }
}

impl NameKey {
    const fn slot(self) -> usize {
        self.0.get() as usize - 1
    }
}

#[cfg(test)]
mod tests {
    use heap::Heap;

    use super::*;

    #[test]
    fn g08_a_name_is_kept_once_and_for_as_long_as_a_row_has_it() {
        let mut names = Names::default();
        let keys = ["a", "b", "a"].map(|name| names.keep(name));
        assert_eq!(keys.map(|key| names.get(key).to_owned()), ["a", "b", "a"]);
        assert_eq!((keys[0], names.kept.len()), (keys[2], 2));
        names.let_go(keys[0]);
        assert_eq!(names.get(keys[2]), "a");
        names.let_go(keys[1]);
        names.let_go(keys[2]);
        assert_eq!((names.kept.len(), names.keys.len()), (1, 1), "the last one, for the next row");
        names.keep("c");
        assert_eq!((names.kept.len(), names.keys.len()), (1, 1));
    }

    #[test]
    fn g08_of_a_long_name_as_much_is_kept_as_messages_show() {
        let mut names = Names::default();
        let key = names.keep(&"m".repeat(100_000));
        assert_eq!(names.get(key).len(), CLIPPED);
    }

    #[test]
    fn g08_what_a_burst_of_names_took_is_given_back() {
        let mut names = Names::default();
        let keys: Vec<NameKey> = (0..10_000).map(|n| names.keep(&n.to_string())).collect();
        assert_eq!(names.kept.len(), keys.len());
        keys.into_iter().for_each(|key| names.let_go(key));
        assert!(names.kept.capacity() <= Names::KEPT && names.keys.capacity() <= Names::KEPT);
    }

    #[test]
    fn g08_no_name_takes_more_than_its_row() {
        // One more than fits makes a table grow; and each is longer than what is kept of it.
        let names: Vec<String> = (0..897).map(|n| format!("{n}{}", "x".repeat(200))).collect();
        let heap = Heap::of_thread();
        let mut kept = Names::default();
        for name in &names {
            kept.keep(name);
        }
        let (peak, most) = (heap.peak(), names.len() * Names::ROW);
        assert!(peak <= most, "{peak} bytes were held, and {most} counted");
    }
}
