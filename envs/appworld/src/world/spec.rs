//! What an app and an API are.

use serde_json::Value;

/// An app of the world.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub(crate) enum App {
    /// Documentation of the APIs.
    ApiDocs,
    /// Notes.
    SimpleNote,
    /// Songs.
    Spotify,
    /// The person that the agent works for.
    Supervisor,
}

impl App {
    /// Every app, by name.
    pub(crate) const ALL: [Self; 4] = [
        Self::ApiDocs,
        Self::SimpleNote,
        Self::Spotify,
        Self::Supervisor,
    ];

    /// The names, in the order of [`App::ALL`].
    pub(crate) const NAMES: [&'static str; 4] =
        ["api_docs", "simple_note", "spotify", "supervisor"];

    /// The app's name in calls.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::ApiDocs => "api_docs",
            Self::SimpleNote => "simple_note",
            Self::Spotify => "spotify",
            Self::Supervisor => "supervisor",
        }
    }

    /// The app of a name.
    pub(crate) fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|app| app.name() == name)
    }

    /// What the app is for.
    pub(crate) fn description(self) -> &'static str {
        match self {
            Self::ApiDocs => "look up apps and their apis",
            Self::SimpleNote => "keep short notes",
            Self::Spotify => "listen to songs",
            Self::Supervisor => "facts about your supervisor and the active task",
        }
    }
}

/// What a call does; the world's code matches on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Endpoint {
    ShowAppDescriptions,
    ShowApiDescriptions,
    ShowApiDoc,
    SearchApiDocs,
    ShowActiveTask,
    CompleteTask,
    ShowSupervisorProfile,
    ShowAddresses,
    ShowPaymentCards,
    ShowAccountPasswords,
    Login,
    Logout,
    Signup,
    ShowAccount,
    ShowProfile,
    SearchSongs,
    ShowSong,
    LikeSong,
    UnlikeSong,
    RateSong,
    SearchNotes,
    ShowNote,
    CreateNote,
    UpdateNote,
    DeleteNote,
}

impl Endpoint {
    /// Whether the call needs a logged-in session in its app.
    pub(crate) fn needs_session(self) -> bool {
        use Endpoint as E;
        matches!(
            self,
            E::Logout
                | E::ShowAccount
                | E::SearchSongs
                | E::ShowSong
                | E::LikeSong
                | E::UnlikeSong
                | E::RateSong
                | E::SearchNotes
                | E::ShowNote
                | E::CreateNote
                | E::UpdateNote
                | E::DeleteNote
        )
    }

    /// Whether the call changes records of its app.
    pub(crate) fn writes(self) -> bool {
        use Endpoint as E;
        matches!(
            self,
            E::LikeSong | E::UnlikeSong | E::CreateNote | E::UpdateNote | E::DeleteNote
        )
    }

    /// Whether the call reads records of its app.
    pub(crate) fn reads(self) -> bool {
        use Endpoint as E;
        matches!(
            self,
            E::SearchSongs | E::ShowSong | E::RateSong | E::SearchNotes | E::ShowNote
        )
    }
}

/// What values a parameter takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A whole number in a range.
    Int { min: i64, max: i64 },
    /// A text with at most so many characters, and at least one if so marked.
    Text { max: usize, blank: bool },
    /// `success` or `fail`.
    Status,
    /// A number, a text, a list of those, or nothing.
    Answer,
}

/// A parameter of an API.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Param {
    pub(crate) name: String,
    pub(crate) kind: Kind,
    /// `None` if the parameter is required; `null` stands for "left out".
    pub(crate) default: Option<Value>,
    pub(crate) description: &'static str,
}

/// An API.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Api {
    pub(crate) app: App,
    pub(crate) name: String,
    pub(crate) method: &'static str,
    pub(crate) description: &'static str,
    pub(crate) params: Vec<Param>,
    pub(crate) endpoint: Endpoint,
}
