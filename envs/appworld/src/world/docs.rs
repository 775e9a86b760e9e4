//! The `api_docs` app: documentation made from the table that calls are checked against.

use serde_json::{Value, json};

use super::args::Args;
use super::simple_note::note_shape;
use super::spec::{Api, App, Endpoint, Kind, Param};
use super::spotify::song_shape;
use super::{Answer, ApiError, World, page, words};

impl World {
    pub(super) fn show_app_descriptions() -> Value {
        App::ALL
            .iter()
            .map(|app| json!({"name": app.name(), "description": app.description()}))
            .collect()
    }

    pub(super) fn show_api_descriptions(&self, args: &Args) -> Answer {
        let app = known_app(args.text("app_name"))?;
        Ok(self
            .apis(app)
            .map(|api| json!({"name": api.name, "description": api.description}))
            .collect())
    }

    pub(super) fn show_api_doc(&self, args: &Args) -> Answer {
        let app = known_app(args.text("app_name"))?;
        let name = args.text("api_name");
        self.find(app, name).map(document).ok_or_else(|| {
            ApiError::invalid(format!(
                "No API named '{name}' found in the {} app.",
                app.name()
            ))
        })
    }

    /// APIs ranked by how many of the query's words their name or description has; those without any
    /// are left out.
    pub(super) fn search_api_docs(&self, args: &Args) -> Value {
        let query = words(args.text("query"));
        let mut found: Vec<(usize, &Api)> = App::ALL
            .iter()
            .flat_map(|app| self.apis(*app))
            .map(|api| (score(&query, api), api))
            .filter(|(score, _)| *score > 0 || query.is_empty())
            .collect();
        found.sort_by_key(|(score, _)| std::cmp::Reverse(*score));
        page(found, args)
            .into_iter()
            .map(|(_, api)| {
                json!({
                    "app_name": api.app.name(),
                    "api_name": api.name,
                    "description": api.description,
                })
            })
            .collect()
    }
}

fn known_app(name: &str) -> Result<App, ApiError> {
    App::of_name(name).ok_or_else(|| ApiError::invalid(format!("No app named '{name}' found.")))
}

fn score(query: &[String], api: &Api) -> usize {
    let mut text = words(api.description);
    text.extend(words(&api.name));
    query.iter().filter(|word| text.contains(word)).count()
}

/// The document of an API, as `show_api_doc` gives it.
pub(super) fn document(api: &Api) -> Value {
    let app = api.app.name();
    json!({
        "app_name": app,
        "api_name": api.name,
        "path": format!("/{app}/{}", api.name),
        "method": api.method,
        "description": api.description,
        "parameters": api.params.iter().map(parameter).collect::<Value>(),
        "response_schemas": {
            "success": shape(api.endpoint),
            "failure": {"message": "string"},
        },
    })
}

fn parameter(param: &Param) -> Value {
    let (kind, constraints) = match param.kind {
        Kind::Int { min, max: i64::MAX } => ("integer", vec![format!("value >= {min}")]),
        Kind::Int { min, max } => (
            "integer",
            vec![format!("value >= {min}"), format!("value <= {max}")],
        ),
        Kind::Text { max, .. } => ("string", vec![format!("length <= {max}")]),
        Kind::Status => ("string", vec!["value in [success, fail]".to_owned()]),
        Kind::Answer => ("any", vec![]),
    };
    json!({
        "name": param.name,
        "type": kind,
        "required": param.default.is_none(),
        "description": param.description,
        "default": param.default,
        "constraints": constraints,
    })
}

/// The shape of a successful answer.
fn shape(endpoint: Endpoint) -> Value {
    use Endpoint as E;
    match endpoint {
        E::ShowAppDescriptions | E::ShowApiDescriptions => {
            json!([{"name": "string", "description": "string"}])
        }
        E::ShowApiDoc => json!({"parameters": [{"name": "string"}]}),
        E::SearchApiDocs => {
            json!([{"app_name": "string", "api_name": "string", "description": "string"}])
        }
        E::ShowActiveTask => json!({"instruction": "string", "status": "string", "answer": "any"}),
        E::ShowSupervisorProfile | E::ShowAccount | E::ShowProfile => {
            json!({"first_name": "string", "last_name": "string", "email": "string"})
        }
        E::ShowAddresses => json!([{"name": "string", "city": "string"}]),
        E::ShowPaymentCards => json!([{"card_name": "string", "card_number": 1}]),
        E::ShowAccountPasswords => json!([{"account_name": "string", "password": "string"}]),
        E::Login => json!({"access_token": "string", "token_type": "string"}),
        E::SearchSongs => json!([song_shape()]),
        E::ShowSong => song_shape(),
        E::RateSong => json!({"rating": 1}),
        E::SearchNotes => json!([note_shape()]),
        E::ShowNote => note_shape(),
        E::CreateNote => json!({"message": "string", "note_id": 1}),
        _ => json!({"message": "string"}),
    }
}
