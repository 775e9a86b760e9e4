//! The scripted, imperfect agent of the demonstrations: what it writes next, from what it has just seen.

use harness_core::{Seed, Task};
use rand::RngExt as _;
use rand_chacha::ChaCha8Rng;

use crate::demos::DemoRates;
use crate::grammar::Topic;
use crate::tasks::{Goal, TaskData};

const GIVE_UP: &str = "apis.supervisor.complete_task(status=\"fail\")";

/// Where the agent stands.
#[derive(Debug, Clone, PartialEq)]
enum At {
    Start,
    /// The first call of the task has been made.
    Called,
    Passwords,
    LoggedIn,
    PageRead,
    Searched,
    DocRead {
        api: String,
    },
    Wrote,
    ReadBack,
    /// A turn that a rule about something else cost.
    Wasted,
}

/// One demonstration under way.
#[derive(Debug, Clone)]
pub(crate) struct DemoAgent {
    data: TaskData,
    topic: Option<Topic>,
    rates: DemoRates,
    rng: ChaCha8Rng,
    at: At,
    n_turns: usize,
    /// The reply that a slip put off.
    put_off: Option<String>,
    /// Decisions of a skill taken so far: having begun, the agent goes on more surely.
    n_decided: u32,
}

impl DemoAgent {
    pub(crate) fn new(task: &Task, topic: Option<Topic>, rates: DemoRates, seed: Seed) -> Self {
        let data = serde_json::from_value(task.data.clone()).expect("a task of this environment");
        Self {
            data,
            topic,
            rates,
            rng: seed.rng(),
            at: At::Start,
            n_turns: 0,
            put_off: None,
            n_decided: 0,
        }
    }

    /// The next reply, and the number of the turn if it is a slip.
    pub(crate) fn next(&mut self, seen: &str) -> (String, Option<usize>) {
        let turn = self.n_turns;
        self.n_turns += 1;
        if let Some(reply) = self.put_off.take() {
            return (reply, None);
        }
        let reply = self.decide(seen);
        if reply.starts_with("print(") && self.rng.random_bool(self.rates.slip) {
            let slip = reply[..reply.len() - 1].to_owned();
            self.put_off = Some(reply);
            return (slip, Some(turn));
        }
        (reply, None)
    }

    /// Whether a decision of a skill is taken.
    fn takes(&mut self, skill: Topic) -> bool {
        let chance = if self.topic == Some(skill) {
            let rel = self.rates.rel;
            if self.n_decided == 0 {
                rel
            } else {
                1.0 - (1.0 - rel) / 2.0
            }
        } else {
            self.rates.eps
        };
        let takes = self.rng.random_bool(chance);
        self.n_decided += u32::from(takes);
        takes
    }

    fn decide(&mut self, seen: &str) -> String {
        match self.at.clone() {
            At::Start => self.start(),
            At::Wasted if self.rng.random_bool(self.rates.wrong_gives_up) => GIVE_UP.into(),
            At::Wasted => self.call(),
            At::Called => self.after_call(seen),
            At::Passwords => self.after_passwords(seen),
            At::LoggedIn => self.after_login(),
            At::PageRead => self.after_page(seen),
            At::Searched => self.after_search(seen),
            At::DocRead { api } => self.after_doc(&api, seen),
            At::Wrote => self.after_write(),
            At::ReadBack => self.after_read_back(seen),
        }
    }

    fn start(&mut self) -> String {
        let Some(topic) = self.topic else {
            return self.call();
        };
        let is_distractor = Topic::DISTRACTORS.contains(&topic);
        let chance = match (is_distractor, self.fits(topic)) {
            (true, _) => self.rates.rel,
            (false, true) => 0.0,
            (false, false) => self.rates.wrong_wastes,
        };
        if !self.rng.random_bool(chance) {
            return self.call();
        }
        self.at = if is_distractor { At::Start } else { At::Wasted };
        if is_distractor {
            self.topic = None;
        }
        waste(topic).into()
    }

    /// Whether a skill is the one that this task needs.
    fn fits(&self, topic: Topic) -> bool {
        match self.data.goal {
            Goal::Code => topic == Topic::Auth && self.data.note_locked,
            Goal::Plays => topic == Topic::Pages,
            Goal::Rating => topic == Topic::Docs,
            Goal::Create { .. } => topic == Topic::Verify,
            Goal::Likes => false,
        }
    }

    /// The call with which the base's habit begins.
    fn call(&mut self) -> String {
        let name = self.data.entity.clone();
        self.at = match self.data.goal {
            Goal::Plays => At::PageRead,
            Goal::Create { .. } => At::Wrote,
            _ => At::Called,
        };
        match self.data.goal {
            Goal::Likes => format!(
                "print([x[\"like_count\"] for x in apis.spotify.search_songs(query=\"{name}\")])"
            ),
            Goal::Code => read_note(&name),
            Goal::Plays => format!(
                "a = \"{name}\"\ni = 0\nr = apis.spotify.search_songs(artist=a, page_index=i)\ns = sum([x[\"play_count\"] for x in r])\nprint(len(r))"
            ),
            Goal::Rating => format!("print(apis.spotify.show_rating(title=\"{name}\"))"),
            Goal::Create { code } => create_note(&name, code),
        }
    }

