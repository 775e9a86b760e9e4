//! Templates of a base harness: which ones are safe to render, and rendering them within bounds.
//!
//! Fuel bounds the steps of a template. It does not bound the depth of the syntax tree, which grows with a
//! chain such as `a.b.c` and with every `elif`, until the stack is full; nor values that hold one value
//! twice, as `{% set a = [a, a] %}` makes them, which double with each step and are read as if copied.
//! So tags are short and not too many, and nothing binds a name but a loop over something that is given.

use std::io;

use minijinja::{Environment as Jinja, UndefinedBehavior, Value};

/// Instructions that a template may spend.
const FUEL: u64 = 20_000;
/// Longest tag, in bytes between its braces.
const MAX_TAG_BYTES: usize = 300;
/// Most tags.
const MAX_TAGS: usize = 500;
/// Longest text that a template may make, in bytes.
const MAX_RENDERED_BYTES: usize = 1 << 20;
/// What a tag that is no value may start with.
const KEYWORDS: [&str; 6] = ["if", "elif", "else", "endif", "for", "endfor"];

/// Checks that a template can be parsed and rendered without harm; says why it cannot.
pub(crate) fn check(source: &str) -> Result<(), String> {
    check_tags(source)?;
    let parsed = jinja().template_from_str(source).map(drop);
    parsed.map_err(|error| format!("{error:#}"))
}

/// Renders a template that may not have been checked before; says why it cannot be.
pub(crate) fn render(source: &str, values: Value) -> Result<String, String> {
    check_tags(source)?;
    let mut text = Bounded(Vec::new());
    let rendered = jinja()
        .template_from_str(source)
        .and_then(|template| template.render_captured_to(values, &mut text).map(drop));
    rendered.map_err(|error| format!("{error:#}"))?;
    Ok(String::from_utf8_lossy(&text.0).into_owned())
}

fn jinja() -> Jinja<'static> {
    let mut jinja = Jinja::new();
    jinja.set_undefined_behavior(UndefinedBehavior::Strict);
    jinja.set_fuel(Some(FUEL));
    // It panics on some patterns (minijinja 3.1.0), and no template needs it.
    jinja.remove_filter("format");
    jinja
}

/// Checks every tag, as the template engine would cut the text into tags.
fn check_tags(source: &str) -> Result<(), String> {
    let mut rest = source;
    for _ in 0..=MAX_TAGS {
        let Some((is_block, after)) = next_tag(rest) else {
            return Ok(());
        };
        let (body, after) = split_tag(after, if is_block { "%}" } else { "}}" });
        let shown: String = body.chars().take(40).collect();
        if body.len() > MAX_TAG_BYTES {
            return Err(format!(
                "a tag has at most {MAX_TAG_BYTES} bytes, this is longer: {shown}"
            ));
        }
        if is_block {
            check_block(body).map_err(|problem| format!("{problem}: {shown}"))?;
        }
        rest = after;
    }
    Err(format!("a template has at most {MAX_TAGS} tags"))
}

/// Whether the next tag is a block rather than a value, and what follows its braces; comments are passed over.
fn next_tag(source: &str) -> Option<(bool, &str)> {
    let mut rest = source;
    loop {
        rest = &rest[rest.find('{')? + 1..];
        match rest.as_bytes().first()? {
            b'{' => return Some((false, &rest[1..])),
            b'%' => return Some((true, &rest[1..])),
            b'#' => rest = rest.split_once("#}")?.1,
            _ => {}
        }
    }
}

/// Splits behind the braces that end a tag, those in texts left aside; all is the tag if none do.
fn split_tag<'a>(source: &'a str, end: &str) -> (&'a str, &'a str) {
    let mut quote = None;
    let mut is_escaped = false;
    for (at, c) in source.char_indices() {
        match quote {
            Some(_) if is_escaped => is_escaped = false,
            Some(_) if c == '\\' => is_escaped = true,
            Some(open) if c == open => quote = None,
            None if c == '\'' || c == '"' => quote = Some(c),
            None if source[at..].starts_with(end) => {
                return (&source[..at], &source[at + end.len()..]);
            }
            Some(_) | None => {}
        }
    }
    (source, "")
}

fn check_block(body: &str) -> Result<(), &'static str> {
    let body = body
        .trim_start_matches(['-', '+'])
        .trim_end_matches(['-', '+']);
    let words: Vec<&str> = body.split_whitespace().collect();
    let is_path = |text: &str| {
        text.chars()
            .all(|c| c.is_alphanumeric() || "_.".contains(c))
    };
    match words.as_slice() {
        ["for", item, "in", list] if is_path(item) && is_path(list) => Ok(()),
        ["for", ..] => Err("a loop goes over one name, as in `for tool in tools`"),
        [first, ..] if KEYWORDS.contains(first) => Ok(()),
        _ => Err("a tag may be a value, a condition or a loop and nothing else"),
    }
}

