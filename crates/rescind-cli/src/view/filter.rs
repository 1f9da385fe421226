//! Filters for the requests to show: `~m tools/* & ~late`, in the manner of mitmproxy's filters.

use std::fmt::Display;

use clap::ValueEnum;
use protocol_record::line::Direction;
use wildmatch::WildMatch;

use super::row::{Outcome, Row};

/// A condition on a request.
#[derive(Clone, Debug)]
pub(crate) enum Filter {
    Method(WildMatch),
    Hop(WildMatch),
    Id(String),
    Outcome(Outcome),
    Cause(String),
    Code(i64),
    /// Took at least so many microseconds.
    Slow(u64),
    /// Took at least so many from its cancel to its end.
    Settle(u64),
    /// This holds for it.
    Is(fn(&Row) -> bool),
    Not(Box<Self>),
    All(Vec<Self>),
    Any(Vec<Self>),
}

/// The deepest nesting of parentheses and `!`.
const DEPTH: usize = 64;

impl Filter {
    /// Whether a request is to be shown.
    pub(crate) fn admits(&self, row: &Row) -> bool {
        match self {
            Self::Method(pattern) => pattern.matches(&row.method),
            Self::Hop(pattern) => pattern.matches(&row.hop.name),
            Self::Id(id) => row.id.as_json() == id || row.id.as_json().trim_matches('"') == id,
            Self::Outcome(outcome) => row.outcome == *outcome,
            Self::Cause(cause) => row.cause.as_ref() == Some(cause),
            Self::Code(code) => row.code == Some(*code),
            Self::Slow(micros) => row.duration().is_some_and(|took| took >= *micros),
            Self::Settle(micros) => row.settling().is_some_and(|took| took >= *micros),
            Self::Is(holds) => holds(row),
            Self::Not(filter) => !filter.admits(row),
            Self::All(filters) => filters.iter().all(|it| it.admits(row)),
            Self::Any(filters) => filters.iter().any(|it| it.admits(row)),
        }
    }

    /// Reads a filter.
    ///
    /// ```text
    /// or   = and { "|" and }
    /// and  = not { ["&"] not }
    /// not  = "!" not | "(" or ")" | operator | word
    /// ```
    ///
    /// A word alone is a part of a method's name. What holds spaces or signs stands in quotes.
    ///
    /// # Errors
    ///
    /// Returns three lines: the problem, the filter, and a mark below the place.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut parser = Parser { text: text.chars().collect(), at: 0, depth: 0 };
        let filter = parser.or()?;
        match parser.peek() {
            None => Ok(filter),
            Some(_) => Err(parser.error(parser.at, "nothing is open that `)` could close")),
        }
    }
}

struct Parser {
    text: Vec<char>,
    at: usize,
    depth: usize,
}

type Parsed = Result<Filter, String>;

impl Parser {
    fn or(&mut self) -> Parsed {
        let mut any = vec![self.and()?];
        while self.peek() == Some('|') {
            self.at += 1;
            any.push(self.and()?);
        }
        Ok(Filter::Any(any))
    }

    fn and(&mut self) -> Parsed {
        let mut all = vec![self.not()?];
        loop {
            match self.peek() {
                Some('&') => self.at += 1,
                None | Some('|' | ')') => return Ok(Filter::All(all)),
                Some(_) => {}
            }
            all.push(self.not()?);
        }
    }

    fn not(&mut self) -> Parsed {
        let begin = self.at;
        self.depth += 1;
        if self.depth > DEPTH {
            return Err(self.error(begin, format!("nested deeper than {DEPTH}")));
        }
        let parsed = match self.peek() {
            Some('!') => {
                self.at += 1;
                Ok(Filter::Not(Box::new(self.not()?)))
            }
            Some('(') => self.group(),
            Some('~') => self.operator(),
            Some('&' | '|' | ')') | None => {
                Err(self.error(self.at, "a condition is missing, such as `~m tools/*`"))
            }
            Some(_) => Ok(Filter::Method(WildMatch::new(&format!("*{}*", self.word()?)))),
        };
        self.depth -= 1;
        parsed
    }

    fn group(&mut self) -> Parsed {
        let open = self.at;
        self.at += 1;
        let inside = self.or()?;
        if self.peek() != Some(')') {
            return Err(self.error(open, "this `(` is not closed"));
        }
        self.at += 1;
        Ok(inside)
    }

