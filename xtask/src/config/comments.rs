//! Settings as TOML with what each means: the first sentence of its field's documentation.

use std::fmt::Write as _;

use schemars::schema_for;
use serde_json::Value;

use super::Config;

/// Longest line of a comment, in characters.
const WIDTH: usize = 100;

impl Config {
    /// The settings as TOML, every field named, each below a comment of what it means and in which unit.
    ///
    /// # Errors
    /// A number that TOML cannot hold.
    pub fn to_commented_toml(&self) -> anyhow::Result<String> {
        let schema = schema_for!(Config);
        let schema = schema.as_value();
        let mut section = schema;
        let mut text = String::new();
        for line in self.to_toml()?.lines() {
            if let Some(name) = line.strip_prefix('[').and_then(|l| l.strip_suffix(']')) {
                comment(&mut text, meaning(schema, name).as_deref());
                let reference = schema["properties"][name]["$ref"].as_str().unwrap_or("");
                section = schema
                    .pointer(reference.trim_start_matches('#'))
                    .unwrap_or(schema);
            } else if let Some((key, _)) = line.split_once(" = ") {
                comment(&mut text, meaning(section, key).as_deref());
            }
            let _ = writeln!(text, "{line}");
        }
        Ok(text)
    }
}

/// The first sentence of a field's documentation, on one line.
fn meaning(section: &Value, field: &str) -> Option<String> {
    let text = section["properties"][field]["description"].as_str()?;
    let text: Vec<&str> = text.split_whitespace().collect();
    let text = text.join(" ");
    let sentence = text
        .split_once(". ")
        .map_or(text.as_str(), |(first, _)| first);
    Some(sentence.trim_end_matches('.').to_owned())
}

fn comment(out: &mut String, text: Option<&str>) {
    let mut line = String::from("#");
    for word in text.unwrap_or_default().split(' ') {
        if line.chars().count() + 1 + word.chars().count() > WIDTH {
            let _ = writeln!(out, "{line}");
            line = String::from("#  ");
        }
        line.push(' ');
        line.push_str(word);
    }
    if text.is_some() {
        let _ = writeln!(out, "{line}");
    }
}

#[cfg(test)]
mod tests {
    use super::super::Scale;
    use super::*;

    #[test]
    fn every_setting_has_a_comment_and_the_text_is_read_back() {
        for scale in Scale::ALL {
            let config = Config::builtin("appworld", scale).unwrap();
            let text = config.to_commented_toml().unwrap();
            assert_eq!(Config::from_toml(&text).unwrap(), config);
            let lines: Vec<&str> = text.lines().collect();
            for pair in lines.windows(2).filter(|pair| !pair[1].is_empty()) {
                assert!(
                    pair[0].starts_with('#') || pair[1].starts_with('#'),
                    "{pair:?}"
                );
            }
            assert!(text.contains("# Cap of the importance weight"), "{text}");
        }
    }
}
