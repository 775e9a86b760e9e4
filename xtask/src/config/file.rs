//! `--config FILE`: settings from a TOML file, all of them or a few, over those of a scale.
//!
//! All that is wrong with the keys and values of a file is told together, each with its line. Ranges are
//! checked later, once `--set` and the other options have had their say.

use std::fs::File;
use std::io::Read as _;
use std::ops::Range;
use std::path::Path;

use toml::de::{DeTable, DeValue};
use toml::{Table, Value};

use super::overrides::{expects, typed};
use super::{Config, Scale};
use crate::usage::{UsageError, closest};

/// Largest file that is read, in bytes.
pub const MAX_BYTES: u64 = 1 << 20;

/// A file of settings that was read and is not understood yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettingsFile {
    name: String,
    text: String,
}

/// What is wrong with one key, and the byte at which it stands.
type Problem = (usize, String);

impl SettingsFile {
    /// Reads a file.
    ///
    /// # Errors
    /// [`UsageError`] if it cannot be read, is larger than [`MAX_BYTES`], or is not UTF-8.
    pub fn read(path: &Path) -> Result<Self, UsageError> {
        let name = path.display().to_string();
        let refuse = |reason: String| UsageError::new(format!("--config `{name}` {reason}"));
        let mut bytes = Vec::new();
        File::open(path)
            .and_then(|file| file.take(MAX_BYTES + 1).read_to_end(&mut bytes))
            .map_err(|error| refuse(format!("cannot be read: {error}")))?;
        if bytes.len() as u64 > MAX_BYTES {
            return Err(refuse(format!(
                "is larger than {MAX_BYTES} bytes, so it is no file of settings"
            )));
        }
        match String::from_utf8(bytes) {
            Ok(text) => Ok(Self { name, text }),
            Err(_) => Err(refuse("is not UTF-8 text".into())),
        }
    }

    /// The settings of an environment and a scale with those of the file in their place. Without a scale it is
    /// that of the file's key `scale`, else the default one. Ranges are not checked:
    /// [`Config::with_overrides`] does that.
    ///
    /// # Errors
    /// [`UsageError`] for text that is not TOML, an unknown key (with the closest one), a value of another
    /// type, or an environment or scale other than the one given.
    ///
    /// # Example
    /// ```
    /// # let folder = std::env::temp_dir().join("harness-s-doctest-config");
    /// # std::fs::create_dir_all(&folder).unwrap();
    /// # let path = folder.join("mine.toml");
    /// use xtask::config::SettingsFile;
    /// std::fs::write(&path, "scale = \"smoke\"\ngrpo.k = 4").unwrap();
    /// let config = SettingsFile::read(&path).unwrap().over("appworld", None).unwrap();
    /// assert_eq!(config.grpo.k, 4);
    /// # std::fs::remove_dir_all(folder).unwrap();
    /// ```
    pub fn over(&self, env: &str, scale: Option<Scale>) -> anyhow::Result<Config> {
        let parsed = DeTable::parse(&self.text).map_err(|mut error| {
            error.set_input(Some(&self.text));
            UsageError::new(format!(
                "`{}` is not TOML\n{}",
                self.name,
                error.to_string().trim_end()
            ))
        })?;
        let named = self.named_scale(parsed.get_ref())?;
        let base = Config::builtin(env, scale.or(named).unwrap_or(Scale::Default))?;
        let config = self.merge(parsed.get_ref(), &base)?;
        for (key, given, found) in [
            ("env", env, config.env.as_str()),
            ("scale", base.scale.as_str(), config.scale.as_str()),
        ] {
            if given != found {
                return Err(UsageError::new(format!(
                    "`{}` says {key} = \"{found}\", the command line says: {given}\n  \
                     leave one of them out, or make them equal",
                    self.name
                ))
                .into());
            }
        }
        Ok(config)
    }

    /// The file's key `scale`, if it names one; another value is told with the other problems.
    fn named_scale(&self, table: &DeTable<'_>) -> Result<Option<Scale>, UsageError> {
        match table.iter().find(|(key, _)| key.get_ref() == "scale") {
            Some((key, value)) => match value.get_ref() {
                DeValue::String(text) => Scale::parse(text)
                    .map(Some)
                    .map_err(|error| self.told(vec![(key.span().start, error.to_string())])),
                _ => Ok(None),
            },
            None => Ok(None),
        }
    }

