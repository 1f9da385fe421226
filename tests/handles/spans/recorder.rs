//! A subscriber that records each span and event as a line.

use std::fmt::{self, Write};
use std::sync::{Arc, Mutex};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::DefaultGuard;
use tracing::{Event, Subscriber};
use tracing_subscriber::Registry;
use tracing_subscriber::layer::{Context, Identity, Layer, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;

/// The fields that are the same in all lines. Most recordings leave them out.
const COMMON: [&str; 4] = ["otel.name", "otel.kind", "rpc.system.name", "jsonrpc.protocol.version"];

/// The lines, and what ends the recording of this thread.
pub(crate) struct Recording {
    pub(crate) lines: Arc<Mutex<Vec<String>>>,
    _guard: DefaultGuard,
}

/// Records all lines of this thread from now on, without the fields that are the same in all.
pub(crate) fn record() -> Recording {
    record_with(Identity::new())
}

/// As [`record`], beside another layer.
pub(crate) fn record_with<L: Layer<Registry> + Send + Sync>(other: L) -> Recording {
    begin(other, &COMMON)
}

/// As [`record`], with all fields.
pub(crate) fn record_all() -> Recording {
    begin(Identity::new(), &[])
}

fn begin<L: Layer<Registry> + Send + Sync>(
    other: L,
    left_out: &'static [&'static str],
) -> Recording {
    let lines = Arc::default();
    let recorder = Recorder { lines: Arc::clone(&lines), left_out };
    let subscriber = Registry::default().with(other).with(recorder);
    Recording { lines, _guard: tracing::subscriber::set_default(subscriber) }
}

impl Recording {
    /// Returns the lines that were recorded since the last look.
    pub(crate) fn lines(&self) -> Vec<String> {
        std::mem::take(&mut *self.lines.lock().unwrap())
    }

    /// Compares the lines that were recorded since the last look, and shows a difference line by
    /// line.
    pub(crate) fn expect(&self, lines: &[&str]) {
        let (told, lines) = (self.lines().join("\n"), lines.join("\n"));
        assert!(told == lines, "told:\n{told}\n\nexpected:\n{lines}");
    }
}

struct Recorder {
    lines: Arc<Mutex<Vec<String>>>,
    left_out: &'static [&'static str],
}

/// The name of a span in later lines, with its method.
struct Label(String);

#[derive(Default)]
struct Fields {
    message: String,
    method: String,
    text: String,
    left_out: &'static [&'static str],
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        match field.name() {
            "message" => self.message = format!("{value:?}"),
            "rpc.method" => self.method = format!("{value:?}").trim_matches('"').to_owned(),
            name if self.left_out.contains(&name) => {}
            name => write!(self.text, " {name}={value:?}").unwrap(),
        }
    }
}

impl Recorder {
    fn fields(&self) -> Fields {
        Fields { left_out: self.left_out, ..Fields::default() }
    }

    fn write(&self, line: String) {
        self.lines.lock().unwrap().push(line);
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Recorder {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, cx: Context<'_, S>) {
        let mut fields = self.fields();
        attributes.record(&mut fields);
        let span = cx.span(id).unwrap();
        let label = format!("{} {}", span.name(), fields.method);
        let parent = span.parent().map(|parent| label_of(&parent)).unwrap_or_default();
        self.write(format!("{label} begins{parent}:{}", fields.text));
        span.extensions_mut().insert(Label(label));
    }

    fn on_record(&self, id: &Id, record: &Record<'_>, cx: Context<'_, S>) {
        let mut fields = self.fields();
        record.record(&mut fields);
        let span = cx.span(id).unwrap();
        let extensions = span.extensions();
        let Label(label) = extensions.get().unwrap();
        self.write(format!("{label} has{}", fields.text));
    }

    fn on_event(&self, event: &Event<'_>, cx: Context<'_, S>) {
        let mut fields = self.fields();
        event.record(&mut fields);
        let span = cx.event_span(event).map(|span| label_of(&span)).unwrap_or_default();
        let level = event.metadata().level();
        self.write(format!("{level} {}{}{span}", fields.message, fields.text));
    }

    fn on_close(&self, id: Id, cx: Context<'_, S>) {
        let span = cx.span(&id).unwrap();
        let extensions = span.extensions();
        let Label(label) = extensions.get().unwrap();
        self.write(format!("{label} ends"));
    }
}

fn label_of<S: for<'a> LookupSpan<'a>>(
    span: &tracing_subscriber::registry::SpanRef<'_, S>,
) -> String {
    let extensions = span.extensions();
    extensions.get().map(|Label(label)| format!(" in {label}")).unwrap_or_default()
}
