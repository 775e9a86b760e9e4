//! `report.html`: the report as one file that needs no network and no script.
//!
//! It is made from the report alone, and every number that it shows is one of the report's. A section whose
//! data are absent is left out and named at the end.

mod evolution;
mod lines;
mod markup;
mod method;
mod style;
mod top;
mod variants;

#[cfg(test)]
mod numbers;

pub(super) use markup::escape;

use super::Report;

/// A part of the page: its title, and its content, which is empty if its data are absent.
type Section = (&'static str, fn(&Report) -> String);

const SECTIONS: [Section; 14] = [
    ("Learning curves", lines::curves),
    ("Success of each arm", variants::arms),
    ("How the gap depends on the base's chance", lines::sweep),
    (
        "Which harness solves what, as the policy learns",
        method::matrices,
    ),
    ("What rescue had to do and what it did", lines::training),
    ("Where rescues were sent", method::routed),
    ("What reached the base: transfer", method::transfer),
    (
        "One harness for each task, no failed attempt to look at: Rank-1",
        method::rank1,
    ),
    ("The pool and how it grew", evolution::evolution),
    ("What profiles say of the siblings", method::profiles),
    (
        "Ablations: the method with one thing changed",
        variants::ablations,
    ),
    (
        "Negative controls: where rescue must gain nothing",
        variants::controls,
    ),
    ("Families of tasks", variants::families),
    ("What it cost", variants::costs),
];

/// The report as a page that stands alone and reads well on a phone and in print.
pub fn html(report: &Report) -> String {
    let title = escape(&format!(
        "Harness-S on {}, scale {}",
        report.env, report.scale
    ));
    let mut body = top::top(report);
    let mut absent = Vec::new();
    for (name, section) in SECTIONS {
        let content = section(report);
        if content.is_empty() {
            absent.push(name);
        } else {
            body.push_str(&markup::section(name, &content));
        }
    }
    if !absent.is_empty() {
        let names: Vec<_> = absent
            .iter()
            .map(|name| format!("<li>{name}</li>"))
            .collect();
        body.push_str(&markup::section(
            "Not measured in this run",
            &format!("<ul>{}</ul>\n", names.concat()),
        ));
    }
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{title}</title>\n<style>{}</style>\n</head>\n<body>\n<h1>{title}</h1>\n{body}</body>\n</html>\n",
        style::STYLE
    )
}

#[cfg(test)]
mod tests {
    use super::super::sample::rich;
    use super::super::summarise::tests::sample;
    use super::*;

    fn pages() -> [String; 3] {
        [&rich(), &sample(), &Report::default()].map(html)
    }

    #[test]
    fn names_cannot_become_markup() {
        for page in [html(&sample()), html(&rich())] {
            assert!(!page.contains("<first>") && !page.contains("<hard>"));
            assert!(page.contains("&lt;first&gt;") && page.contains("&lt;hard&gt;"));
        }
    }

    #[test]
    fn the_page_needs_nothing_else() {
        for page in pages() {
            for outside in [
                "http:", "https:", "<script", "<link", "url(", " src=", "@import",
            ] {
                assert!(!page.contains(outside), "{outside}");
            }
        }
    }

    #[test]
    fn every_tag_is_closed() {
        for page in pages() {
            let mut open: Vec<&str> = Vec::new();
            for part in page.split('<').skip(2) {
                let (tag, _) = part.split_once('>').expect("every tag ends");
                let name = tag.split([' ', '/']).find(|name| !name.is_empty()).unwrap();
                if tag.starts_with('/') {
                    assert_eq!(open.pop(), Some(name), "{tag}");
                } else if !tag.ends_with('/') && name != "meta" {
                    open.push(name);
                }
            }
            assert!(open.is_empty(), "{open:?}");
        }
    }

    #[test]
    fn a_rich_report_leaves_no_section_out() {
        let page = html(&rich());
        for (name, _) in SECTIONS {
            assert!(
                page.contains(&format!("<h2>{}</h2>", escape(name))),
                "{name}"
            );
        }
        assert!(!page.contains("Not measured in this run"));
    }

    /// The content of a section.
    #[track_caller]
    fn part<'a>(page: &'a str, title: &str) -> &'a str {
        let (_, rest) = page.split_once(&format!("<h2>{title}</h2>")).expect(title);
        rest.split("</section>").next().unwrap()
    }

    #[test]
    fn pictures_show_what_was_measured() {
        let page = html(&rich());
        let check = |title, what: &str, n| {
            let found = part(&page, title).matches(what).count();
            assert_eq!(found, n, "{title}: {what}");
        };
        check("Differences", "Z\" fill=", 4);
        check("Differences", "<circle", 20);
        check(
            "How the gap depends on the base&#39;s chance",
            "<svg viewBox=\"0 0 440",
            2,
        );
        check(
            "Which harness solves what, as the policy learns",
            "<caption>",
            3,
        );
        check(
            "One harness for each task, no failed attempt to look at: Rank-1",
            "height=\"11\"",
            10,
        );
        check(
            "The pool and how it grew",
            "<span class=\"fate\">admitted",
            2,
        );
        check(
            "The pool and how it grew",
            "<span class=\"fate\">not confirmed",
            1,
        );
        check("The pool and how it grew", "<details>", 3);
        check(
            "Negative controls: where rescue must gain nothing",
            "<td>NO</td>",
            1,
        );
        check(
            "Ablations: the method with one thing changed",
            "Z\" fill=",
            3,
        );
        check("What it cost", "<td>60,204</td>", 8);
    }

    #[test]
    fn an_old_report_names_what_it_lacks() {
        let page = html(&sample());
        assert!(page.contains("Not measured in this run"));
        assert!(page.contains("<h2>Learning curves</h2>"));
        assert!(!page.contains("<h2>What reached the base: transfer</h2>"));
    }

    #[test]
    fn an_empty_report_is_still_a_page() {
        let page = html(&Report::default());
        assert!(page.ends_with("</html>\n"));
        assert!(page.contains("No answer"));
    }
}
