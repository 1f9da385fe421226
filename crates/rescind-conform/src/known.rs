//! The checks that are known to fail, or to fail now and then.

/// Checks whose failures are expected.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Known {
    failing: Vec<String>,
    flaky: Vec<String>,
}

/// The expectation about a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// That it passes.
    Pass,
    /// That it fails: that is no failure of the run, but to pass is, for the list is stale then.
    Failing,
    /// Nothing is expected: it passes or fails.
    Flaky,
}

impl Known {
    /// Reads the ids of checks that fail, one a line, and those that fail now and then; `#` begins a remark. All are among
    /// `checks`.
    ///
    /// # Errors
    ///
    /// A line that names no check.
    pub fn read_among(checks: &[&str], failing: &str, flaky: &str) -> Result<Self, String> {
        Ok(Self { failing: ids(checks, "failing", failing)?, flaky: ids(checks, "flaky", flaky)? })
    }

    pub(crate) fn of(&self, id: &str) -> Expected {
        match () {
            () if self.flaky.iter().any(|flaky| flaky == id) => Expected::Flaky,
            () if self.failing.iter().any(|failing| failing == id) => Expected::Failing,
            () => Expected::Pass,
        }
    }
}

fn ids(checks: &[&str], list: &str, text: &str) -> Result<Vec<String>, String> {
    let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default().trim());
    let named = lines.zip(1..).filter(|(id, _)| !id.is_empty());
    let named = named.map(|(id, number)| match checks.contains(&id) {
        true => Ok(id.to_owned()),
        false => Err(format!("known {list} checks, line {number}: there is no check {id:?}")),
    });
    named.collect()
}
