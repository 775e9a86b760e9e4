//! The person whose world it is, and the accounts: login, logout and what supervisor tells.

use harness_core::Seed;
use rand::RngExt as _;
use rand::seq::IndexedRandom as _;
use serde_json::{Value, json};

use super::args::Args;
use super::spec::App;
use super::{Answer, ApiError, World};
use crate::names::{API_WORDS, FAMILIES, PEOPLE};

/// A person with accounts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Person {
    pub(crate) first_name: &'static str,
    pub(crate) last_name: &'static str,
    pub(crate) email: String,
    phone: String,
    passwords: [(App, String); 2],
}

impl Person {
    pub(super) fn draw(seed: Seed) -> Self {
        let mut rng = seed.derive("person", &[]).rng();
        let first_name = PEOPLE.choose(&mut rng).copied().unwrap_or(PEOPLE[0]);
        let last_name = FAMILIES.choose(&mut rng).copied().unwrap_or(FAMILIES[0]);
        let mut password = || {
            let word = API_WORDS.choose(&mut rng).copied().unwrap_or(API_WORDS[0]);
            format!("{word}{}", rng.random_range(1_000..=9_999))
        };
        let passwords = [(App::SimpleNote, password()), (App::Spotify, password())];
        Self {
            first_name,
            last_name,
            email: format!("{first_name}.{last_name}@mail.com"),
            phone: format!("555{}", rng.random_range(1_000_000..=9_999_999)),
            passwords,
        }
    }

    pub(super) fn profile(&self) -> Value {
        json!({
            "first_name": self.first_name,
            "last_name": self.last_name,
            "email": self.email,
            "phone_number": self.phone,
        })
    }

    pub(super) fn account(&self) -> Value {
        json!({
            "first_name": self.first_name,
            "last_name": self.last_name,
            "email": self.email,
            "verified": true,
        })
    }

    pub(super) fn addresses(&self) -> Value {
        json!([{
            "name": "home",
            "street_address": format!("1 {} street", self.last_name),
            "city": "old town",
            "country": "nowhere",
            "zip_code": 10_000,
        }])
    }

    pub(super) fn cards(&self) -> Value {
        let owner = format!("{} {}", self.first_name, self.last_name);
        json!([{
            "card_name": "main",
            "owner_name": owner,
            "card_number": 4_000_000_000_000_002_i64,
            "expiry_year": 2_030,
            "expiry_month": 1,
            "cvv_number": 111,
        }])
    }

    pub(super) fn account_passwords(&self) -> Value {
        self.passwords
            .iter()
            .map(|(app, password)| json!({"account_name": app.name(), "password": password}))
            .collect()
    }

    fn password(&self, app: App) -> Option<&str> {
        self.passwords
            .iter()
            .find(|(a, _)| *a == app)
            .map(|(_, p)| p.as_str())
    }
}

impl World {
    pub(super) fn login(&mut self, app: App, args: &Args) -> Answer {
        let known = args.text("username") == self.person.email
            && self.person.password(app) == Some(args.text("password"));
        if !known {
            return Err(ApiError::new(401, "Invalid credentials"));
        }
        self.n_logins += 1;
        let token = self
            .seed
            .derive("token", &[app as u64, self.n_logins])
            .value();
        let token = format!("{token:016x}");
        self.tokens.push((app, token.clone()));
        Ok(json!({"access_token": token, "token_type": "Bearer"}))
    }

    pub(super) fn logout(&mut self, app: App, args: &Args) -> Value {
        match args.optional_text("access_token") {
            Some(token) => self.tokens.retain(|(a, t)| *a != app || t != token),
            None => self.open.retain(|a| *a != app),
        }
        json!({"message": "Logged out."})
    }

    /// Nobody but the supervisor lives here: new accounts are refused.
    pub(super) fn signup(&self, args: &Args) -> Answer {
        if args.text("email") == self.person.email {
            Err(ApiError::conflict("An account with this email exists."))
        } else {
            Err(ApiError::invalid("This email cannot be used."))
        }
    }

    pub(super) fn show_profile(&self, args: &Args) -> Answer {
        if args.text("email") == self.person.email {
            let person = &self.person;
            Ok(json!({
                "first_name": person.first_name,
                "last_name": person.last_name,
                "email": person.email,
            }))
        } else {
            Err(ApiError::conflict("No account with this email exists."))
        }
    }
}
