//! Pieces of markup that sections are made of.

use crate::report::format::share;
use crate::report::tables::{Matrix, Table, columns};

/// A cell with more characters than this may be broken into lines.
const LONG: usize = 34;

/// Text that cannot be mistaken for markup, inside attributes too.
pub(in crate::report) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            other => out.push(other),
        }
    }
    out
}

pub(super) fn section(title: &str, content: &str) -> String {
    format!(
        "<section>\n<h2>{}</h2>\n{content}</section>\n",
        escape(title)
    )
}

/// Plain words under a picture or a title.
pub(super) fn note(text: &str) -> String {
    format!("<p class=\"note\">{}</p>\n", escape(text))
}

pub(super) fn list(items: &[String]) -> String {
    if items.is_empty() {
        return String::new();
    }
    let items: Vec<_> = items
        .iter()
        .map(|item| format!("<li>{}</li>\n", escape(item)))
        .collect();
    format!("<ul>\n{}</ul>\n", items.concat())
}

/// A table, or nothing.
pub(super) fn table(table: Option<Table>) -> String {
    let Some(table) = table else {
        return String::new();
    };
    let cell = |text: &String| {
        let class = if text.chars().count() > LONG {
            " class=\"long\""
        } else {
            ""
        };
        format!("<td{class}>{}</td>", escape(text))
    };
    let row =
        |cells: &Vec<String>| format!("<tr>{}</tr>\n", cells.iter().map(cell).collect::<String>());
    format!(
        "<div class=\"scroll\"><table>\n<tr>{}</tr>\n{}</table></div>\n",
        head(table.header.iter().map(String::as_str)),
        table.rows.iter().map(row).collect::<String>()
    )
}

fn head<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let cell = |name: &str| {
        let class = if name.chars().count() > LONG / 2 {
            " class=\"long\""
        } else {
            ""
        };
        format!("<th{class}>{}</th>", escape(name))
    };
    names.map(cell).collect()
}

/// A table behind a summary that opens it.
pub(super) fn folded(summary: &str, content: &str) -> String {
    if content.is_empty() {
        return String::new();
    }
    format!(
        "<details><summary>{}</summary>\n{content}</details>\n",
        escape(summary)
    )
}

/// A table of shares whose background shows them; one that is greater than all others of its column is
/// framed.
pub(super) fn heat_map(caption: &str, corner: &str, matrix: &Matrix) -> String {
    if matrix.is_empty() {
        return String::new();
    }
    let columns = columns(matrix);
    let value = |row: &str, column: &String| matrix.get(row)?.get(column).copied().flatten();
    let is_best = |row: &str, column: &String| {
        let others = matrix.keys().filter(|name| *name != row);
        let mut others = others.filter_map(|name| value(name, column));
        value(row, column).is_some_and(|own| others.all(|other| own > other))
    };
    let row = |name: &String| {
        let cells = columns
            .iter()
            .map(|column| heat(value(name, column), is_best(name, column)));
        format!(
            "<tr><td>{}</td>{}</tr>\n",
            escape(name),
            cells.collect::<String>()
        )
    };
    let names = std::iter::once(corner).chain(columns.iter().map(|name| name.as_str()));
    format!(
        "<div class=\"scroll\"><table>\n<caption>{}</caption>\n<tr>{}</tr>\n{}</table></div>\n",
        escape(caption),
        head(names),
        matrix.keys().map(row).collect::<String>()
    )
}

fn heat(value: Option<f64>, is_best: bool) -> String {
    let class = if is_best { "heat best" } else { "heat" };
    format!(
        "<td class=\"{class}\" style=\"background:{}\">{}</td>",
        shade(value),
        share(value)
    )
}

/// A blue that is deeper for a greater share, light enough for dark text.
pub(super) fn shade(value: Option<f64>) -> String {
    value.map_or_else(
        || "#f4f4f4".into(),
        |v| format!("rgba(0,114,178,{:.2})", v.clamp(0.0, 1.0) * 0.5),
    )
}
