//! What the libraries tell (`tracing`): warnings as lines on the terminal, all else from a level up as JSON
//! lines in the run's folder. No result depends on it.

use std::collections::BTreeSet;
use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use anyhow::Context as _;
use serde_json::{Map, Value};
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id};
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};
use tracing_subscriber::registry::{LookupSpan, Scope};

use crate::usage::UsageError;
use crate::{clock, say};

/// The log's name in the run's folder `logs`.
pub const FILE: &str = "run.jsonl";
/// The level of the log where `--log` does not say it.
pub const VARIABLE: &str = "HARNESS_S_LOG";
const LEVELS: [(&str, LevelFilter); 6] = [
    ("off", LevelFilter::OFF),
    ("error", LevelFilter::ERROR),
    ("warn", LevelFilter::WARN),
    ("info", LevelFilter::INFO),
    ("debug", LevelFilter::DEBUG),
    ("trace", LevelFilter::TRACE),
];

/// The level of the log: the one that is given, else that of [`VARIABLE`], else `info`.
///
/// # Errors
/// [`UsageError`] for an unknown name.
pub fn level(given: Option<&str>) -> Result<LevelFilter, UsageError> {
    let set = std::env::var(VARIABLE).ok();
    let name = given.or(set.as_deref()).unwrap_or("info");
    let known = LEVELS.iter().find(|(known, _)| *known == name);
    let known = known.map(|(_, level)| *level);
    known.ok_or_else(|| UsageError::unknown("log level", name, LEVELS.map(|(name, _)| name)))
}

/// Starts to log into a file, at whose end it goes on, and to show warnings on the terminal. Without effect if
/// this process logs already.
///
/// # Errors
/// If the file cannot be opened.
pub fn start(path: &Path, level: LevelFilter) -> anyhow::Result<()> {
    let file = open(path).with_context(|| format!("opening the log `{}`", path.display()))?;
    let log = Log {
        level,
        file: Mutex::new(Some(file)),
        told: Mutex::default(),
    };
    // Only the first log of a process counts.
    let _ = tracing::subscriber::set_global_default(tracing_subscriber::registry().with(log));
    Ok(())
}

/// A text but for its numbers: what makes two warnings one kind.
pub fn kind(text: &str) -> String {
    text.replace(|c: char| c.is_ascii_digit(), "")
}

/// Opens a log to go on with. A process that was killed may have left half a line: it is ended first.
fn open(path: &Path) -> std::io::Result<File> {
    let mut file = OpenOptions::new()
        .create(true)
        .read(true)
        .append(true)
        .open(path)?;
    if file.metadata()?.len() > 0 {
        let mut last = [0];
        file.seek(SeekFrom::End(-1))?;
        file.read_exact(&mut last)?;
        if last != *b"\n" {
            file.write_all(b"\n")?;
        }
    }
    Ok(file)
}

/// The subscriber's layer.
struct Log {
    level: LevelFilter,
    /// Absent once it could not be written.
    file: Mutex<Option<File>>,
    /// Warnings on the terminal so far, by kind, arm and seed.
    told: Mutex<BTreeSet<String>>,
}

/// Fields of a span or an event, in their order.
#[derive(Clone, Default)]
struct Fields(Map<String, Value>);

impl Visit for Fields {
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put(field, value.into());
    }
    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field, value.into());
    }
    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field, value.into());
    }
    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field, value.into());
    }
    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field, value.into());
    }
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.put(field, format!("{value:?}").into());
    }
}

impl Fields {
    fn put(&mut self, field: &Field, value: Value) {
        self.0.insert(field.name().to_owned(), value);
    }