    fn operator(&mut self) -> Parsed {
        let begin = self.at;
        self.at += 1;
        let name: String = self.take(|it| it.is_ascii_alphanumeric());
        Ok(match &*name {
            "m" => Filter::Method(WildMatch::new(&self.argument("a method, such as tools/*")?.0)),
            "hop" => Filter::Hop(WildMatch::new(&self.argument("a connection, such as up")?.0)),
            "id" => Filter::Id(self.argument("an id, such as 7")?.0),
            "cause" => Filter::Cause(self.argument("a cause, such as deadline")?.0),
            "sent" => Filter::Is(|row| row.dir == Direction::Sent),
            "received" => Filter::Is(|row| row.dir == Direction::Received),
            "o" => Filter::Outcome(self.outcome()?),
            "c" => {
                Filter::Code(self.valued("an error code, such as -32603", |it| it.parse().ok())?)
            }
            "slow" => Filter::Slow(self.valued("a time, such as 300ms", micros)?),
            "settle" => Filter::Settle(self.valued("a time, such as 300ms", micros)?),
            "cancel" => Filter::Is(|row| row.cancelled.is_some()),
            "late" => Filter::Is(|row| row.late.is_some()),
            "dup" => Filter::Is(|row| row.duplicates > 0),
            "open" => Filter::Is(|row| row.outcome == Outcome::Unanswered),
            _ => {
                let problem = format!("there is no operator ~{name}; there are {OPERATORS}");
                return Err(self.error(begin, problem));
            }
        })
    }

    fn outcome(&mut self) -> Result<Outcome, String> {
        let names: Vec<_> = Outcome::value_variants().iter().map(|it| it.as_str()).collect();
        let names = names.join(", ");
        self.valued(&format!("one of {names}"), Outcome::named)
    }

    /// Reads the argument of an operator as a value.
    fn valued<T>(&mut self, what: &str, read: impl FnOnce(&str) -> Option<T>) -> Result<T, String> {
        let (word, begin) = self.argument(what)?;
        read(&word).ok_or_else(|| self.error(begin, format!("`{word}` is not {what}")))
    }

    /// Returns the argument of an operator, and its place.
    fn argument(&mut self, what: &str) -> Result<(String, usize), String> {
        match self.peek() {
            None | Some('&' | '|' | '(' | ')' | '!' | '~') => {
                let (what, example) = what.split_at(what.find(", such as").unwrap_or(what.len()));
                Err(self.error(self.at, format!("{what} is missing here{example}")))
            }
            Some(_) => {
                let begin = self.at;
                Ok((self.word()?, begin))
            }
        }
    }

    /// A word, or what stands in quotes.
    fn word(&mut self) -> Result<String, String> {
        let begin = self.at;
        let Some(quote) = self.peek().filter(|it| matches!(it, '"' | '\'')) else {
            return Ok(self.take(|it| !it.is_whitespace() && !"&|()".contains(it)));
        };
        self.at += 1;
        let word = self.take(|it| it != quote);
        if self.text.get(self.at) != Some(&quote) {
            return Err(self.error(begin, "this quote is not closed"));
        }
        self.at += 1;
        Ok(word)
    }

    /// The next character that is no space.
    fn peek(&mut self) -> Option<char> {
        self.take(char::is_whitespace);
        self.text.get(self.at).copied()
    }

    fn take(&mut self, is_wanted: impl Fn(char) -> bool) -> String {
        let taken: String = self.text[self.at..].iter().take_while(|it| is_wanted(**it)).collect();
        self.at += taken.chars().count();
        taken
    }

    /// Returns a problem with the character at this place, counted from 0.
    fn error(&self, at: usize, problem: impl Display) -> String {
        let filter: String = self.text.iter().collect();
        // A width of a format ends at 65,535.
        format!("{problem}\n  {filter}\n  {}^", " ".repeat(at))
    }
}

const OPERATORS: &str =
    "~m ~hop ~id ~sent ~received ~o ~c ~cause ~cancel ~late ~dup ~open ~slow ~settle";

fn micros(text: &str) -> Option<u64> {
    humantime::parse_duration(text).ok()?.as_micros().try_into().ok()
}

#[cfg(test)]
mod tests;
