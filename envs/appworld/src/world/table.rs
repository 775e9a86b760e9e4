//! The table of APIs: names, parameters and texts. Calls are checked against it, and `api_docs` shows it.

use std::sync::OnceLock;

use serde_json::{Value, json};

use super::spec::{Api, App, Endpoint, Kind, Param};

/// Most characters of a short text: titles, names, queries.
const SHORT: usize = 200;
const LONG: usize = 5_000;
const ID: Kind = Kind::Int {
    min: 1,
    max: i64::MAX,
};
const TEXT: Kind = Kind::Text {
    max: SHORT,
    blank: false,
};
const QUERY: Kind = Kind::Text {
    max: SHORT,
    blank: true,
};
const BODY: Kind = Kind::Text {
    max: LONG,
    blank: true,
};

fn required(name: &str, kind: Kind, description: &'static str) -> Param {
    Param {
        name: name.to_owned(),
        kind,
        default: None,
        description,
    }
}

fn optional(name: &str, kind: Kind, default: Value, description: &'static str) -> Param {
    Param {
        name: name.to_owned(),
        kind,
        default: Some(default),
        description,
    }
}

fn token() -> Param {
    optional("access_token", QUERY, Value::Null, "token from login")
}

fn paging() -> [Param; 2] {
    let index = Kind::Int {
        min: 0,
        max: 1_000_000,
    };
    let limit = Kind::Int { min: 1, max: 20 };
    [
        optional("page_index", index, json!(0), "which page, from 0"),
        optional("page_limit", limit, json!(5), "most items of a page"),
    ]
}

fn with_paging(before: Vec<Param>, after: Vec<Param>) -> Vec<Param> {
    before.into_iter().chain(paging()).chain(after).collect()
}

/// All APIs but the one that differs from world to world.
pub(crate) fn fixed_apis() -> &'static [Api] {
    static APIS: OnceLock<Vec<Api>> = OnceLock::new();
    APIS.get_or_init(|| [api_docs(), simple_note(), spotify(), supervisor()].concat())
}

/// The API that tells a song's rating; its names come from the world's seed.
pub(crate) fn rating_api(name: String, param: &str) -> Api {
    Api {
        app: App::Spotify,
        name,
        method: "GET",
        description: "get the rating of a song",
        params: vec![required(param, TEXT, "title of the song"), token()],
        endpoint: Endpoint::RateSong,
    }
}

type Row = (
    &'static str,
    &'static str,
    &'static str,
    Vec<Param>,
    Endpoint,
);

fn table(app: App, rows: Vec<Row>) -> Vec<Api> {
    rows.into_iter()
        .map(|(name, method, description, params, endpoint)| Api {
            app,
            name: name.to_owned(),
            method,
            description,
            params,
            endpoint,
        })
        .collect()
}

fn api_docs() -> Vec<Api> {
    use Endpoint as E;
    let app = || required("app_name", TEXT, "name of the app");
    let search = with_paging(vec![required("query", QUERY, "words to look for")], vec![]);
    table(
        App::ApiDocs,
        vec![
            (
                "show_app_descriptions",
                "GET",
                "list all apps",
                vec![],
                E::ShowAppDescriptions,
            ),
            (
                "show_api_descriptions",
                "GET",
                "list the apis of an app",
                vec![app()],
                E::ShowApiDescriptions,
            ),
            (
                "show_api_doc",
                "GET",
                "show the parameters of an api",
                vec![app(), required("api_name", TEXT, "name of the api")],
                E::ShowApiDoc,
            ),
            (
                "search_api_docs",
                "GET",
                "find apis by words of their description",
                search,
                E::SearchApiDocs,
            ),
        ],
    )
}

