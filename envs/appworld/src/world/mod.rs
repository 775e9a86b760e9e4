//! The embedded world: four apps over an in-memory database, with `AppWorld`'s surface and our own content.
//!
//! Everything in it derives from a task's seed. Nothing here knows Python; calls arrive as JSON.

mod args;
mod build;
pub(crate) mod db;
mod docs;
mod people;
mod simple_note;
pub(crate) mod spec;
mod spotify;
mod supervisor;
pub(crate) mod table;
mod track;

use harness_core::Seed;
use serde_json::{Map, Value, json};

use crate::interpreter::{Clock, Host, Raise};
use args::Args;
use db::Database;
use people::Person;
use spec::{Api, App, Endpoint};
use table::fixed_apis;
pub(crate) use track::Track;

/// An API's refusal, with the status of the real server.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("Response status code is {status}:\n{}", json!({"message": message}))]
pub(crate) struct ApiError {
    pub(crate) status: u16,
    pub(crate) message: String,
}

impl ApiError {
    fn new(status: u16, message: impl Into<String>) -> Self {
        Self {
            status,
            message: message.into(),
        }
    }

    fn unauthorized(app: App) -> Self {
        let app = app.name();
        Self::new(
            401,
            format!(
                "You are either not authorized to access this {app} API endpoint or your access token is \
                 missing, invalid or expired."
            ),
        )
    }

    fn conflict(message: impl Into<String>) -> Self {
        Self::new(409, message)
    }

    fn invalid(message: impl Into<String>) -> Self {
        Self::new(422, message)
    }
}

type Answer = Result<Value, ApiError>;

/// A world in the middle of an episode.
#[derive(Debug, Clone)]
pub(crate) struct World {
    seed: Seed,
    instruction: String,
    pub(crate) person: Person,
    clock: Clock,
    /// The rating API, whose names differ from world to world.
    rating: Api,
    /// Apps that answer without an access token.
    open: Vec<App>,
    tokens: Vec<(App, String)>,
    n_logins: u64,
    /// How many more new notes will be lost in silence.
    lost_writes: u32,
    next_note: i64,
    pub(crate) start: Database,
    pub(crate) db: Database,
    pub(crate) track: Track,
}

impl World {
    fn find(&self, app: App, name: &str) -> Option<&Api> {
        if app == App::Spotify && self.rating.name == name {
            return Some(&self.rating);
        }
        fixed_apis().iter().find(|a| a.app == app && a.name == name)
    }

    /// Every API of an app, in the order of its descriptions.
    fn apis(&self, app: App) -> impl Iterator<Item = &Api> {
        let fixed = fixed_apis().iter().filter(move |a| a.app == app);
        fixed.chain((app == App::Spotify).then_some(&self.rating))
    }

    /// Calls an API; the call and its result are tracked.
    fn call_api(&mut self, app: App, api: &Api, given: Map<String, Value>) -> Answer {
        self.track.called(app, &api.name);
        let args = Args::check(api, given)?;
        if api.endpoint.needs_session() {
            self.check_session(app, args.optional_text("access_token"))?;
        }
        let answer = self.dispatch(app, api.endpoint, &args)?;
        self.track.answered(api, &args, &answer);
        Ok(answer)
    }

    fn check_session(&self, app: App, token: Option<&str>) -> Result<(), ApiError> {
        let valid = match token {
            None => self.open.contains(&app),
            Some(token) => self.tokens.iter().any(|(a, t)| *a == app && t == token),
        };
        if valid {
            Ok(())
        } else {
            Err(ApiError::unauthorized(app))
        }
    }

    fn dispatch(&mut self, app: App, endpoint: Endpoint, args: &Args) -> Answer {
        use Endpoint as E;
        match endpoint {
            E::ShowAppDescriptions => Ok(Self::show_app_descriptions()),
            E::ShowApiDescriptions => self.show_api_descriptions(args),
            E::ShowApiDoc => self.show_api_doc(args),
            E::SearchApiDocs => Ok(self.search_api_docs(args)),
            E::ShowActiveTask => Ok(self.show_active_task()),
            E::CompleteTask => Ok(self.complete_task(args)),
            E::ShowSupervisorProfile => Ok(self.person.profile()),
            E::ShowAddresses => Ok(self.person.addresses()),
            E::ShowPaymentCards => Ok(self.person.cards()),
            E::ShowAccountPasswords => Ok(self.person.account_passwords()),
            E::Login => self.login(app, args),
            E::Logout => Ok(self.logout(app, args)),
            E::Signup => self.signup(args),
            E::ShowAccount => Ok(self.person.account()),
            E::ShowProfile => self.show_profile(args),
            E::SearchSongs => self.search_songs(args),
            E::ShowSong => self.show_song(args),
            E::LikeSong => self.set_liked(args, true),
            E::UnlikeSong => self.set_liked(args, false),
            E::RateSong => self.rate_song(args),
            E::SearchNotes => Ok(self.search_notes(args)),
            E::ShowNote => self.show_note(args),
            E::CreateNote => self.create_note(args),
            E::UpdateNote => self.update_note(args),
            E::DeleteNote => self.delete_note(args),
        }
    }

    /// The title parameter of the rating API.
    fn rating_param(&self) -> &str {
        &self.rating.params[0].name
    }
}

impl Host for World {
    fn apps(&self) -> &[&'static str] {
        &App::NAMES
    }

    fn has_api(&self, app: &str, api: &str) -> bool {
        App::of_name(app).is_some_and(|app| self.find(app, api).is_some())
    }

    fn call(
        &mut self,
        app: &str,
        api: &str,
        arguments: Map<String, Value>,
    ) -> Result<Value, Raise> {
        let Some(found) = App::of_name(app) else {
            return Err(Raise::Exception(crate::interpreter::no_app(app)));
        };
        let Some(api) = self.find(found, api).cloned() else {
            return Err(Raise::Exception(crate::interpreter::no_api(app, api)));
        };
        self.call_api(found, &api, arguments)
            .map_err(|error| Raise::Exception(error.to_string()))
    }

    fn now(&self) -> Clock {
        self.clock
    }
}

/// Lower-case words of a text.
fn words(text: &str) -> Vec<String> {
    text.split(|c: char| !c.is_alphanumeric())
        .filter(|w| !w.is_empty())
        .map(str::to_lowercase)
        .collect()
}

/// Whether a text holds all words of a query; an empty query matches all.
fn matches(query: &[String], text: &str) -> bool {
    let text = words(text);
    query.iter().all(|word| text.contains(word))
}

/// One page of a listing; past the end it is empty.
fn page<T>(items: Vec<T>, args: &Args) -> Vec<T> {
    let index = usize::try_from(args.int("page_index")).unwrap_or_default();
    let limit = usize::try_from(args.int("page_limit")).unwrap_or_default();
    items
        .into_iter()
        .skip(index.saturating_mul(limit))
        .take(limit)
        .collect()
}
