//! A server on standard input and output that echoes params, on any way of running a handler:
//! `cargo run --example echo single|threads|workers|immediate`.

use std::env;
use std::error::Error;
use std::sync::Arc;

use protocol_blocking::single::{FdTransport, Host};
use protocol_blocking::threaded::{self, Server};
use protocol_blocking::{Answer, Request, Responder};
use protocol_core::{Config, Dialect};
use serde_json::value::{RawValue, to_raw_value};

fn echo(request: &Request, _: &mut dyn Responder) -> Answer {
    match request.method.as_str() {
        "echo" => Ok(request.params.clone().unwrap_or_else(|| RawValue::NULL.to_owned())),
        "big" => Ok(to_raw_value(&"x".repeat(1 << 20))?),
        _ => Err(request.unknown_method()),
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let config = Config::server(Dialect::JSON_RPC);
    match env::args().nth(1).as_deref() {
        Some("single") => {
            let (stdin, stdout) = (std::io::stdin(), std::io::stdout());
            Host::new(FdTransport::new(stdin, stdout), config).run(&echo)?;
        }
        Some("threads") => {
            let (_peer, incoming) = threaded::stdio(config);
            threaded::serve(&incoming, 8, &echo);
        }
        // Workers serve everything.
        Some("workers") => drop(Server::new(config).workers(8).stdio(Arc::new(echo)).wait()),
        // The thread that reads serves it.
        Some("immediate") => {
            let server = Server::new(config).workers(8).immediate(["echo"]);
            drop(server.stdio(Arc::new(echo)).wait());
        }
        _ => return Err("name a way: single, threads, workers or immediate".into()),
    }
    Ok(())
}
