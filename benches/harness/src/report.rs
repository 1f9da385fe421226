//! The arguments of a peer's process, and the figures that it prints.

/// Prints one figure as a line of JSON. Names are the bench's own: there is nothing to escape.
pub fn figure(peer: &str, metric: &str, value: f64) {
    println!(r#"{{"peer":"{peer}","metric":"{metric}","value":{value:.3}}}"#);
}

/// Reads a number of the command line.
///
/// # Panics
///
/// If it is none.
#[must_use]
pub fn number(text: &str) -> usize {
    text.parse().unwrap_or_else(|error| panic!("no number: {text}: {error}"))
}
