//! [`Interpreter`] on monty.
//!
//! The session pauses at every API call, so the world needs no locks and no callbacks inside the VM.
//! monty bounds time and recursion itself. Memory is bounded four ways: single operations by its own size
//! estimates (`max_memory`), printed text by the writer, the rest of a block by a look at the process's size
//! whenever the VM polls its writer, and what stays after a block by the size of the session's dump.
//!
//! Not bounded are single operations of monty that look neither at the clock nor at sizes: comparing, showing
//! as JSON or passing to an API a value whose parts are shared so often that written out it is huge
//! (`x = [x, x]` thirty times), and `pow` of huge whole numbers by another name. Agents that may do this on
//! purpose need a process of their own, with a limit of the system's.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;

use monty::{Dump, MontyRepl, ReplProgress, ReplStartError, Session, SessionRef, dump};
use monty_types::{
    CompileOptions, DictPairs, ExcType, ExtFunctionResult, MontyClassInstance, MontyClassType,
    MontyDate, MontyDateTime, MontyException, MontyObject, MontyUuid, NameLookupResult,
    OsFunctionCall, PrintWriter, ResourceLimits, ResourceTracker,
};
use serde_json::Map;

use super::convert::{key_text, to_json, to_python};
use super::guard;
use super::prelude::PRELUDE;
use super::printed::Printed;
use super::trace::block_error;
use super::{BlockError, BlockLimits, Clock, ErrorKind, Host, Interpreter, Raise, no_api, no_app};

/// Largest result of one operation, in bytes.
const MAX_RESULT: usize = 1 << 20;
/// Deepest recursion of agents' code; well within a test thread's stack.
const MAX_RECURSION: usize = 150;
/// Most pauses of a block for anything but an API call, per call allowed.
const PAUSES_PER_CALL: usize = 20;
/// Blocks that are fed before the agent's first.
const PRELUDE_BLOCKS: u64 = PRELUDE.len() as u64;
/// Growth of the process, in pages of 4 kB, after which a session is weighed: 64 MiB. Other threads' growth only
/// makes it be weighed for nothing.
const WEIGHED_PAGES: usize = 16_384;
/// Largest dump of a session that may go on, in bytes; its variables take some five times as much.
const MAX_SESSION: usize = 16 << 20;
/// Identity of the object `apis`; the app at index `i` has `APIS + 1 + i`.
const APIS: u128 = 1;

/// A session of monty with the names that `AppWorld` preloads.
#[derive(Debug)]
pub struct MontyInterpreter {
    repl: Option<MontyRepl>,
    apps: Vec<&'static str>,
    /// Pages by which the process grew in this session's blocks since it was weighed last.
    grown_pages: usize,
}