    fn merge(&self, from: &DeTable<'_>, base: &Config) -> Result<Config, UsageError> {
        let before = Table::try_from(base)
            .map_err(|error| UsageError::new(format!("settings as TOML: {error}")))?;
        let mut merge = Merge {
            text: &self.text,
            before: &before,
            after: before.clone(),
            problems: Vec::new(),
        };
        merge.table("", from, &before);
        if merge.problems.is_empty() {
            let whole = merge.after.try_into();
            return whole.map_err(|error| UsageError::new(format!("`{}`: {error}", self.name)));
        }
        Err(self.told(merge.problems))
    }

    /// Problems in the order of the file, each with its line.
    fn told(&self, mut problems: Vec<Problem>) -> UsageError {
        problems.sort();
        let line = |at: usize| self.text[..at].matches('\n').count() + 1;
        let lines: Vec<String> = problems
            .iter()
            .map(|(at, problem)| format!("`{}`, line {}: {problem}", self.name, line(*at)))
            .collect();
        UsageError::new(lines.join("\n"))
    }
}

/// A file's settings on their way over a scale's.
struct Merge<'a> {
    text: &'a str,
    before: &'a Table,
    after: Table,
    problems: Vec<Problem>,
}

impl Merge<'_> {
    /// Takes over the keys of one table; `prefix` is its dotted name with a dot, or empty.
    fn table(&mut self, prefix: &str, from: &DeTable<'_>, known: &Table) {
        for (key, value) in from {
            let (at, dotted) = (key.span().start, format!("{prefix}{}", key.get_ref()));
            match (known.get(key.get_ref().as_ref()), value.get_ref()) {
                (Some(Value::Table(known)), DeValue::Table(from)) => {
                    self.table(&format!("{dotted}."), from, known);
                }
                (Some(Value::Table(_)), _) => {
                    let text =
                        format!("{dotted} is a section: write [{dotted}] and its keys below");
                    self.problems.push((at, text));
                }
                (Some(old), _) => {
                    if let Err(text) = self.leaf(&dotted, value.span(), old) {
                        self.problems.push((at, text));
                    }
                }
                (None, _) => {
                    let text = unknown(prefix, key.get_ref(), known, self.before);
                    self.problems.push((at, text));
                }
            }
        }
    }

    /// Takes over one value: of the type that the field has, and one that the field understands.
    fn leaf(&mut self, key: &str, span: Range<usize>, old: &Value) -> Result<(), String> {
        let raw = &self.text[span];
        let value = typed(raw, old).ok_or_else(|| expects(key, raw, old))?;
        let mut alone = self.before.clone();
        put(&mut alone, key, value.clone());
        alone
            .try_into::<Config>()
            .map_err(|error| format!("{key}: {}", error.message()))?;
        put(&mut self.after, key, value);
        Ok(())
    }
}

/// Puts a value in the place of a key that is there.
fn put(table: &mut Table, key: &str, value: Value) {
    if let Some(slot) = super::overrides::leaf(table, key) {
        *slot = value;
    }
}