    fn after_call(&mut self, seen: &str) -> String {
        if seen.contains("code is 401") {
            return self.go_on(Topic::Auth, At::Passwords, |_| {
                "print(apis.supervisor.show_account_passwords())".into()
            });
        }
        if seen.contains("No API named") {
            return self.go_on(Topic::Docs, At::Searched, |_| {
                "print([x[\"api_name\"] for x in apis.api_docs.search_api_docs(query=\"rating\")])"
                    .into()
            });
        }
        answer_with(seen)
    }

    fn after_passwords(&mut self, seen: &str) -> String {
        let password = password_of(seen, "simple_note");
        self.go_on(Topic::Auth, At::LoggedIn, |_| {
            format!(
                "t = apis.simple_note.login(username=apis.supervisor.show_profile()[\"email\"], password=\"{password}\")[\"access_token\"]"
            )
        })
    }

    fn after_login(&mut self) -> String {
        self.go_on(Topic::Auth, At::Called, |agent| {
            let name = &agent.data.entity;
            format!(
                "print([x[\"content\"] for x in apis.simple_note.search_notes(query=\"{name}\", access_token=t)])"
            )
        })
    }

    fn after_page(&mut self, seen: &str) -> String {
        // A hint may follow the printed count, so only its beginning is looked at.
        let is_empty = seen.starts_with('0');
        if is_empty || !self.takes(Topic::Pages) {
            return "apis.supervisor.complete_task(answer=s)".into();
        }
        "i += 1\nr = apis.spotify.search_songs(artist=a, page_index=i)\ns += sum([x[\"play_count\"] for x in r])\nprint(len(r))".into()
    }

    fn after_search(&mut self, seen: &str) -> String {
        let api = quoted(seen).unwrap_or_default();
        let at = At::DocRead { api: api.clone() };
        self.go_on(Topic::Docs, at, |_| {
            format!(
                "print([x[\"name\"] for x in apis.api_docs.show_api_doc(app_name=\"spotify\", api_name=\"{api}\")[\"parameters\"]])"
            )
        })
    }

    fn after_doc(&mut self, api: &str, seen: &str) -> String {
        let argument = quoted(seen).unwrap_or_default();
        self.at = At::Called;
        format!(
            "print(apis.spotify.{api}({argument}=\"{}\"))",
            self.data.entity
        )
    }

    fn after_write(&mut self) -> String {
        if !self.takes(Topic::Verify) {
            return "apis.supervisor.complete_task()".into();
        }
        self.at = At::ReadBack;
        read_note(&self.data.entity)
    }

    fn after_read_back(&mut self, seen: &str) -> String {
        let is_missing = seen.contains("[]");
        if !is_missing || !self.takes(Topic::Verify) {
            return "apis.supervisor.complete_task()".into();
        }
        self.at = At::Wrote;
        let Goal::Create { code } = self.data.goal else {
            return GIVE_UP.into();
        };
        create_note(&self.data.entity, code)
    }

    /// Takes a decision of a skill, or gives up.
    fn go_on(&mut self, skill: Topic, to: At, reply: impl FnOnce(&Self) -> String) -> String {
        if self.takes(skill) {
            self.at = to;
            reply(self)
        } else {
            GIVE_UP.into()
        }
    }
}

fn read_note(name: &str) -> String {
    format!("print([x[\"content\"] for x in apis.simple_note.search_notes(query=\"{name}\")])")
}

fn create_note(name: &str, code: u32) -> String {
    format!("apis.simple_note.create_note(title=\"{name}\", content=\"{code}\")")
}

/// What a rule that does not fit makes the agent do first.
const fn waste(topic: Topic) -> &'static str {
    match topic {
        Topic::Auth => "print(apis.supervisor.show_account_passwords())",
        Topic::Pages => "i = 0\nprint(i)",
        Topic::Docs => {
            "print([x[\"api_name\"] for x in apis.api_docs.search_api_docs(query=\"rating\")])"
        }
        Topic::Verify => "print(len(apis.simple_note.search_notes()))",
        Topic::Addresses => "print(len(apis.supervisor.show_addresses()))",
        Topic::ActiveTask => "print(apis.supervisor.show_active_task()[\"status\"])",
        Topic::CountApps => "print(len(apis.api_docs.show_app_descriptions()))",
        Topic::Cards => "print(len(apis.supervisor.show_payment_cards()))",
    }
}

/// Completes the task with the number that was seen, or gives up if there is none.
fn answer_with(seen: &str) -> String {
    let digits: String = seen
        .chars()
        .rev()
        .skip_while(|c| !c.is_ascii_digit())
        .take_while(char::is_ascii_digit)
        .collect();
    if digits.is_empty() {
        return GIVE_UP.into();
    }
    let number: String = digits.chars().rev().collect();
    format!("apis.supervisor.complete_task(answer={number})")
}

/// The first text in double quotes.
fn quoted(seen: &str) -> Option<String> {
    seen.split('"').nth(1).map(str::to_owned)
}

/// The password of an account in a printed list of accounts.
fn password_of(seen: &str, account: &str) -> String {
    let marks = [format!("\"{account}\""), "\"password\": \"".to_owned()];
    marks
        .iter()
        .try_fold(seen, |rest, mark| {
            rest.split_once(mark.as_str()).map(|(_, r)| r)
        })
        .and_then(|rest| rest.split('"').next())
        .unwrap_or_default()
        .to_owned()
}
