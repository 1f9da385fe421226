//! The screen, from what is to be shown. Every text of a peer is made harmless first.

use protocol_record::line::Direction;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Margin, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span, Text};
use ratatui::widgets::{Block, Clear, Paragraph, Row as Cells, Table};

use super::state::{Live, Page, warning};
use super::texts::cut;
use crate::view::row::{Outcome, Row, milliseconds};
use crate::view::summary::Summary;

const KEYS: &str = "\
up, down, j, k    another request, or line
Page Up, Page Down, Home, End
Enter, Esc        its messages, and back
/                 a filter: `rescind view --help` lists the operators
f                 follow: the newest request stays selected
p                 pause: nothing more is read until p again
?                 these keys
q, Ctrl-C         quit

late              its answer came after it was settled
ignored cancel    it went on for more than 1 s after its cancel
orphan            what it was made for is over, and it is not
stuck             it has been in flight for more than 10 s";

const WIDTHS: [Constraint; 7] = [
    Constraint::Length(14),
    Constraint::Length(10),
    Constraint::Min(16),
    Constraint::Length(14),
    Constraint::Length(18),
    Constraint::Length(14),
    Constraint::Length(14),
];

/// Draws all of it.
pub(super) fn draw(live: &Live, frame: &mut Frame<'_>) {
    let below = below(live);
    let height = u16::try_from(below.len()).unwrap_or(u16::MAX);
    let heights = [Constraint::Length(1), Constraint::Min(1), Constraint::Length(height)];
    let [top, middle, bottom] = Layout::vertical(heights).areas(frame.area());
    frame.render_widget(head(live), top);
    match live.page {
        Page::Messages(first) => {
            let lines = messages(live).split_off(first.min(messages(live).len()));
            frame.render_widget(Text::from(lines), middle);
        }
        Page::Table | Page::Keys => table(live, frame, middle),
    }
    frame.render_widget(Text::from(below), bottom);
    if live.page == Page::Keys {
        keys(frame, middle);
    }
}

fn bold() -> Style {
    Style::new().add_modifier(Modifier::BOLD)
}

fn head(live: &Live) -> Line<'static> {
    let states = [
        ("ended", live.has_ended),
        ("paused", live.is_paused),
        ("following", live.is_following && !live.is_paused),
    ];
    let states = states.into_iter().filter(|(_, holds)| *holds).map(|(name, _)| Span::from(name));
    let mut line = Line::from(Span::styled(cut(&live.program), bold()));
    line.push_span(format!("  {}  ", milliseconds(live.now)));
    line.spans.extend(states.flat_map(|state| [state, "  ".into()]));
    line
}

fn table(live: &Live, frame: &mut Frame<'_>, area: Rect) {
    let names = ["start", "hop", "method", "duration", "outcome", "from its cancel", "warning"];
    let place = live.place();
    // The selected request stays in the middle, but at both ends.
    let height = usize::from(area.height.saturating_sub(1));
    let last = live.shown.len().saturating_sub(height);
    let first = place.saturating_sub(height / 2).min(last);
    let rows = live.shown.iter().enumerate().skip(first).take(height).filter_map(|(at, number)| {
        let row = live.pairing.rows().get(number)?;
        let is_selected = at == place && live.selected.is_some();
        let style = Style::new();
        let style = if is_selected { style.add_modifier(Modifier::REVERSED) } else { style };
        Some(cells(live, row).style(style))
    });
    let table = Table::new(rows, WIDTHS).header(Cells::new(names).style(bold()));
    frame.render_widget(table, area);
}

fn cells(live: &Live, row: &Row) -> Cells<'static> {
    let arrow = if row.dir == Direction::Sent { "-->" } else { "<--" };
    let (outcome, style) = outcome(live, row);
    // The bars of requests in flight grow.
    let until = row.end.or((row.outcome == Outcome::Unanswered).then_some(live.now));
    let since = |t: u64| until.map_or("-".into(), |until| milliseconds(until.saturating_sub(t)));
    Cells::new([
        Span::from(milliseconds(row.start)),
        Span::from(format!("{:6} {arrow}", cut(&row.hop.name))),
        Span::from(cut(&row.method)),
        Span::from(since(row.start)),
        Span::styled(outcome, style),
        Span::from(row.cancelled.map_or_else(String::new, since)),
        Span::styled(warning(live, row).unwrap_or_default(), Style::new().fg(Color::Red)),
    ])
}

