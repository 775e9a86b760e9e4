//! `--set key=value`: one setting replaced by its dotted name, with the type that the field has.

use toml::{Table, Value};

use super::Config;
use crate::usage::UsageError;

impl Config {
    /// Replaces settings in the order given; each is `key=value` with a dotted key. Text may stand without
    /// quotes. The result is checked as a whole, after the last one.
    ///
    /// # Errors
    /// [`UsageError`] for an unknown key (with the closest one), a value of another type, or a result out
    /// of range.
    ///
    /// # Example
    /// ```
    /// use xtask::config::{Config, Scale};
    /// let config = Config::builtin("appworld", Scale::Smoke).unwrap();
    /// let config = config.with_overrides(["grpo.learning_rate=5e-4"]).unwrap();
    /// assert!((config.grpo.learning_rate - 5e-4).abs() < 1e-12);
    /// ```
    pub fn with_overrides<S: AsRef<str>>(
        self,
        overrides: impl IntoIterator<Item = S>,
    ) -> Result<Self, UsageError> {
        let mut table = Table::try_from(&self)
            .map_err(|error| UsageError::new(format!("settings as TOML: {error}")))?;
        for text in overrides {
            set(&mut table, text.as_ref())?;
        }
        let config: Self = table
            .try_into()
            .map_err(|error| UsageError::new(error.to_string().trim_end().to_owned()))?;
        config.validate()?;
        Ok(config)
    }
}

fn set(table: &mut Table, text: &str) -> Result<(), UsageError> {
    let Some((key, raw)) = text.split_once('=') else {
        return Err(UsageError::new(format!(
            "--set expects key=value, got: {text}\n  for example: --set grpo.learning_rate=5e-4"
        )));
    };
    let key = key.trim();
    let keys = leaf_keys(table);
    if !keys.iter().any(|known| known == key) {
        let known = keys.iter().map(String::as_str);
        return Err(UsageError::unknown("setting", key, known));
    }
    let slot = leaf(table, key).expect("the key is one of the leaves");
    *slot = parse(key, raw.trim(), slot)?;
    Ok(())
}

/// Dotted names of everything that is not a table, in order.
pub(super) fn leaf_keys(table: &Table) -> Vec<String> {
    let mut keys = Vec::new();
    for (key, value) in table {
        match value {
            Value::Table(inner) => {
                keys.extend(leaf_keys(inner).iter().map(|rest| format!("{key}.{rest}")));
            }
            _ => keys.push(key.clone()),
        }
    }
    keys
}

pub(super) fn leaf<'a>(table: &'a mut Table, key: &str) -> Option<&'a mut Value> {
    match key.split_once('.') {
        Some((head, rest)) => leaf(table.get_mut(head)?.as_table_mut()?, rest),
        None => table.get_mut(key),
    }
}

/// The text as a value of the same type as `old`; text may stand without quotes.
fn parse(key: &str, raw: &str, old: &Value) -> Result<Value, UsageError> {
    match (typed(raw, old), old) {
        (Some(new), _) => Ok(new),
        (None, Value::String(_)) => Ok(Value::String(raw.into())),
        (None, _) => Err(UsageError::new(expects(key, raw, old))),
    }
}

/// The TOML value `raw` if it is of the same type as `old`; a whole number is a number too.
pub(super) fn typed(raw: &str, old: &Value) -> Option<Value> {
    let mut table = toml::from_str::<Table>(&format!("value = {raw}")).ok()?;
    let value = table.remove("value").filter(|_| table.is_empty())?;
    match (old, value) {
        (Value::Float(_), Value::Integer(n)) => Some(Value::Float(n as f64)),
        (_, new) => new.same_type(old).then_some(new),
    }
}

/// What is said of a value of another type.
pub(super) fn expects(key: &str, raw: &str, old: &Value) -> String {
    format!(
        "{key} expects {}, got: {raw}\n  its value is: {old}",
        type_name(old)
    )
}

fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Float(_) => "a number",
        Value::Integer(_) => "a whole number",
        Value::Boolean(_) => "true or false",
        Value::Array(_) => "a list such as [1, 2]",
        _ => "text",
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::{Device, Scale};
    use super::*;

    fn config() -> Config {
        Config::builtin("appworld", Scale::Smoke).unwrap()
    }

    #[track_caller]
    fn check_error(text: &str, expect: &str) {
        let error = config().with_overrides([text]).unwrap_err().to_string();
        assert!(error.contains(expect), "{error}");
    }

    #[test]
    fn a_whole_number_for_a_real_one() {
        let config = config().with_overrides(["grpo.temperature = 1"]).unwrap();
        assert!((config.grpo.temperature - 1.0).abs() < f64::EPSILON);
    }

    #[test]
    fn a_list_and_a_word() {
        let config = config()
            .with_overrides(["run.seeds=[4, 5]", "device=cuda"])
            .unwrap();
        assert_eq!(config.run.seeds, [4, 5]);
        assert_eq!(config.device, Device::Cuda);
    }

    #[test]
    fn the_last_one_stands() {
        let config = config().with_overrides(["grpo.k=1", "grpo.k=2"]).unwrap();
        assert_eq!(config.grpo.k, 2);
    }

    #[test]
    fn a_misspelt_key() {
        check_error("grpo.learning_rat=1", "did you mean: grpo.learning_rate");
    }

    #[test]
    fn a_key_without_its_section() {
        check_error("learning_rate=1", "did you mean: ");
    }

    #[test]
    fn a_section_is_no_setting() {
        check_error("grpo=1", "unknown setting: grpo");
    }

    #[test]
    fn another_type() {
        check_error("grpo.k=many", "grpo.k expects a whole number, got: many");
        check_error("grpo.k=1.5", "grpo.k expects a whole number");
        check_error("grpo.divide_by_std=1", "expects true or false");
    }

    #[test]
    fn no_value() {
        check_error("grpo.k", "--set expects key=value");
    }

    #[test]
    fn a_negative_count() {
        check_error("grpo.k=-1", "invalid value");
    }

    #[test]
    fn an_unknown_arm() {
        check_error("run.arms=[\"harness\"]", "unknown variant");
    }

    #[test]
    fn out_of_range() {
        check_error("router.epsilon=2", "router.epsilon must be in [0, 1]");
    }

    #[test]
    fn a_value_cannot_bring_in_another_key() {
        check_error("grpo.k=2\nthreads = 9", "grpo.k expects");
    }

    proptest! {
        /// Whatever stands after `--set`, what is accepted can be written to `config.toml` and read again.
        #[test]
        fn any_value_of_any_setting(
            key in any::<prop::sample::Index>(),
            value in prop_oneof![
                prop::sample::select(vec![
                    "nan", "inf", "-inf", "0", "-0.0", "1e-320", "1e300", "9223372036854775807", "-1", "0.5", "1",
                    "true", "cuda", "full", "dbbench", "[]", "[1]", "[0.5]", "[nan]", "[\"policy_only\"]", "{}",
                ]).prop_map(str::to_owned),
                "\\PC{0,12}",
            ],
        ) {
            let keys = leaf_keys(&Table::try_from(config()).unwrap());
            let setting = format!("{}={value}", key.get(&keys));
            if let Ok(config) = config().with_overrides([&setting]) {
                let text = config.to_toml().unwrap();
                prop_assert_eq!(Config::from_toml(&text), Ok(config));
            }
        }
    }
}
