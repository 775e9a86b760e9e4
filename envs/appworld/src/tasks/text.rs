//! How tasks are worded: lower case, no punctuation, two wordings each.

use super::{Goal, TaskData};

/// Wordings of every goal.
pub(super) const WORDINGS: usize = 2;

/// The instruction of a task in one of its wordings.
pub(super) fn instruction(data: &TaskData, wording: usize) -> String {
    let name = &data.entity;
    match (data.goal, wording) {
        (Goal::Likes, 0) => format!("how many likes has song {name}"),
        (Goal::Likes, _) => format!("give me the likes of song {name}"),
        (Goal::Code, 0) => format!("what code is in note {name}"),
        (Goal::Code, _) => format!("give me the code of note {name}"),
        (Goal::Plays, 0) => format!("sum the plays of artist {name}"),
        (Goal::Plays, _) => format!("how many plays has artist {name} in total"),
        (Goal::Rating, 0) => format!("what rating has song {name}"),
        (Goal::Rating, _) => format!("give me the rating of song {name}"),
        (Goal::Create { code }, 0) => format!("create note {name} with code {code}"),
        (Goal::Create { code }, _) => format!("add a note {name} that holds code {code}"),
    }
}