    fn text(&self, name: &str) -> String {
        match self.0.get(name) {
            Some(Value::String(text)) => text.clone(),
            Some(other) => other.to_string(),
            None => String::new(),
        }
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Log {
    fn enabled(&self, metadata: &Metadata<'_>, _: Context<'_, S>) -> bool {
        let least = if metadata.is_span() {
            LevelFilter::INFO
        } else {
            LevelFilter::WARN
        };
        *metadata.level() <= self.level.max(least)
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(self.level.max(LevelFilter::INFO))
    }

    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        if let Some(span) = context.span(id) {
            span.extensions_mut().insert(fields);
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut fields = Fields::default();
        let spans = context.event_scope(event).into_iter();
        for span in spans.flat_map(Scope::from_root) {
            if let Some(of_span) = span.extensions().get::<Fields>() {
                fields.0.extend(of_span.0.clone());
            }
        }
        event.record(&mut fields);
        let level = *event.metadata().level();
        if level <= Level::WARN {
            self.show(&fields);
        }
        if level <= self.level {
            self.keep(event.metadata(), fields);
        }
    }
}

impl Log {
    /// Shows a warning on the terminal, the first of its kind in an arm.
    fn show(&self, fields: &Fields) {
        let message = fields.text("message");
        let key = [kind(&message), fields.text("arm"), fields.text("seed")];
        if !lock(&self.told).insert(key.join("/")) {
            return;
        }
        let rest = fields.0.keys().filter(|name| *name != "message");
        let rest: Vec<_> = rest.map(|n| format!("{n}={}", fields.text(n))).collect();
        if rest.is_empty() {
            say::warn(message);
        } else {
            say::warn(format_args!("{message} ({})", rest.join(" ")));
        }
    }

    /// Adds a line to the file. A disk that is full costs the log and not the run.
    fn keep(&self, metadata: &Metadata<'_>, fields: Fields) {
        let mut line = Map::new();
        line.insert("time".into(), clock::now_rfc3339().into());
        line.insert("level".into(), metadata.level().as_str().into());
        line.insert("target".into(), metadata.target().into());
        line.insert("message".into(), fields.text("message").into());
        let rest = fields.0.into_iter().filter(|(name, _)| name != "message");
        line.extend(rest);
        let text = format!("{}\n", Value::Object(line));
        let mut file = lock(&self.file);
        if let Some(Err(error)) = file.as_mut().map(|file| file.write_all(text.as_bytes())) {
            *file = None;
            say::warn(format_args!(
                "the log ends here, it cannot be written: {error}"
            ));
        }
    }
}

/// A panic in another thread leaves nothing half done, so a poisoned lock is used all the same.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn logged(level: &str, tell: impl FnOnce()) -> Vec<Value> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(FILE);
        // Half a line of a process that was killed.
        std::fs::write(&path, "{\"time\":").unwrap();
        let log = Log {
            level: super::level(Some(level)).unwrap(),
            file: Mutex::new(Some(open(&path).unwrap())),
            told: Mutex::default(),
        };
        tracing::subscriber::with_default(tracing_subscriber::registry().with(log), tell);
        let text = std::fs::read_to_string(&path).unwrap();
        let lines = text.lines().skip(1);
        lines
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }

    #[test]
    fn a_line_holds_the_fields_of_its_spans_and_its_own() {
        let lines = logged("info", || {
            let _arm = tracing::info_span!("arm", arm = "harness_s", seed = 1_u64).entered();
            let _step = tracing::info_span!("step", step = 3_u64).entered();
            tracing::info!(rollout_id = %"s3-t1", loss = f64::NAN, "an attempt broke");
            tracing::debug!("not kept");
        });
        assert_eq!(lines.len(), 1);
        let line = &lines[0];
        assert_eq!(
            (&line["arm"], &line["seed"], &line["step"]),
            (&"harness_s".into(), &1.into(), &3.into())
        );
        assert_eq!(
            (&line["rollout_id"], &line["level"]),
            (&"s3-t1".into(), &"INFO".into())
        );
        assert_eq!(
            (&line["message"], &line["loss"]),
            (&"an attempt broke".into(), &Value::Null)
        );
    }

    #[test]
    fn the_level_is_kept() {
        let tell = || {
            tracing::warn!("a");
            tracing::debug!("b");
        };
        assert_eq!(logged("off", tell).len(), 0);
        assert_eq!(logged("warn", tell).len(), 1);
        assert_eq!(logged("debug", tell).len(), 2);
    }

    #[test]
    fn an_unknown_level_is_told_with_the_known_ones() {
        let error = level(Some("inf")).unwrap_err().to_string();
        assert!(error.contains("did you mean: info"), "{error}");
    }
}
