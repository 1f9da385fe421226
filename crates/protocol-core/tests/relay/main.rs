//! `Relay`: every rule in both directions and between dialects, and chains of relays.

mod across;
mod bench;
mod cancels;
mod chain;
mod ends;
mod limits;
mod requests;
mod schedules;
