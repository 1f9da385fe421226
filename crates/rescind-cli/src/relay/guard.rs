//! `--deadline`, `--idle` and `--cap`: how long the client's requests may take.

use std::time::Duration;

use clap::Args;
use protocol_core::CallOptions;
use protocol_relay::Guard;

/// The bounds of the client's requests.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Guard")]
pub(super) struct GuardArgs {
    /// Give a request up after this long, such as 60s: cancel it on the server, and answer the client
    /// with error -32803 at once. What the server still answers is late, and goes no further
    #[arg(long, value_name = "DUR", value_parser = duration)]
    deadline: Option<Duration>,

    /// Give a request up when there was no progress of it for this long
    #[arg(long, value_name = "DUR", value_parser = duration)]
    idle: Option<Duration>,

    /// Give a request up after this long, whatever progress there is
    #[arg(long, value_name = "DUR", value_parser = duration)]
    cap: Option<Duration>,

    /// Other limits for a method, or with a `*` at the end for all that begin so: `GLOB=deadline:5s,idle:2s`,
    /// or `GLOB=none`. May be given again; the first that fits counts
    #[arg(long, value_name = "GLOB=LIMITS", value_parser = method)]
    method: Vec<(String, CallOptions)>,
}

impl GuardArgs {
    /// Returns the limits that the relay holds requests to.
    pub(super) fn guard(&self) -> Guard {
        let rules = self.rules().into_iter();
        rules.fold(Guard::default(), |guard, (pattern, options)| guard.method(pattern, options))
    }

    /// Patterns and their limits, the first that fits counts; every method fits the last.
    pub(super) fn rules(&self) -> Vec<(String, CallOptions)> {
        let others = CallOptions::default()
            .timeout(self.deadline)
            .idle_timeout(self.idle)
            .hard_cap(self.cap);
        self.method.iter().cloned().chain([("*".to_owned(), others)]).collect()
    }
}

fn duration(text: &str) -> Result<Duration, String> {
    let duration = crate::duration(text)?;
    if duration.is_zero() { Err("nothing is that fast".into()) } else { Ok(duration) }
}

/// Reads the limits of some methods, `GLOB=NAME:DUR,…`.
fn method(text: &str) -> Result<(String, CallOptions), String> {
    let (pattern, limits) =
        text.split_once('=').ok_or("a `=` is missing (try tools/*=deadline:5s)")?;
    let is_star_inside = pattern.trim_end_matches('*').contains('*') || pattern.ends_with("**");
    if is_star_inside {
        return Err(format!("`{pattern}`: a `*` may stand only at the end"));
    }
    if pattern.is_empty() {
        return Err("a method is missing before the `=` (try tools/*=deadline:5s)".into());
    }
    let mut options = CallOptions::default();
    if limits == "none" {
        return Ok((pattern.into(), options));
    }
    for limit in limits.split(',') {
        let (name, time) = limit
            .split_once(':')
            .ok_or_else(|| format!("`{limit}` is no limit (try deadline:5s)"))?;
        let time = duration(time)?;
        options = match name {
            "deadline" => options.timeout(time),
            "idle" => options.idle_timeout(time),
            "cap" => options.hard_cap(time),
            _ => return Err(format!("`{name}` is none of deadline, idle, cap")),
        };
    }
    Ok((pattern.into(), options))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_of_a_method_are_read_and_what_is_wrong_is_said() {
        let second = Duration::from_secs(1);
        let all =
            CallOptions::default().timeout(second).idle_timeout(2 * second).hard_cap(3 * second);
        for (text, pattern, options) in [
            ("tools/*=deadline:1s,idle:2s,cap:3s", "tools/*", all),
            ("initialize=none", "initialize", CallOptions::default()),
        ] {
            assert_eq!(method(text).unwrap(), (pattern.into(), options));
        }
        for (text, error) in [
            ("tools", "a `=` is missing (try tools/*=deadline:5s)"),
            ("a*b=none", "`a*b`: a `*` may stand only at the end"),
            ("a**=none", "`a**`: a `*` may stand only at the end"),
            ("a=b=deadline:1s", "`b=deadline` is none of deadline, idle, cap"),
            ("=none", "a method is missing before the `=` (try tools/*=deadline:5s)"),
            ("a=none,deadline:1s", "`none` is no limit (try deadline:5s)"),
            ("a=5s", "`5s` is no limit (try deadline:5s)"),
            ("a=deadline:0s", "nothing is that fast"),
        ] {
            assert_eq!(method(text).unwrap_err(), error);
        }
    }
}
