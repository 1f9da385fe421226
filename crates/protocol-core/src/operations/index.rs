//! From tokens to slots.

use alloc::vec;
use alloc::vec::Vec;

use super::token::OperationToken;

/// Open addressing by the token's own bits: they are random and ours, so no peer can make them
/// collide, and hashing them again would only take time.
#[derive(Clone, Debug, Default)]
pub(super) struct TokenIndex {
    /// A power of two long, or empty. Invariant: at least half of it is free, and no free place is
    /// between a slot and the place its token's bits name.
    places: Vec<Place>,
    used: usize,
}

/// A slot and 32 more bits of its token, so that the entry itself is looked at only to be sure.
#[derive(Clone, Copy, Debug)]
struct Place {
    tag: u32,
    slot: u32,
}

const FREE: Place = Place { tag: 0, slot: u32::MAX };

impl Place {
    const fn is_free(self) -> bool {
        self.slot == u32::MAX
    }
}

const fn tag(token: OperationToken) -> u32 {
    (token.bits() >> 96) as u32
}

impl TokenIndex {
    fn home(&self, token: OperationToken) -> usize {
        token.bits() as usize & (self.places.len() - 1)
    }

    fn next(&self, place: usize) -> usize {
        (place + 1) & (self.places.len() - 1)
    }

    /// The slot of a token; `token_of` tells that of a slot.
    pub(super) fn find(
        &self,
        token: OperationToken,
        token_of: impl Fn(u32) -> OperationToken,
    ) -> Option<u32> {
        self.place_of(token, token_of).map(|place| self.places[place].slot)
    }

    fn place_of(
        &self,
        token: OperationToken,
        token_of: impl Fn(u32) -> OperationToken,
    ) -> Option<usize> {
        if self.places.is_empty() {
            return None;
        }
        let mut place = self.home(token);
        loop {
            let found = self.places[place];
            if found.is_free() {
                return None;
            }
            if found.tag == tag(token) && token_of(found.slot) == token {
                return Some(place);
            }
            place = self.next(place);
        }
    }

    /// Adds a token that is not there yet.
    pub(super) fn insert(
        &mut self,
        token: OperationToken,
        slot: u32,
        token_of: impl Fn(u32) -> OperationToken,
    ) {
        if (self.used + 1) * 2 > self.places.len() {
            self.grow(token_of);
        }
        self.used += 1;
        self.put(token, slot);
    }

    /// Removes a token; `token_of` may know it no more.
    pub(super) fn remove(
        &mut self,
        token: OperationToken,
        slot: u32,
        token_of: impl Fn(u32) -> OperationToken,
    ) {
        let is_it = |other| if other == slot { token } else { token_of(other) };
        let Some(mut hole) = self.place_of(token, is_it) else { return };
        self.used -= 1;
        // Move back what would be cut off from its home by the hole.
        let mut place = self.next(hole);
        while !self.places[place].is_free() {
            let home = self.home(is_it(self.places[place].slot));
            let from_home = place.wrapping_sub(home) & (self.places.len() - 1);
            let from_hole = place.wrapping_sub(hole) & (self.places.len() - 1);
            if from_home >= from_hole {
                self.places[hole] = self.places[place];
                hole = place;
            }
            place = self.next(place);
        }
        self.places[hole] = FREE;
    }

    fn put(&mut self, token: OperationToken, slot: u32) {
        let mut place = self.home(token);
        while !self.places[place].is_free() {
            place = self.next(place);
        }
        self.places[place] = Place { tag: tag(token), slot };
    }

    fn grow(&mut self, token_of: impl Fn(u32) -> OperationToken) {
        let larger = vec![FREE; (self.places.len() * 2).max(16)];
        let places = core::mem::replace(&mut self.places, larger);
        for place in places.into_iter().filter(|place| !place.is_free()) {
            self.put(token_of(place.slot), place.slot);
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeMap;

    use super::*;

    /// Tokens with few different homes, so that they collide all the time.
    fn token(number: u32) -> OperationToken {
        let mut bytes = [0; 16];
        bytes[0] = (number % 3) as u8;
        bytes[8..12].copy_from_slice(&number.to_be_bytes());
        bytes[15] = (number % 5) as u8;
        OperationToken::from_bytes(bytes)
    }

    #[test]
    fn it_agrees_with_a_map_under_collisions() {
        let (mut index, mut model) = (TokenIndex::default(), BTreeMap::new());
        let mut random = 1_u32;
        for _ in 0..20_000 {
            random ^= random << 13;
            random ^= random >> 17;
            random ^= random << 5;
            let number = random % 200;
            if model.remove(&number).is_some() {
                index.remove(token(number), number, token);
            } else {
                model.insert(number, ());
                index.insert(token(number), number, token);
            }
            let number = random / 7 % 200;
            let found = index.find(token(number), token);
            assert_eq!(found, model.contains_key(&number).then_some(number));
        }
        assert_eq!(index.used, model.len());
    }
}
