use super::*;
use crate::view::row::Connection;

fn row(method: &str) -> Row {
    Row {
        number: 0,
        parent: None,
        root: 0,
        trace: None,
        start: 0,
        hop: Connection { number: 0, name: "up".into() },
        dir: Direction::Sent,
        id: protocol_core::WireId::from_json("7").unwrap(),
        method: method.into(),
        outcome: Outcome::Error,
        end: Some(5_000),
        code: Some(-32800),
        cause: Some("deadline".into()),
        cancelled: Some(2_000),
        late: None,
        duplicates: 0,
        refused: None,
        work: None,
    }
}

/// Returns whether a filter admits a request of `tools/call` that took 5 ms, 3 of them after its cancel.
fn admits(filter: &str) -> bool {
    Filter::parse(filter).unwrap().admits(&row("tools/call"))
}

#[test]
fn every_operator_admits_what_it_says_and_nothing_else() {
    for filter in [
        "~m tools/*",
        "~m tools/cal?",
        "call",
        "~hop up",
        "~id 7",
        "~sent",
        "~o error",
        "~c -32800",
        "~cause deadline",
        "~cancel",
        "~slow 5ms",
        "~settle 3ms",
        "'ools/c'",
        "~m \"tools/call\"",
    ] {
        assert!(admits(filter), "{filter}");
        assert!(!admits(&format!("!{filter}")), "!{filter}");
    }
    for filter in [
        "~m tools",
        "~m TOOLS/*",
        "shout",
        "~hop down",
        "~id 77",
        "~received",
        "~o result",
        "~c 1",
        "~cause parent",
        "~late",
        "~dup",
        "~open",
        "~slow 6ms",
        "~settle 4ms",
    ] {
        assert!(!admits(filter), "{filter}");
        assert!(admits(&format!("! {filter}")), "!{filter}");
    }
}

#[test]
fn and_binds_closer_than_or_and_not_closer_than_both() {
    for (filter, admitted) in [
        ("~late & ~late | ~sent", true),
        ("~late & (~late | ~sent)", false),
        ("~sent | ~late & ~late", true),
        ("!~late & ~sent", true),
        ("!(~late | ~sent)", false),
        ("~sent ~cancel call", true),
        ("~sent ~late", false),
        ("~m tools/*&~cancel", true),
        ("!!~sent", true),
    ] {
        assert_eq!(admits(filter), admitted, "{filter}");
    }
}

/// Returns the place that the last line of an error marks.
fn place(error: &str) -> usize {
    error.rsplit('\n').next().unwrap().strip_prefix("  ").unwrap().find('^').unwrap()
}

#[test]
fn an_error_points_at_its_place() {
    for (filter, at, problem) in [
        ("", 0, "a condition is missing"),
        ("~m a & ~x", 7, "there is no operator ~x"),
        ("~m a & ~", 7, "there is no operator ~;"),
        ("~m", 2, "a method is missing here, such as tools/*"),
        ("~m & ~late", 3, "a method is missing here, such as tools/*"),
        ("~c many", 3, "`many` is not an error code"),
        ("~o gone", 3, "`gone` is not one of result, error"),
        ("~slow", 5, "a time is missing here, such as 300ms"),
        ("~slow soon", 6, "`soon` is not a time, such as 300ms"),
        ("a & (b | c", 4, "this `(` is not closed"),
        ("a )", 2, "nothing is open"),
        ("~m 'a", 3, "this quote is not closed"),
        ("a | | b", 4, "a condition is missing"),
        ("é & ~ü", 4, "there is no operator ~;"),
    ] {
        let error = Filter::parse(filter).unwrap_err();
        assert_eq!(place(&error), at, "{filter}: {error}");
        assert!(error.starts_with(problem), "{filter}: {error}");
    }
    let error = Filter::parse("~m a & ~x").unwrap_err();
    assert!(error.ends_with("\n  ~m a & ~x\n         ^"), "{error}");
}

#[test]
fn g08_a_filter_is_nested_only_so_deep() {
    let nested = |depth: usize| Filter::parse(&format!("{}a", "!".repeat(depth)));
    assert!(nested(DEPTH - 1).is_ok());
    assert_eq!(place(&nested(DEPTH).unwrap_err()), DEPTH);
    assert!(Filter::parse(&"(".repeat(1_000_000)).is_err());
}

#[test]
fn g08_a_filter_of_many_conditions_needs_no_deep_stack() {
    for sign in ["x ", "x | "] {
        let many = format!("{}~sent", sign.repeat(1_000_000));
        assert_eq!(admits(&many), sign.contains('|'));
    }
}