/// Takes no more text than a template may make.
struct Bounded(Vec<u8>);

impl io::Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len() + bytes.len() > MAX_RENDERED_BYTES {
            let problem = format!("a template makes at most {MAX_RENDERED_BYTES} bytes");
            return Err(io::Error::other(problem));
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use minijinja::context;

    use super::*;

    #[track_caller]
    fn accept(source: &str, expect: &str) {
        let values = context! { name => "Ann", tools => ["run", "look"], yes => true };
        assert_eq!(check(source), Ok(()));
        assert_eq!(render(source, values).as_deref(), Ok(expect));
    }

    #[track_caller]
    fn refuse(source: &str, why: &str) {
        let found = check(source).unwrap_err();
        assert!(found.contains(why), "{found}");
        assert_eq!(render(source, Value::UNDEFINED), Err(found));
    }

    #[test]
    fn values_conditions_and_loops() {
        accept("Hi {{ name|upper }}.{# none #}", "Hi ANN.");
        accept(
            "{%- for t in tools -%} {{ loop.index }}{{ t }} {%- endfor %}",
            "1run2look",
        );
        accept(
            "{% if yes and name == 'Ann' %}a{% elif yes %}b{% else %}c{% endif %}",
            "a",
        );
        accept(
            "{{ '%} }} {% set x %}' }} {\"a\": {\"b\": 1}} {{ '\\'}}' }}",
            "%} }} {% set x %} {\"a\": {\"b\": 1}} '}}",
        );
        accept(&"{{ name }}".repeat(MAX_TAGS), &"Ann".repeat(MAX_TAGS));
    }

    /// Found by fuzzing: the engine's own filter sliced the pattern inside a character.
    #[test]
    fn patterns_are_not_formatted() {
        for pattern in ["%(", "%(\u{fffd}", "{\u{fffd}", "%é", "%s"] {
            let source = format!("{{{{ '{pattern}'|format(name) }}}}");
            let found = render(&source, context! { name => "Ann" }).unwrap_err();
            assert!(found.contains("format"), "{found}");
        }
    }

    /// A chain is as deep a tree as it is long: each of these filled a thread's stack and ended the process.
    #[test]
    fn chains_cannot_fill_the_stack() {
        for part in [
            ".a",
            "[0]",
            "|trim",
            "~name",
            "+1",
            " and 1",
            " is odd",
            " if 1 else 1",
            "**1",
        ] {
            refuse(
                &format!("{{{{ name{} }}}}", part.repeat(20_000)),
                "at most 300 bytes",
            );
        }
        refuse(
            &format!("{{{{ {}1 }}}}", "-".repeat(20_000)),
            "at most 300 bytes",
        );
        refuse(
            &format!("{{{{ {}", "not ".repeat(20_000)),
            "at most 300 bytes",
        );
        refuse(
            &format!("{{{{ '}}}}' {} }}}}", "~ '}}'".repeat(9_000)),
            "at most 300 bytes",
        );
        let branches = "{% elif 0 %}".repeat(10_000);
        refuse(
            &format!("{{% if 0 %}}{branches}{{% endif %}}"),
            "at most 500 tags",
        );
    }

    /// A value that holds another twice doubles with each step: sixty of these never came back.
    #[test]
    fn nothing_doubles() {
        let steps = "{% set a = [a, a] %}".repeat(60);
        refuse(
            &format!("{{% set a = [1] %}}{steps}{{{{ a }}}}"),
            "a tag may be",
        );
        refuse(
            "{% with a = [tools, tools] %}{{ a }}{% endwith %}",
            "a tag may be",
        );
        refuse(
            "{% for a in [[tools, tools]] %}{{ a }}{% endfor %}",
            "a loop goes over",
        );
        refuse("{%-set a = 1%}", "a tag may be");
        refuse("{% filter upper %}{% endfilter %}", "a tag may be");
        refuse("{% raw %}{# {% endraw %}{% set a = 1 %}", "a tag may be");
    }

    #[test]
    fn output_is_bounded() {
        let values = context! { name => "x".repeat(MAX_RENDERED_BYTES / 4) };
        assert!(render(&"{{ name }}".repeat(4), values.clone()).is_ok());
        assert!(render(&"{{ name }}".repeat(5), values).is_err());
    }

    #[test]
    fn what_is_no_template_is_refused() {
        for source in [
            "{{ ",
            "{% if %}",
            "{% for x in tools %}",
            "{{ a b }}",
            "{% endif %}",
            "{{ 'a }}",
        ] {
            assert!(check(source).is_err(), "{source}");
        }
    }
}