/// An unknown key or section, with the closest name in its section or in any, or those of its section.
fn unknown(prefix: &str, name: &str, section: &Table, all: &Table) -> String {
    let leaves = super::overrides::leaf_keys(all);
    let close = match closest(name, section.keys().map(String::as_str)) {
        Some(key) => Some(format!("{prefix}{key}")),
        None => closest(name, leaves.iter().map(String::as_str)).map(str::to_owned),
    };
    let told = close.map_or_else(
        || {
            let valid: Vec<String> = section.keys().map(|k| format!("{prefix}{k}")).collect();
            format!("valid: {}", valid.join(", "))
        },
        |close| format!("did you mean: {close}"),
    );
    format!("unknown setting: {prefix}{name}\n  {told}")
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    fn file(text: &str) -> SettingsFile {
        SettingsFile {
            name: "mine.toml".into(),
            text: text.into(),
        }
    }

    fn over(text: &str) -> anyhow::Result<Config> {
        file(text).over("appworld", None)
    }

    #[track_caller]
    fn check_error(text: &str, expect: &Expect) {
        let error = over(text).unwrap_err();
        assert!(error.is::<UsageError>(), "{error}");
        expect.assert_eq(&error.to_string());
    }

    #[test]
    fn a_few_settings_over_the_default_scale() {
        let config =
            over("[grpo]\nk = 4\ntemperature = 1\n[run]\nseeds = [\n  3, # mine\n]").unwrap();
        let mut expect = Config::builtin("appworld", Scale::Default).unwrap();
        (expect.grpo.k, expect.run.seeds) = (4, vec![3]);
        assert_eq!(config, expect);
        assert_eq!(
            over("").unwrap(),
            Config::builtin("appworld", Scale::Default).unwrap()
        );
    }

    #[test]
    fn every_scale_as_a_file_is_itself() {
        for scale in Scale::ALL {
            let config = Config::builtin("appworld", scale).unwrap();
            assert_eq!(over(&config.to_toml().unwrap()).unwrap(), config);
        }
    }

    #[test]
    fn a_file_that_names_another_scale_or_environment_is_refused() {
        let error = file("scale = \"full\"").over("appworld", Some(Scale::Smoke));
        expect![[r#"
            `mine.toml` says scale = "full", the command line says: smoke
              leave one of them out, or make them equal"#]]
        .assert_eq(&error.unwrap_err().to_string());
        let error = over("env = \"other\"").unwrap_err().to_string();
        assert!(error.contains("says env = \"other\""), "{error}");
    }

    #[test]
    fn e9_misspelt_keys_are_told_with_line_and_the_closest() {
        check_error(
            "scale = \"smoke\"\n\n[grpo]\nlearning_rat = 1e-3\n[rooter]\nepsilon = 0.1\n[run]\nzzz = 1\nrun.seed = 1",
            &expect![[r"
                `mine.toml`, line 4: unknown setting: grpo.learning_rat
                  did you mean: grpo.learning_rate
                `mine.toml`, line 5: unknown setting: rooter
                  did you mean: router
                `mine.toml`, line 8: unknown setting: run.zzz
                  valid: run.arms, run.bootstrap_resamples, run.budget_rollouts, run.checkpoint_every_steps, run.dev_attempts, run.dev_only, run.eval_every_rollouts, run.keep_every_steps, run.max_in_flight, run.n_dev_per_family, run.n_test_per_family, run.n_train_per_family, run.rollout_timeout_s, run.seeds, run.task_seed, run.test_attempts, run.test_seed, run.warm_start_seeds
                `mine.toml`, line 9: unknown setting: run.run
                  did you mean: run.arms"]],
        );
    }

    #[test]
    fn values_of_another_type_are_told_with_what_was_expected() {
        check_error(
            "grpo.k = \"two\"\nthreads = 1.5\ndevice = 3\nrouter = 1\nrun.arms = [\"harness\"]\ngrpo.group_size = -1\nrun.dev_only = \"yes\"",
            &expect![[r#"
                `mine.toml`, line 1: grpo.k expects a whole number, got: "two"
                  its value is: 2
                `mine.toml`, line 2: threads expects a whole number, got: 1.5
                  its value is: 0
                `mine.toml`, line 3: device expects text, got: 3
                  its value is: "cpu"
                `mine.toml`, line 4: router is a section: write [router] and its keys below
                `mine.toml`, line 5: run.arms: unknown variant `harness`, expected one of `policy_only`, `policy_only_matched`, `harness_s`, `harness_s_sibling`, `harness_s_base_is`, `harness_s_base_positive`, `sibling_dropout`, `random_sibling`, `single_best`, `no_reanchor`, `undirected_pool`, `always_sibling`, `harness_s_k1`, `baseline_per_harness`, `baseline_with_failed`, `resampling`, `pooled_control`, `identity_siblings`, `distractor_pool`
                `mine.toml`, line 6: grpo.group_size: invalid value: integer `-1`, expected usize
                `mine.toml`, line 7: run.dev_only expects true or false, got: "yes"
                  its value is: false"#]],
        );
    }

    #[test]
    fn an_unknown_scale() {
        check_error(
            "\nscale = \"ful\"",
            &expect![[r"
            `mine.toml`, line 2: unknown scale: ful
              did you mean: full
              valid: smoke, default, full"]],
        );
    }

    #[test]
    fn text_that_is_not_toml() {
        check_error(
            "[grpo\nk = 1",
            &expect![[r"
            `mine.toml` is not TOML
            TOML parse error at line 1, column 6
              |
            1 | [grpo
              |      ^
            unclosed table, expected `]`"]],
        );
        check_error(
            "[grpo]\nk = 1\nk = 2",
            &expect![[r"
            `mine.toml` is not TOML
            TOML parse error at line 3, column 1
              |
            3 | k = 2
              | ^
            duplicate key"]],
        );
    }

    #[test]
    fn files_that_cannot_be_read() {
        let folder = tempfile::tempdir().unwrap();
        let error = |name: &str| {
            SettingsFile::read(&folder.path().join(name))
                .unwrap_err()
                .to_string()
        };
        std::fs::write(folder.path().join("large"), vec![b'#'; 1 << 20 | 1]).unwrap();
        std::fs::write(folder.path().join("bytes"), [0xff, 0xfe]).unwrap();
        assert!(error("large").contains("is larger than 1048576 bytes"));
        assert!(error("bytes").contains("is not UTF-8"));
        assert!(error("absent").contains("cannot be read"));
        assert!(error(".").contains("cannot be read"));
    }
}