/// Returns the outcome of a request, with its code or cause.
fn outcome(live: &Live, row: &Row) -> (String, Style) {
    let colour = match row.outcome {
        Outcome::Result => Color::Green,
        Outcome::Cancelled | Outcome::Unanswered => Color::Yellow,
        _ => Color::Red,
    };
    let name = match row.outcome {
        Outcome::Unanswered if live.has_ended => "unanswered",
        Outcome::Unanswered if row.cancelled.is_some() => "cancelling",
        Outcome::Unanswered => "in flight",
        outcome => outcome.as_str(),
    };
    let code = row.code.filter(|_| row.outcome == Outcome::Error).map(|code| code.to_string());
    let more = code.or_else(|| row.cause.as_deref().map(cut));
    let text = more.map_or_else(|| name.into(), |more| format!("{name} {more}"));
    (text, Style::new().fg(colour))
}

/// The totals, what is to be known about the recording, and what is typed or could be.
fn below(live: &Live) -> Vec<Line<'static>> {
    let mut lines = vec![totals(live)];
    let warnings = live.totals.warnings().join("; ");
    if !warnings.is_empty() {
        lines.push(Line::styled(warnings, Style::new().fg(Color::Red)));
    }
    if let Some(typed) = &live.typed {
        let problem = typed.problem.iter().flat_map(|problem| problem.lines());
        let red = Style::new().fg(Color::Red);
        lines.extend(problem.map(|line| Line::styled(line.to_owned(), red)));
        lines.push(Line::from(format!("/{}\u{2588}", cut(&typed.text))));
    } else {
        let filter = Some(&live.filter_text).filter(|text| !text.is_empty());
        let filter = filter.map_or_else(String::new, |text| format!("/{}  ", cut(text)));
        let keys = "Enter messages  / filter  f follow  p pause  ? keys  q quit";
        lines.push(Line::from(format!("{filter}{keys}")));
    }
    lines
}

fn totals(live: &Live) -> Line<'static> {
    let totals = &live.totals;
    let waits = if live.has_ended { "never answered" } else { "in flight" };
    let Summary { requests, unanswered, cancelled, late, .. } = totals;
    let mut text = format!(
        "{requests} requests: {unanswered} {waits}, {cancelled} cancelled, {late} late{}",
        totals.percentiles()
    );
    if live.filter.is_some() {
        text.push_str(&format!("; the filter shows {}", live.shown.len()));
    }
    Line::styled(text, bold())
}

/// The messages of the selected request and of all that belong to it, in their order, with what they say.
pub(super) fn messages(live: &Live) -> Vec<Line<'static>> {
    let Some(selected) = live.selected() else {
        return vec![Line::from("This request is no longer remembered.")];
    };
    let name = format!("{} {}", cut(&selected.method), cut(selected.id.as_json()));
    let (outcome, style) = outcome(live, selected);
    let mut lines = vec![Line::from(vec![
        Span::styled(name, bold()),
        "  ".into(),
        Span::styled(outcome, style),
        "  ".into(),
        Span::from(selected.refused.as_deref().map(cut).unwrap_or_default()),
    ])];
    lines.extend(live.lanes.head().lines().map(|line| Line::from(line.to_owned())));
    let family = live.pairing.rows().values().filter(|row| row.root == selected.root);
    let mut texts: Vec<_> = family.flat_map(|row| live.texts.of(row.number)).collect();
    texts.sort_by_key(|text| text.t);
    if texts.is_empty() {
        lines.push(Line::from("Its messages found no room any more."));
    }
    for text in texts {
        let drawn = live.lanes.arrow((text.t, &text.hop, text.dir), text.label.clone());
        lines.extend(drawn.lines().map(|line| Line::from(line.to_owned())));
        let dim = Style::new().add_modifier(Modifier::DIM);
        let said = text.text.iter().map(|text| Line::styled(format!("    {text}"), dim));
        lines.extend(said);
    }
    lines
}

fn keys(frame: &mut Frame<'_>, area: Rect) {
    let height = u16::try_from(KEYS.lines().count()).unwrap_or(u16::MAX).saturating_add(2);
    let width = KEYS.lines().map(str::len).max().unwrap_or(0) + 4;
    let width = u16::try_from(width).unwrap_or(u16::MAX).min(area.width);
    let area = Rect { width, height: height.min(area.height), ..area };
    frame.render_widget(Clear, area);
    frame.render_widget(Block::bordered().title(" Keys "), area);
    frame.render_widget(Paragraph::new(KEYS), area.inner(Margin::new(2, 1)));
}
