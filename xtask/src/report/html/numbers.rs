//! Every number on the page is one of the report: the test that no picture or sentence makes one up.

use std::collections::BTreeSet;

use serde_json::Value;

use super::super::sample::rich;
use super::super::summarise::tests::sample;
use super::{Report, html};

/// Numbers and strings of a report.
#[derive(Default)]
struct Known {
    numbers: Vec<f64>,
    strings: BTreeSet<String>,
}

impl Known {
    fn of(report: &Report) -> Self {
        let mut known = Self::default();
        known.add(&serde_json::to_value(report).unwrap());
        known
    }

    fn add(&mut self, value: &Value) {
        match value {
            Value::Number(number) => self.numbers.extend(number.as_f64()),
            Value::String(text) => self.add_string(text),
            Value::Array(items) => items.iter().for_each(|item| self.add(item)),
            Value::Object(map) => map.iter().for_each(|(key, value)| {
                self.add_string(key);
                self.add(value);
            }),
            Value::Null | Value::Bool(_) => {}
        }
    }

    fn add_string(&mut self, text: &str) {
        if text.contains(|c: char| c.is_ascii_digit()) {
            self.strings.insert(text.to_owned());
        }
    }

    /// Whether a token is one of the numbers, or a hundred times one, with as many decimals.
    fn has(&self, token: &str) -> bool {
        let token = token.replace(',', "");
        let digits = token
            .split_once('.')
            .map_or(0, |(_, decimals)| decimals.len());
        let is_it = |v: f64| format!("{:.digits$}", v.abs()) == token;
        self.numbers.iter().any(|v| is_it(*v) || is_it(*v * 100.0))
    }
}

/// Text that a reader sees but for labels of axes: without tags and attributes, style and title.
fn visible(page: &str) -> String {
    let body = page.split_once("<body>").unwrap().1;
    let mut out = String::new();
    for part in body.split('<') {
        let (tag, text) = part.split_once('>').unwrap_or(("", part));
        if !tag.contains("class=\"tick\"") {
            out.push_str(text);
        }
        out.push(' ');
    }
    for (entity, text) in [
        ("&lt;", "<"),
        ("&gt;", ">"),
        ("&quot;", "\""),
        ("&#39;", "'"),
        ("&amp;", "&"),
    ] {
        out = out.replace(entity, text);
    }
    out
}

/// Maximal runs of digits, with a point or commas between them.
fn tokens(text: &str) -> Vec<String> {
    let chars: Vec<char> = text.chars().collect();
    let is_digit = |i: usize| chars.get(i).is_some_and(char::is_ascii_digit);
    let mut out = Vec::new();
    let mut token = String::new();
    for (i, c) in chars.iter().enumerate() {
        let joins = ".,".contains(*c) && !token.is_empty() && is_digit(i + 1);
        if is_digit(i) || joins {
            token.push(*c);
        } else if !token.is_empty() {
            out.push(std::mem::take(&mut token));
        }
    }
    out.extend((!token.is_empty()).then_some(token));
    out
}

/// Tokens of the page that are nowhere in the report.
fn made_up(page: &str, report: &Report) -> Vec<String> {
    let known = Known::of(report);
    let mut text = visible(page);
    let mut strings: Vec<_> = known.strings.iter().collect();
    strings.sort_by_key(|string| std::cmp::Reverse(string.len()));
    for string in strings {
        text = text.replace(string.as_str(), " ");
    }
    for constant in ["95 %", "Rank-1"] {
        text = text.replace(constant, " ");
    }
    let tokens = tokens(&text).into_iter();
    tokens.filter(|token| !known.has(token)).collect()
}

#[test]
fn every_number_of_the_page_is_in_the_report() {
    for report in [rich(), sample(), Report::default()] {
        let none: [String; 0] = [];
        assert_eq!(made_up(&html(&report), &report), none);
    }
}

#[test]
fn a_made_up_number_is_found() {
    let report = rich();
    let page = html(&report).replace("</body>", "<p>it gains 77.7 points</p></body>");
    assert_eq!(made_up(&page, &report), ["77.7"]);
}

#[test]
fn tokens_are_whole_numbers() {
    assert_eq!(
        tokens("a 12,345 b [-0.5, +1] 7."),
        ["12,345", "0.5", "1", "7"]
    );
}

#[test]
fn labels_of_axes_are_not_read() {
    let page = "<body><text class=\"tick\">20</text><b title=\"7\">3</b>";
    assert_eq!(tokens(&visible(page)), ["3"]);
}

/// Writes pages to look at to the folder in `XTASK_LOOK`, if there is one.
#[test]
fn pages_to_look_at() {
    let Some(folder) = std::env::var_os("XTASK_LOOK") else {
        return;
    };
    let folder = std::path::PathBuf::from(folder);
    for (name, report) in [
        ("rich", rich()),
        ("old", sample()),
        ("empty", Report::default()),
    ] {
        std::fs::write(folder.join(format!("{name}.html")), html(&report)).unwrap();
        std::fs::write(
            folder.join(format!("{name}.md")),
            super::super::markdown(&report),
        )
        .unwrap();
        crate::files::write_json(&folder.join(format!("{name}.json")), &report).unwrap();
    }
}