/// What every app with accounts has.
fn account() -> Vec<Row> {
    use Endpoint as E;
    let credentials = || {
        vec![
            required("username", QUERY, "your email"),
            required("password", QUERY, "your password of this app"),
        ]
    };
    let mut signup = vec![
        required("first_name", TEXT, "your first name"),
        required("last_name", TEXT, "your last name"),
        required("email", TEXT, "your email"),
    ];
    signup.push(required("password", TEXT, "a new password"));
    vec![
        (
            "login",
            "POST",
            "log in and get an access token",
            credentials(),
            E::Login,
        ),
        ("logout", "DELETE", "log out", vec![token()], E::Logout),
        ("signup", "POST", "open an account", signup, E::Signup),
        (
            "show_account",
            "GET",
            "show your account",
            vec![token()],
            E::ShowAccount,
        ),
        (
            "show_profile",
            "GET",
            "show the public profile of an email",
            vec![required("email", TEXT, "whose profile")],
            E::ShowProfile,
        ),
    ]
}

fn simple_note() -> Vec<Api> {
    use Endpoint as E;
    let id = || required("note_id", ID, "id of the note");
    let search = with_paging(
        vec![optional("query", QUERY, json!(""), "words of the title")],
        vec![token()],
    );
    let mut rows = account();
    rows.extend([
        (
            "search_notes",
            "GET",
            "find notes by words of their title",
            search,
            E::SearchNotes,
        ),
        (
            "show_note",
            "GET",
            "show a note",
            vec![id(), token()],
            E::ShowNote,
        ),
        (
            "create_note",
            "POST",
            "save a new note",
            vec![
                required("title", TEXT, "title of the note"),
                required("content", BODY, "text of the note"),
                token(),
            ],
            E::CreateNote,
        ),
        (
            "update_note",
            "PATCH",
            "change a note",
            vec![
                id(),
                optional("title", TEXT, Value::Null, "new title"),
                optional("content", BODY, Value::Null, "new text"),
                token(),
            ],
            E::UpdateNote,
        ),
        (
            "delete_note",
            "DELETE",
            "delete a note",
            vec![id(), token()],
            E::DeleteNote,
        ),
    ]);
    table(App::SimpleNote, rows)
}

fn spotify() -> Vec<Api> {
    use Endpoint as E;
    let id = || required("song_id", ID, "id of the song");
    let search = with_paging(
        vec![
            optional("query", QUERY, json!(""), "words of the title"),
            optional("artist", QUERY, json!(""), "exact name of the artist"),
        ],
        vec![
            optional(
                "sort_by",
                QUERY,
                Value::Null,
                "field to sort by after + or -",
            ),
            token(),
        ],
    );
    let mut rows = account();
    rows.extend([
        (
            "search_songs",
            "GET",
            "find songs by title or artist",
            search,
            E::SearchSongs,
        ),
        (
            "show_song",
            "GET",
            "show a song",
            vec![id(), token()],
            E::ShowSong,
        ),
        (
            "like_song",
            "POST",
            "like a song",
            vec![id(), token()],
            E::LikeSong,
        ),
        (
            "unlike_song",
            "DELETE",
            "take back a like",
            vec![id(), token()],
            E::UnlikeSong,
        ),
    ]);
    table(App::Spotify, rows)
}

fn supervisor() -> Vec<Api> {
    use Endpoint as E;
    let complete = vec![
        optional(
            "answer",
            Kind::Answer,
            Value::Null,
            "answer if the task asks for one",
        ),
        optional("status", Kind::Status, json!("success"), "success or fail"),
    ];
    table(
        App::Supervisor,
        vec![
            (
                "show_active_task",
                "GET",
                "show the active task",
                vec![],
                E::ShowActiveTask,
            ),
            (
                "complete_task",
                "POST",
                "mark the active task complete",
                complete,
                E::CompleteTask,
            ),
            (
                "show_profile",
                "GET",
                "show name and email of your supervisor",
                vec![],
                E::ShowSupervisorProfile,
            ),
            (
                "show_addresses",
                "GET",
                "list addresses of your supervisor",
                vec![],
                E::ShowAddresses,
            ),
            (
                "show_payment_cards",
                "GET",
                "list payment cards of your supervisor",
                vec![],
                E::ShowPaymentCards,
            ),
            (
                "show_account_passwords",
                "GET",
                "list passwords of your supervisor",
                vec![],
                E::ShowAccountPasswords,
            ),
        ],
    )
}
