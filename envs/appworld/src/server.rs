//! What the real server's HTTP answers mean (bug report A6). Pure: the client that sends requests is not here.
//!
//! The server answers a bare 500 both for its own faults and for callers' mistakes; none of them says
//! anything about the policy.

use harness_core::EnvError;
use serde_json::Value;

/// Why a request to the real server failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    /// 500 as plain text: unknown task, no world, a world of another task, or an evaluation that was asked
    /// for without `suppress_errors` and has a failing test.
    #[error("the server gave no reason: internal server error")]
    Bare,
    /// 400 with a reason; newer servers say so instead of a bare 500.
    #[error("the server refused the request: {0}")]
    Refused(String),
    /// 422: fields of the request are missing or malformed.
    #[error("bad fields in the request: {}", .0.join(", "))]
    BadFields(Vec<String>),
    /// 404: the server has no such path.
    #[error("the server has no such path")]
    NoSuchPath,
    /// The world answered, but its database is closed.
    #[error("the world is closed")]
    Closed,
    /// Anything else.
    #[error("unexpected answer with status {status}: {body}")]
    Unexpected {
        /// HTTP status.
        status: u16,
        /// The body's first 200 characters.
        body: String,
    },
}

impl From<ServerError> for EnvError {
    fn from(error: ServerError) -> Self {
        Self::Infra(error.to_string())
    }
}

/// The answer of the server, or why there is none.
///
/// # Errors
/// [`ServerError`] by status and body; never a failure of the policy.
pub fn classify(status: u16, body: &str) -> Result<Value, ServerError> {
    let json: Option<Value> = serde_json::from_str(body).ok();
    let unexpected = || ServerError::Unexpected {
        status,
        body: body.chars().take(200).collect(),
    };
    match (status, json) {
        (200, Some(json)) if is_closed(&json) => Err(ServerError::Closed),
        (200, Some(json)) => Ok(json.get("output").cloned().unwrap_or(json)),
        (400, Some(json)) => Err(ServerError::Refused(detail(&json))),
        (404, _) => Err(ServerError::NoSuchPath),
        (422, Some(json)) => Err(ServerError::BadFields(fields(&json))),
        (500, None) => Err(ServerError::Bare),
        _ => Err(unexpected()),
    }
}

/// After `/close` the server still answers 200; only the text tells.
fn is_closed(json: &Value) -> bool {
    json.get("output")
        .and_then(Value::as_str)
        .is_some_and(|text| text.contains("Cannot operate on a closed database"))
}

fn detail(json: &Value) -> String {
    match json.get("detail") {
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
        None => json.to_string(),
    }
}

/// The names of the fields that a validation error is about.
fn fields(json: &Value) -> Vec<String> {
    let items = json.get("detail").and_then(Value::as_array);
    items
        .into_iter()
        .flatten()
        .filter_map(|item| item.get("loc")?.as_array()?.last())
        .map(|loc| loc.as_str().map_or_else(|| loc.to_string(), str::to_owned))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a6_a_bare_500_is_no_failure_of_the_policy() {
        let error = classify(500, "Internal Server Error").unwrap_err();
        assert_eq!(error, ServerError::Bare);
        assert!(matches!(EnvError::from(error), EnvError::Infra(_)));
    }

    #[test]
    fn a6_a_missing_field_is_named() {
        let body = r#"{"detail":[{"loc":["body","task_id"],"msg":"field required","type":"value_error.missing"}]}"#;
        assert_eq!(
            classify(422, body),
            Err(ServerError::BadFields(vec!["task_id".into()]))
        );
    }

    #[test]
    fn a6_other_answers_are_told_apart() {
        let check = |status, body, error| assert_eq!(classify(status, body), Err(error));
        check(404, r#"{"detail":"Not Found"}"#, ServerError::NoSuchPath);
        check(
            400,
            r#"{"detail":"no such task"}"#,
            ServerError::Refused("no such task".into()),
        );
        check(
            200,
            r#"{"output":"Cannot operate on a closed database."}"#,
            ServerError::Closed,
        );
        let odd = ServerError::Unexpected {
            status: 503,
            body: "busy".into(),
        };
        check(503, "busy", odd);
        let html = ServerError::Unexpected {
            status: 200,
            body: "<html>".into(),
        };
        check(200, "<html>", html);
    }

    #[test]
    fn an_answer_is_its_output() {
        assert_eq!(classify(200, r#"{"output":true}"#), Ok(Value::Bool(true)));
        assert_eq!(
            classify(200, r#"{"message":"up"}"#).unwrap()["message"],
            "up"
        );
    }
}
