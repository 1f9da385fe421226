//! The work in a dialect file: the messages that begin it, stop it, end it, and belong to it.

use std::borrow::Cow;

use protocol_core::{Carrier, News, Sign, StopMark, WorkRule};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

pub(super) type Text = Cow<'static, str>;
pub(super) type List<T> = Cow<'static, [T]>;

/// The most kinds of work, and the most messages of one kind: the core counts them in a byte.
const MOST: usize = 255;

/// Reads the kinds of work.
pub(super) fn work_rules<'de, D: Deserializer<'de>>(json: D) -> Result<List<WorkRule>, D::Error> {
    let rules = Vec::<Rule>::deserialize(json)?;
    if rules.len() > MOST {
        let found = rules.len();
        return Err(D::Error::custom(format!("expected at most {MOST} kinds, not {found}")));
    }
    Ok(rules.into_iter().map(|Rule(rule)| rule).collect())
}

#[derive(Deserialize)]
#[serde(try_from = "RuleDef")]
struct Rule(WorkRule);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RuleDef {
    kind: Text,
    begins: Vec<MessageDef>,
    stops: StopDef,
    #[serde(default)]
    within: Vec<NestedDef>,
    #[serde(default)]
    asks: Vec<QuestionDef>,
    #[serde(default)]
    ends: Vec<MessageDef>,
}

impl TryFrom<RuleDef> for Rule {
    type Error = String;

    fn try_from(rule: RuleDef) -> Result<Self, String> {
        let RuleDef { kind, begins, stops, within, asks, ends } = rule;
        let is_result = |message: &MessageDef| matches!(message, MessageDef::Result(_));
        let is_request = |message: &MessageDef| matches!(message, MessageDef::Request(_));
        if begins.is_empty() {
            return Err("`begins` is empty, expected a message".into());
        }
        if ends.is_empty() && !begins.iter().all(is_request) {
            return Err("`ends` is empty, expected a message: no response ends work that a notification or a result begins".into());
        }
        if begins.iter().any(is_request) && matches!(stops, StopDef::Request(_)) {
            return Err("`stops` is a request, expected a notification: work that a request begins can't go on after a refused stop".into());
        }
        if begins.iter().any(is_result) && asks.is_empty() {
            return Err("`asks` is empty, expected the requests whose results begin work".into());
        }
        let begins = begins.into_iter().map(|it| it.sign(News::Begun));
        let ends = ends.into_iter().map(|it| it.sign(News::Ended));
        // The first sign that fits a message counts, and in this order a method counts before any.
        let signs = begins
            .chain([stops.into()])
            .chain(within.into_iter().map(Sign::from))
            .chain(asks.into_iter().map(Sign::from))
            .chain(ends);
        let signs: List<Sign> = signs.collect();
        match signs.len() {
            ..=MOST => Ok(Self(WorkRule { kind, signs })),
            found => Err(format!("expected at most {MOST} messages, not {found}")),
        }
    }
}

/// A message that begins or ends work.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum MessageDef {
    Request(SignDef),
    Notification(SignDef),
    Result(ResultDef),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SignDef {
    method: Method,
    name: Names,
    r#if: Option<StateDef>,
    stopped: Option<MarkDef>,
}

/// A result, whose request may have any method.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ResultDef {
    name: Names,
    r#if: Option<StateDef>,
    stopped: Option<MarkDef>,
}

