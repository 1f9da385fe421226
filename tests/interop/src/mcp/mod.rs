//! Model Context Protocol: clients against `rescind serve`, and servers that have some of its tools.

pub mod http;
pub mod own;
pub mod sdk;
pub mod tasks;
