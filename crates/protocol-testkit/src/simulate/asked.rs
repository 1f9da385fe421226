//! The environment asks for other runs than those in the code.

use std::env;

use super::choices::{Choices, SCHEDULE};

/// The environment variable of the one seed that is to be run.
pub(super) const SEED: &str = "SIM_SEED";
/// The environment variable of how many seeds are to be run.
pub(super) const SEEDS: &str = "SIM_SEEDS";

/// The value of a variable.
pub(super) enum Asked {
    Schedule(Choices),
    Seed(u64),
    Seeds(u64),
}

impl Asked {
    /// Reads all variables, and returns the first that is set and used. The others that are set are said.
    ///
    /// # Panics
    ///
    /// Panics if one can't be read, used or not.
    #[track_caller]
    pub(super) fn read(used: &[&str]) -> Option<Self> {
        let variables = [
            (SCHEDULE, value(SCHEDULE).map(|value| Self::Schedule(Choices::read(&value)))),
            (SEED, number(SEED).map(Self::Seed)),
            (SEEDS, number(SEEDS).map(Self::Seeds)),
        ];
        let mut first = None;
        for (variable, asked) in variables {
            if first.is_none() && used.contains(&variable) {
                first = asked;
            } else if asked.is_some() {
                println!("{variable} is not used by this search");
            }
        }
        first
    }
}

#[track_caller]
fn number(variable: &str) -> Option<u64> {
    let value = value(variable)?;
    Some(value.parse().unwrap_or_else(|_| panic!("{variable} is a number, not {value:?}")))
}

/// Returns the value of a variable, if it is set.
fn value(variable: &str) -> Option<String> {
    let value = env::var_os(variable)?.to_string_lossy().into_owned();
    Some(value).filter(|value| !value.is_empty())
}
