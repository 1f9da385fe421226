//! The names of the methods in flight, each kept once.
//!
//! The rows of calls and requests are moved often, so a row holds four bytes for its name.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use core::num::NonZeroU32;

use slab::Slab;

use crate::method::{CLIPPED, clip};

/// The key of a name, which stands for it in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NameKey(NonZeroU32);

/// Names, each with the number of its rows.
///
/// A name without rows is released, except for the one that was asked for last. It is likely to be asked for
/// next.
#[derive(Debug, Default)]
pub(crate) struct Names {
    kept: Slab<Name>,
    keys: BTreeMap<Arc<str>, NameKey>,
    last: Option<NameKey>,
}

#[derive(Debug)]
struct Name {
    name: Arc<str>,
    rows: u32,
}

impl Names {
    /// The most bytes of a name. Both tables may be growing, which moves them.
    pub(crate) const ROW: usize = 3 * (size_of::<Name>() + size_of::<usize>())
        + 4 * size_of::<(Arc<str>, NameKey)>()
        + CLIPPED
        + size_of::<[usize; 2]>();
    /// The number of names for which room is kept when there are none.
    const KEPT: usize = 64;

    /// Keeps a name for one more row. A long name is clipped, because a peer chose its length and it is kept
    /// for as long as the request is in flight.
    #[inline]
    pub(crate) fn keep(&mut self, name: &str) -> NameKey {
        if let Some(last) = self.last {
            let kept = &mut self.kept[last.slot()];
            if &*kept.name == name {
                kept.rows += 1;
                return last;
            }
        }
        self.keep_another(clip(name))
    }

    fn keep_another(&mut self, name: &str) -> NameKey {
        let key = self.keys.get(name).copied().unwrap_or_else(|| self.add(name));
        self.kept[key.slot()].rows += 1;
        let before = self.last.replace(key).filter(|before| *before != key);
        if let Some(before) = before.filter(|before| self.kept[before.slot()].rows == 0) {
            self.remove(before);
        }
        key
    }

    /// Releases the name of a row that is gone.
    #[inline]
    pub(crate) fn release(&mut self, key: NameKey) {
        let kept = &mut self.kept[key.slot()];
        kept.rows -= 1;
        if kept.rows == 0 {
            self.release_unused(key);
        }
    }

    fn release_unused(&mut self, key: NameKey) {
        if self.last != Some(key) {
            self.remove(key);
        }
        // The last name may be the only one.
        let is_used = || self.kept.len() > 1 || self.kept.iter().any(|(_, name)| name.rows > 0);
        if self.kept.capacity() > Self::KEPT && !is_used() {
            *self = Self::default();
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

    fn remove(&mut self, key: NameKey) {
        let Name { name, .. } = self.kept.remove(key.slot());
        self.keys.remove(&name);
    }
}

impl NameKey {
    const fn slot(self) -> usize {
        self.0.get() as usize - 1
    }
}

#[cfg(test)]
mod tests {
    use alloc::borrow::ToOwned;
    use std::format;

    use alloc::string::{String, ToString};
    use alloc::vec::Vec;

    use heap::Heap;

    use super::*;

    #[test]
    fn g08_a_name_is_kept_once_and_for_as_long_as_a_row_has_it() {
        let mut names = Names::default();
        let keys = ["a", "b", "a"].map(|name| names.keep(name));
        assert_eq!(keys.map(|key| names.get(key).to_owned()), ["a", "b", "a"]);
        assert_eq!((keys[0], names.kept.len()), (keys[2], 2));
        names.release(keys[0]);
        assert_eq!(names.get(keys[2]), "a");
        names.release(keys[1]);
        names.release(keys[2]);
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
        keys.into_iter().for_each(|key| names.release(key));
        assert!(names.kept.capacity() <= Names::KEPT);
    }

    #[test]
    fn g08_no_name_takes_more_than_its_row() {
        // One more than fits makes a table grow. Each is longer than the part of it that is kept.
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
