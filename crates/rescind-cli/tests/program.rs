//! The program, from outside: one test program for all of these files, so that those which wait do it at the same time.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

#[cfg(target_os = "linux")]
mod bridge;
#[cfg(unix)]
mod call;
#[cfg(unix)]
mod clangd;
mod conform;
mod conform_client;
#[cfg(unix)]
mod conform_http;
#[cfg(unix)]
mod connect;
#[cfg(unix)]
mod dialect_file;
#[cfg(unix)]
mod dialects;
#[cfg(target_os = "linux")]
mod ending;
mod export;
mod fault;
mod guard;
#[cfg(unix)]
mod http;
#[cfg(unix)]
mod https;
#[cfg(unix)]
mod interrupt;
#[cfg(unix)]
mod listen;
#[cfg(all(target_os = "linux", feature = "live"))]
mod live;
#[cfg(target_os = "linux")]
mod long;
#[cfg(unix)]
mod noise;
#[cfg(target_os = "linux")]
mod opening;
#[cfg(target_os = "linux")]
mod orphans;
mod pages;
mod record;
mod recordings;
mod relay;
mod replay;
mod serve;
#[cfg(target_os = "linux")]
mod serve_single;
mod simulated;
#[cfg(target_os = "linux")]
mod stdio;
mod step;
#[cfg(target_os = "linux")]
mod terminal;
#[cfg(unix)]
mod tls;
#[cfg(unix)]
mod told;
mod usage;
#[cfg(unix)]
mod websocket;
