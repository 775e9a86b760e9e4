//! From a model's reply to a ballot.

use harness_core::HarnessId;
use serde_json::Value;

use crate::ballot::{Ballot, NoBallot};

/// Longest reply that is read, in bytes.
pub const MAX_REPLY_BYTES: usize = 32 << 10;

/// Reads the ranking of a reply: of the last whole JSON object after any thinking, the names under
/// `ranking`, or the one name under `vote` (bug report V3). A name is a sibling's name or id, exactly, or
/// failing that the only one that it fits if case is ignored (bug report V7).
///
/// `siblings` holds id and name of each sibling of the pool.
///
/// # Errors
/// [`NoBallot`] if the reply is cut, too long, without such an object, or ranks a stranger or a sibling
/// twice. A broken object is no value (bug report V1).
///
/// # Example
/// ```
/// use harness_core::HarnessId;
/// use harness_router::parse_reply;
/// let siblings = ["a", "b"].map(|name| (HarnessId::new(format!("id-{name}")).unwrap(), name));
/// let reply = "<think>{\"vote\":\"a\"}</think>{\"vote\":\"b\"}";
/// assert_eq!(parse_reply(reply, &siblings).unwrap().ranking[0].as_str(), "id-b");
/// assert!(parse_reply("{\"score\":", &siblings).is_err());
/// ```
pub fn parse_reply<S: AsRef<str>>(
    reply: &str,
    siblings: &[(HarnessId, S)],
) -> Result<Ballot, NoBallot> {
    if reply.len() > MAX_REPLY_BYTES {
        return Err(NoBallot::Unreadable("it is too long"));
    }
    let object = last_object(after_thinking(reply)?)?;
    let names = names_of(&object)?;
    let ids: Result<Vec<HarnessId>, NoBallot> =
        names.iter().map(|name| find(name, siblings)).collect();
    let ballot = Ballot::new(ids?);
    let pool: Vec<HarnessId> = siblings.iter().map(|(id, _)| id.clone()).collect();
    ballot.check(&pool)?;
    Ok(ballot)
}

fn after_thinking(reply: &str) -> Result<&str, NoBallot> {
    let rest = reply
        .rsplit_once("</think>")
        .map_or(reply, |(_, rest)| rest);
    if rest.contains("<think>") {
        return Err(NoBallot::Unreadable("it ends while thinking"));
    }
    Ok(rest)
}

/// The last whole object that is not part of another.
fn last_object(text: &str) -> Result<Value, NoBallot> {
    let mut last = None;
    let mut rest = text;
    while let Some(start) = rest.find('{') {
        rest = &rest[start..];
        let mut values = serde_json::Deserializer::from_str(rest).into_iter::<Value>();
        if let Some(Ok(value)) = values.next() {
            rest = &rest[values.byte_offset()..];
            last = Some(value);
        } else if values.byte_offset() == 0 && is_cut(rest) {
            return Err(NoBallot::Unreadable("its last object is cut"));
        } else {
            rest = &rest[1..];
        }
    }
    last.ok_or(NoBallot::Unreadable("there is no JSON object"))
}

/// Whether the text is an object that ends too early.
fn is_cut(text: &str) -> bool {
    serde_json::from_str::<Value>(text).is_err_and(|error| error.is_eof())
}

fn names_of(object: &Value) -> Result<Vec<&str>, NoBallot> {
    match (object.get("ranking"), object.get("vote")) {
        (Some(Value::Array(names)), _) => names.iter().map(text_of).collect(),
        (None, Some(name)) => Ok(vec![text_of(name)?]),
        _ => Err(NoBallot::Unreadable("there is no `ranking`")),
    }
}

fn text_of(name: &Value) -> Result<&str, NoBallot> {
    let text = name.as_str();
    text.ok_or(NoBallot::Unreadable("a name is not a text"))
}

fn find<S: AsRef<str>>(name: &str, siblings: &[(HarnessId, S)]) -> Result<HarnessId, NoBallot> {
    let name = name.trim();
    let exact = |(id, own): &&(HarnessId, S)| own.as_ref() == name || id.as_str() == name;
    let mut exactly = siblings.iter().filter(exact);
    match (exactly.next(), exactly.next()) {
        (Some((id, _)), None) => return Ok(id.clone()),
        // One sibling may bear another's id as its name.
        (Some(_), Some(_)) => return Err(NoBallot::Ambiguous(head(name))),
        (None, _) => {}
    }
    let folded = name.to_lowercase();
    let mut close = siblings.iter().filter(|(id, own)| {
        own.as_ref().to_lowercase() == folded || id.as_str().to_lowercase() == folded
    });
    match (close.next(), close.next()) {
        (Some((id, _)), None) => Ok(id.clone()),
        (Some(_), Some(_)) => Err(NoBallot::Ambiguous(head(name))),
        (None, _) => Err(NoBallot::Unknown(head(name))),
    }
}

fn head(text: &str) -> String {
    text.chars().take(80).collect()
}