impl MontyInterpreter {
    /// A fresh session whose `apis` has these apps.
    pub fn new(apps: &[&'static str]) -> Self {
        Self {
            repl: Some(session(apps)),
            apps: apps.to_vec(),
            grown_pages: 0,
        }
    }

    /// Whether the variables take more than a session may, after a block that was watched by `out`.
    fn is_too_large(&mut self, repl: &MontyRepl, out: &Printed) -> bool {
        if out.is_too_large() {
            return true;
        }
        self.grown_pages += out.grown_pages();
        if self.grown_pages <= WEIGHED_PAGES {
            return false;
        }
        self.grown_pages = 0;
        dump("appworld", None, SessionRef::Idle(repl))
            .map_or(true, |bytes| bytes.len() > MAX_SESSION)
    }
}

impl Interpreter for MontyInterpreter {
    fn feed(
        &mut self,
        code: &str,
        host: &mut dyn Host,
        limits: &BlockLimits,
    ) -> Result<String, BlockError> {
        let code = guard::check(code, limits.max_code)?;
        let mut repl = self.repl.take().unwrap_or_else(|| session(&self.apps));
        repl.tracker_mut().set_max_duration(limits.time);
        let mut block = Block {
            host,
            limits,
            apps: &self.apps,
            calls: 0,
            pauses: 0,
            out: Printed::new(limits.max_printed),
        };
        // A panic of the VM costs the session, never the process: nothing of `block` outlives it.
        let ran = catch_unwind(AssertUnwindSafe(|| block.run(repl, &code)));
        let Ok((repl, ended)) = ran else {
            return Err(BlockError {
                kind: ErrorKind::Unsupported,
                text: "SystemError: the interpreter stopped; all variables are lost.".into(),
            });
        };
        let out = block.out;
        if self.is_too_large(&repl, &out) {
            return Err(BlockError {
                kind: ErrorKind::Python,
                text: "MemoryError: the variables take too much memory; all are lost.".into(),
            });
        }
        self.repl = Some(repl);
        match ended {
            Ok(()) => Ok(out.text),
            Err(error) => Err(block_error(
                &error,
                PRELUDE_BLOCKS,
                limits.time.as_secs_f64(),
            )),
        }
    }
}

/// A session with the prelude; the work is done once and its result copied.
fn session(apps: &[&'static str]) -> MontyRepl {
    static READY: OnceLock<Vec<u8>> = OnceLock::new();
    let bytes = READY.get_or_init(|| {
        let mut repl = bare_session();
        for block in PRELUDE {
            repl.feed_run(block, vec![], PrintWriter::Disabled)
                .expect("the prelude is fixed code that runs");
        }
        dump("appworld", None, SessionRef::Idle(&repl)).expect("an idle session can be dumped")
    });
    let loaded = Dump::load(bytes).expect("the dump was made by this process");
    let Session::Idle(mut repl) = loaded.state else {
        unreachable!("an idle session was dumped")
    };
    repl.feed_run(
        "0",
        vec![("apis".to_owned(), apis(apps))],
        PrintWriter::Disabled,
    )
    .expect("binding a name cannot fail");
    *repl
}

fn bare_session() -> MontyRepl {
    let limits = ResourceLimits::default()
        .max_recursion_depth(MAX_RECURSION)
        .max_memory(MAX_RESULT);
    MontyRepl::new(
        "appworld",
        ResourceTracker::new(limits),
        CompileOptions {
            assert_message_annotations: false.into(),
        },
    )
}

/// The object `apis`, whose attributes are the apps.
fn apis(apps: &[&'static str]) -> MontyObject {
    let attrs: Vec<_> = apps
        .iter()
        .enumerate()
        .map(|(i, app)| {
            let object = instance("App", APIS + 1 + i as u128, DictPairs::default());
            (MontyObject::String((*app).to_owned()), object)
        })
        .collect();
    instance("Apis", APIS, attrs.into())
}

fn instance(class: &str, id: u128, attrs: DictPairs) -> MontyObject {
    MontyObject::ClassInstance(Box::new(MontyClassInstance {
        class_type: MontyClassType {
            name: class.to_owned(),
            id: MontyUuid::from_u128(1_000 + u128::from(class == "App")),
            host_defined: true,
            is_dataclass: false,
            attrs: DictPairs::default(),
        },
        instance_id: MontyUuid::from_u128(id),
        attrs,
    }))
}

/// One block in flight.
struct Block<'a> {
    host: &'a mut dyn Host,
    limits: &'a BlockLimits,
    apps: &'a [&'static str],
    calls: usize,
    pauses: usize,
    out: Printed,
}

type Ended = (MontyRepl, Result<(), MontyException>);
type Step = Result<ReplProgress, Box<ReplStartError>>;

impl Block<'_> {
    fn run(&mut self, repl: MontyRepl, code: &str) -> Ended {
        let mut step = repl.feed_start(code, vec![], PrintWriter::Callback(&mut self.out));
        loop {
            let progress = match step {
                Ok(ReplProgress::Complete { repl, .. }) => return (repl, Ok(())),
                Ok(progress) => progress,
                Err(failed) => return (failed.repl, Err(failed.error)),
            };
            step = self.answer(progress);
        }
    }

    /// Answers one pause.
    fn answer(&mut self, progress: ReplProgress) -> Step {
        self.pauses += 1;
        if self.pauses > self.limits.max_calls.saturating_mul(PAUSES_PER_CALL) {
            return abort(progress, self.too_many(), &mut self.out);
        }
        match progress {
            ReplProgress::FunctionCall(call) => {
                let Some((app, api)) = self.route(call.object_id, &call.function_name) else {
                    let result = match call.object_id {
                        Some(id) if id == MontyUuid::from_u128(APIS) => {
                            plain(no_app(&call.function_name)).into()
                        }
                        _ => ExtFunctionResult::NotFound(call.function_name.clone()),
                    };
                    return call.resume(result, PrintWriter::Callback(&mut self.out));
                };
                if self.calls >= self.limits.max_calls {
                    let error = self.too_many();
                    return call.abort(error, PrintWriter::Callback(&mut self.out));
                }
                self.calls += 1;
                let result = self.call(app, &api, &call.args, &call.kwargs);
                call.resume(result, PrintWriter::Callback(&mut self.out))
            }
            ReplProgress::NameLookup(lookup) => {
                let result = self.lookup(lookup.object_id(), &lookup.name);
                lookup.resume(result, PrintWriter::Callback(&mut self.out))
            }
            ReplProgress::OsCall(call) => {
                let result = os_call(&call.function_call, self.host.now());
                call.resume(result, PrintWriter::Callback(&mut self.out))
            }
            other => {
                let error = plain("Waiting for futures is not allowed.".into());
                abort(other, error, &mut self.out)
            }
        }
    }

