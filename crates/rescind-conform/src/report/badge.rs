//! A badge for READMEs, as shields.io reads it.

use serde_json::{Value, json};

use super::{Report, Whole};

impl Report {
    /// The JSON of an endpoint badge.
    #[must_use]
    pub fn to_badge(&self) -> Value {
        let tried = self.count("pass") + self.count("fail");
        let (message, color) = match self.whole() {
            Whole::Pass => (format!("{} checks", self.count("pass")), "brightgreen"),
            Whole::Incomplete => {
                (format!("{} of {tried} checks, incomplete", self.count("pass")), "yellow")
            }
            Whole::Fail => (format!("{} of {tried} checks", self.count("pass")), "orange"),
        };
        json!({ "schemaVersion": 1, "label": "cancellation", "message": message, "color": color })
    }
}
