//! `Relay`: every rule in both directions and between dialects, and chains of relays.

mod across;
mod bench;
mod cancels;
mod chain;
mod dap;
mod ends;
mod f84_memory;
mod guard;
mod ids;
mod limits;
mod numbers;
mod operations;
mod reasons;
mod requests;
mod schedules;
mod sides;
mod stops;
mod tiny;