    /// The app and API that a call is for: a method of an app, or a bound API called by its full name.
    fn route(&self, object: Option<MontyUuid>, name: &str) -> Option<(&'static str, String)> {
        if let Some(id) = object {
            return self.app(id).map(|app| (app, name.to_owned()));
        }
        let (app, api) = name.split_once('.')?;
        let app = self.apps.iter().find(|a| **a == app)?;
        Some((app, api.to_owned()))
    }

    fn app(&self, id: MontyUuid) -> Option<&'static str> {
        let index = u128::from_be_bytes(*id.as_bytes()).checked_sub(APIS + 1)?;
        self.apps.get(usize::try_from(index).ok()?).copied()
    }

    fn call(
        &mut self,
        app: &'static str,
        api: &str,
        args: &[MontyObject],
        kwargs: &[(MontyObject, MontyObject)],
    ) -> ExtFunctionResult {
        if !self.host.has_api(app, api) {
            return plain(no_api(app, api)).into();
        }
        if !args.is_empty() {
            let verb = if args.len() == 1 { "was" } else { "were" };
            return type_error(format!(
                "{api}() takes 0 positional arguments but {} {verb} given",
                args.len()
            ))
            .into();
        }
        let mut arguments = Map::new();
        for (key, value) in kwargs {
            match to_json(value, 0) {
                Ok(value) => arguments.insert(key_text(key), value),
                Err(name) => {
                    return type_error(format!("Object of type {name} is not JSON serializable"))
                        .into();
                }
            };
        }
        match self.host.call(app, api, arguments) {
            Ok(value) => to_python(value).into(),
            Err(Raise::Exception(message)) => plain(message).into(),
            Err(Raise::TypeError(message)) => type_error(message).into(),
        }
    }

    fn lookup(&self, object: Option<MontyUuid>, name: &str) -> NameLookupResult {
        let Some(id) = object else {
            return NameLookupResult::Undefined;
        };
        match self.app(id) {
            Some(app) if self.host.has_api(app, name) => {
                NameLookupResult::Value(MontyObject::Function {
                    name: format!("{app}.{name}"),
                    docstring: None,
                })
            }
            Some(app) => NameLookupResult::Error(plain(no_api(app, name))),
            None => NameLookupResult::Error(plain(no_app(name))),
        }
    }

    fn too_many(&self) -> MontyException {
        plain(format!(
            "Number of requests exceeded the limit of {}. This potentially means that you have an \
             infinite loop in your code.",
            self.limits.max_calls
        ))
    }
}

fn plain(message: String) -> MontyException {
    MontyException::new(ExcType::Exception, Some(message))
}

fn type_error(message: String) -> MontyException {
    MontyException::new(ExcType::TypeError, Some(message))
}

fn abort(progress: ReplProgress, error: MontyException, out: &mut Printed) -> Step {
    let out = PrintWriter::Callback(out);
    match progress {
        ReplProgress::FunctionCall(call) => call.abort(error, out),
        ReplProgress::OsCall(call) => call.abort(error, out),
        ReplProgress::NameLookup(lookup) => lookup.abort(error, out),
        ReplProgress::ResolveFutures(futures) => futures.abort(error, out),
        ReplProgress::Complete { .. } => Ok(progress),
    }
}

/// The clock is frozen (bug report A5); everything else of the machine is out of reach.
fn os_call(call: &OsFunctionCall, now: Clock) -> ExtFunctionResult {
    match call {
        OsFunctionCall::DateToday => MontyObject::Date(MontyDate {
            year: now.year,
            month: now.month,
            day: now.day,
        })
        .into(),
        OsFunctionCall::DateTimeNow(zone) => MontyObject::DateTime(MontyDateTime {
            year: now.year,
            month: now.month,
            day: now.day,
            hour: now.hour,
            minute: now.minute,
            second: 0,
            microsecond: 0,
            offset_seconds: zone.as_ref().map(|z| z.offset_seconds),
            timezone_name: zone.as_ref().and_then(|z| z.name.clone()),
        })
        .into(),
        other => plain(format!("{} is not allowed.", other.name())).into(),
    }
}
