//! A server of MCP or ACP over HTTP that is elsewhere, and the way to it.

use std::fmt::Display;
use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use protocol_async::{Incoming, Options, Peer};
use protocol_core::Dialect;
use protocol_http::Rules;
use protocol_http::connect::{ClientOptions, Open, Target, connect};
use tokio::time::timeout;

use crate::address::Address;
use crate::connect::{self, connect_with};
use crate::tls::Trust;

/// The time in which a server has to take a connection.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

/// The protocols that are offered over TLS, the best one first.
const PROTOCOLS: [&[u8]; 2] = [b"h2", b"http/1.1"];

/// Returns the rules that a client of this dialect begins with.
pub(crate) fn rules_of(dialect: &Dialect) -> &'static Rules {
    let acp = Rules::ACP.iter().find(|rules| rules.dialect.name == dialect.name);
    acp.unwrap_or(&Rules::MCP_2026_07_28)
}

/// Returns the options of a client of this dialect, if the server there takes a connection now.
pub(crate) async fn reach(
    address: &Address,
    dialect: &Dialect,
    trust: &Trust,
    secret: Option<String>,
    patience: Duration,
) -> Result<(Target, ClientOptions), String> {
    let mut options = ClientOptions::default();
    options.rules = rules_of(dialect);
    let url = address.of_rules(options.rules).to_string();
    let refused = |why: &dyn Display| format!("can't connect to {url}: {why}");
    let target: Target = url.parse().map_err(|error| refused(&error))?;
    let tls = address.is_secure.then(|| trust.client(&PROTOCOLS)).transpose();
    let way = Arc::new((address.clone(), tls.map_err(|error| refused(&error))?));
    let open: Open = Arc::new(move || {
        let way = way.clone();
        Box::pin(async move { connect_with(&way.0, way.1.as_ref()).await })
    });
    let reached = timeout(patience, open()).await.map_err(|_| refused(&"it takes too long"))?;
    reached.map_err(|error| refused(&error))?;
    options.token = secret;
    options.open = Some(open);
    Ok((target, options))
}

/// Makes a connection to the server there, if it takes one now. A thread drives it.
pub(crate) fn open(
    address: &Address,
    trust: &Trust,
    secret: Option<String>,
    endpoint: Options,
    deadline: Option<Instant>,
) -> Result<(Peer, Incoming, JoinHandle<io::Result<()>>), String> {
    let left = deadline.map_or(PATIENCE, |at| at.saturating_duration_since(Instant::now()));
    let (runtime, (peer, incoming, driver)) = connect::open(async {
        let dialect = &endpoint.config.dialect;
        let (target, options) = reach(address, dialect, trust, secret, left).await?;
        Ok::<_, String>(connect(target, endpoint, options))
    })?;
    Ok((peer, incoming, thread::spawn(move || runtime.block_on(driver))))
}
