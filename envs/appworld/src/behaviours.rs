//! Behaviours that show in an attempt, whatever came of it: what transfer to the base harness is read from.

use crate::tasks::Family;

/// Something that an agent does, read from a fact of the environment after the last turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Behaviour {
    /// The boolean fact that says so.
    pub flag: &'static str,
    /// The family whose tasks need it.
    pub family: Family,
    /// What it is, in plain words.
    pub says: &'static str,
}

/// One or two behaviours for each family that needs a skill.
pub const BEHAVIOURS: [Behaviour; 5] = [
    Behaviour {
        flag: "passwords_shown",
        family: Family::Auth,
        says: "asks the supervisor for the passwords",
    },
    Behaviour {
        flag: "logged_in",
        family: Family::Auth,
        says: "logs in",
    },
    Behaviour {
        flag: "api_doc_read",
        family: Family::Docs,
        says: "reads an API's documentation",
    },
    Behaviour {
        flag: "pages_followed",
        family: Family::Pages,
        says: "reads beyond the first page",
    },
    Behaviour {
        flag: "write_checked",
        family: Family::Write,
        says: "reads back what it wrote",
    },
];

#[cfg(test)]
mod tests {
    use harness_core::{Deadline, Environment as _, Fact, Seed, Split};

    use super::*;
    use crate::env::AppWorldEnv;

    #[test]
    fn every_behaviour_is_a_boolean_fact() {
        let task = crate::tasks(Split::Dev, 1, Seed::new(1)).remove(0);
        let mut env = AppWorldEnv::default();
        env.reset(&task, Deadline::NEVER).unwrap();
        let facts = env.predicates();
        for behaviour in BEHAVIOURS {
            assert_eq!(facts[behaviour.flag], Fact::Bool(false), "{behaviour:?}");
        }
    }
}