impl MessageDef {
    fn sign(self, news: News) -> Sign {
        let (carrier, SignDef { method, name, r#if, stopped }) = match self {
            Self::Request(sign) => (Carrier::Request, sign),
            Self::Notification(sign) => (Carrier::Notification, sign),
            Self::Result(ResultDef { name, r#if, stopped }) => {
                (Carrier::Result, SignDef { method: Method::any(), name, r#if, stopped })
            }
        };
        let Method(method) = method;
        let (state, stopped) = (r#if.map(StateDef::into), stopped.map(MarkDef::into));
        Sign { carrier, method, name: name.0, state, news, stopped }
    }
}

/// The message that stops work. Without an `if` we send it too, with the name as its only member.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum StopDef {
    Request(NamedDef),
    Notification(NamedDef),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NamedDef {
    method: Method,
    name: Text,
    r#if: Option<StateDef>,
}

impl From<StopDef> for Sign {
    fn from(stop: StopDef) -> Self {
        let (carrier, NamedDef { method: Method(method), name, r#if }) = match stop {
            StopDef::Request(named) => (Carrier::Request, named),
            StopDef::Notification(named) => (Carrier::Notification, named),
        };
        let (name, state) = (List::Owned(vec![name]), r#if.map(StateDef::into));
        Self { carrier, method, name, state, news: News::Stop, stopped: None }
    }
}

/// A request that belongs to work.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NestedDef {
    method: Method,
    name: Names,
    sender: SenderDef,
    stopped: Option<MarkDef>,
}

/// The part of such a request's sender once its work is stopped.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum SenderDef {
    Waits,
    Cancels,
}

impl From<NestedDef> for Sign {
    fn from(nested: NestedDef) -> Self {
        let NestedDef { method: Method(method), name, sender, stopped } = nested;
        let news = News::Nested { is_cancelled: matches!(sender, SenderDef::Cancels) };
        let (carrier, stopped) = (Carrier::Request, stopped.map(MarkDef::into));
        Self { carrier, method, name: name.0, state: None, news, stopped }
    }
}

/// A request whose result may speak of work. It names the work, or its result does.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct QuestionDef {
    method: Option<Method>,
    name: Option<Names>,
    r#if: Option<StateDef>,
}

impl From<QuestionDef> for Sign {
    fn from(question: QuestionDef) -> Self {
        let QuestionDef { method, name, r#if } = question;
        let Method(method) = method.unwrap_or_else(Method::any);
        let name = name.map_or(List::default(), |Names(name)| name);
        let (carrier, state) = (Carrier::Request, r#if.map(StateDef::into));
        Self { carrier, method, name, state, news: News::Asked, stopped: None }
    }
}

/// A method. The core takes an empty one for any, which no file says by a text.
#[derive(Deserialize)]
#[serde(try_from = "Text")]
struct Method(Text);

impl Method {
    const fn any() -> Self {
        Self(Text::Borrowed(""))
    }
}

impl TryFrom<Text> for Method {
    type Error = &'static str;

    fn try_from(method: Text) -> Result<Self, &'static str> {
        if method.is_empty() {
            Err("expected a method, not an empty text")
        } else {
            Ok(Self(method))
        }
    }
}

/// A path of at least one member.
#[derive(Deserialize)]
#[serde(try_from = "List<Text>")]
struct Names(List<Text>);

impl TryFrom<List<Text>> for Names {
    type Error = &'static str;

    fn try_from(path: List<Text>) -> Result<Self, &'static str> {
        if path.is_empty() { Err("expected a path of at least one member") } else { Ok(Self(path)) }
    }
}

/// The texts that may stand at a path; any value if there are none.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StateDef {
    path: Names,
    #[serde(default)]
    is: List<Text>,
}

impl From<StateDef> for (List<Text>, List<Text>) {
    fn from(state: StateDef) -> Self {
        (state.path.0, state.is)
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MarkDef {
    path: MarkPath,
    text: Text,
}

/// A path that the core can write.
#[derive(Deserialize)]
#[serde(try_from = "List<Text>")]
struct MarkPath(List<Text>);

impl TryFrom<List<Text>> for MarkPath {
    type Error = &'static str;

    fn try_from(path: List<Text>) -> Result<Self, &'static str> {
        match path.len() {
            1 | 2 => Ok(Self(path)),
            _ => Err("expected a path of one or two members"),
        }
    }
}

impl From<MarkDef> for StopMark {
    fn from(mark: MarkDef) -> Self {
        Self { path: mark.path.0, text: mark.text }
    }
}
