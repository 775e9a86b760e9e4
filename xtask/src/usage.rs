//! What is wrong with how the program was called: told with the closest valid name and all of them, exit
//! code 2.

use std::fmt;

/// A mistake of the caller's. `main` answers it with exit code 2; every other error has exit code 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UsageError(String);

impl UsageError {
    /// A mistake, told in one or more lines.
    pub fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }

    /// An unknown name, with the closest valid one if there is a close one, and all valid ones.
    ///
    /// # Example
    /// ```
    /// let error = xtask::usage::UsageError::unknown("scale", "ful", ["smoke", "default", "full"]);
    /// assert_eq!(
    ///     error.to_string(),
    ///     "unknown scale: ful\n  did you mean: full\n  valid: smoke, default, full"
    /// );
    /// ```
    pub fn unknown<'a>(
        what: &str,
        given: &str,
        valid: impl IntoIterator<Item = &'a str> + Clone,
    ) -> Self {
        let mut message = format!("unknown {what}: {given}");
        if let Some(close) = closest(given, valid.clone()) {
            message.push_str("\n  did you mean: ");
            message.push_str(close);
        }
        let valid: Vec<_> = valid.into_iter().collect();
        message.push_str("\n  valid: ");
        message.push_str(&valid.join(", "));
        Self(message)
    }
}

impl fmt::Display for UsageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for UsageError {}

/// The valid name that is most like `given` (Jaro-Winkler, at least 0.8), the first of several equal ones.
pub fn closest<'a>(given: &str, valid: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let given = given.to_lowercase();
    let mut best = None;
    for name in valid {
        let likeness = likeness(&given, name);
        if likeness >= 0.8 && best.is_none_or(|(_, other)| likeness > other) {
            best = Some((name, likeness));
        }
    }
    best.map(|(name, _)| name)
}

/// Likeness in `[0, 1]`. A dotted name is also compared by its last part alone, at a small discount, so
/// that `learning_rate` leads to `grpo.learning_rate`.
fn likeness(given: &str, name: &str) -> f64 {
    let whole = strsim::jaro_winkler(given, &name.to_lowercase());
    match name.rsplit_once('.') {
        Some((_, last)) if !given.contains('.') => {
            whole.max(0.99 * strsim::jaro_winkler(given, last))
        }
        _ => whole,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(given: &str, expect: Option<&str>) {
        let valid = ["appworld", "dbbench", "swe-gym", "grpo.learning_rate"];
        assert_eq!(closest(given, valid), expect);
    }

    #[test]
    fn one_letter_off() {
        check("apworld", Some("appworld"));
    }

    #[test]
    fn other_case() {
        check("AppWorld", Some("appworld"));
    }

    #[test]
    fn last_part_of_a_path() {
        check("learning_rat", Some("grpo.learning_rate"));
    }

    #[test]
    fn nothing_close() {
        check("zzz", None);
    }
}
