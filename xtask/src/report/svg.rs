//! Inline pictures of the report. They are drawn for a width at which their text can be read on a phone, and
//! what colour says is said by a shape, a dash or a word too.

mod plot;
mod rows;
mod scale;
mod tree;

use std::fmt::Write;

pub(super) use plot::{Plot, Point, Series, XAxis, legend};
pub(super) use rows::{Kind, Row, rows};
pub(super) use tree::{sign, tree};

/// The width of every picture in its own units.
const WIDTH: f64 = 440.0;

/// Colours that people with the common colour blindnesses tell apart (Okabe and Ito).
pub(super) mod colours {
    pub(in crate::report) const BLACK: &str = "#000000";
    pub(in crate::report) const ORANGE: &str = "#e69f00";
    pub(in crate::report) const SKY: &str = "#56b4e9";
    pub(in crate::report) const GREEN: &str = "#009e73";
    pub(in crate::report) const BLUE: &str = "#0072b2";
    pub(in crate::report) const VERMILION: &str = "#d55e00";
    pub(in crate::report) const PURPLE: &str = "#cc79a7";
}
use colours::{BLACK, BLUE, GREEN, ORANGE, PURPLE, SKY, VERMILION};

/// How a line is told from others.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Look {
    /// Colour of line and markers.
    pub colour: &'static str,
    /// Lengths of dashes and gaps; empty for a solid line.
    dash: &'static str,
    marker: Marker,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Marker {
    Circle,
    Square,
    Triangle,
    Diamond,
}

const LOOKS: [Look; 8] = [
    look(BLACK, "2 3", Marker::Square),
    look(VERMILION, "7 3", Marker::Triangle),
    look(BLUE, "", Marker::Circle),
    look(GREEN, "7 2 2 2", Marker::Diamond),
    look(SKY, "", Marker::Square),
    look(ORANGE, "5 2", Marker::Circle),
    look(PURPLE, "", Marker::Triangle),
    look("#666666", "2 2", Marker::Diamond),
];

const fn look(colour: &'static str, dash: &'static str, marker: Marker) -> Look {
    Look {
        colour,
        dash,
        marker,
    }
}

/// The look with that number; the first four are those of the main arms in the order of reports. From the
/// ninth on the colours of the later ones come again with other dashes and markers.
pub(super) fn look_of(number: usize) -> Look {
    let Some(again) = number.checked_sub(LOOKS.len()) else {
        return LOOKS[number];
    };
    let (colour, turn) = (LOOKS[4 + again % 4].colour, 1 + again / 4);
    let dash = ["3 3", "9 3", "9 2 2 2 2 2"][turn % 3];
    let marker = LOOKS[4 + (again + turn) % 4].marker;
    look(colour, dash, marker)
}

fn push(out: &mut String, text: std::fmt::Arguments<'_>) {
    out.write_fmt(text)
        .expect("writing to a String cannot fail");
}

/// The start of a picture; `label` says what it shows to those who do not see it.
fn open(height: f64, label: &str) -> String {
    format!(
        "<svg viewBox=\"0 0 {WIDTH} {height:.0}\" role=\"img\" aria-label=\"{}\">",
        super::html::escape(label)
    )
}

fn line(out: &mut String, class: &str, [x1, y1]: [f64; 2], [x2, y2]: [f64; 2]) {
    push(
        out,
        format_args!(
            "<line class=\"{class}\" x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\"/>"
        ),
    );
}

/// Text with its start, middle or end at a point; class `tick` marks the labels of axes.
fn text(out: &mut String, class: &str, anchor: &str, [x, y]: [f64; 2], content: &str) {
    push(
        out,
        format_args!(
            "<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{}</text>",
            super::html::escape(content)
        ),
    );
}

impl Look {
    fn marker(self, out: &mut String, [x, y]: [f64; 2]) {
        let (colour, r) = (self.colour, 3.2);
        let polygon = |points: &[[f64; 2]]| {
            let points = points
                .iter()
                .map(|[dx, dy]| format!("{:.1},{:.1}", x + dx * r, y + dy * r));
            let points: Vec<_> = points.collect();
            format!(
                "<polygon points=\"{}\" fill=\"{colour}\"/>",
                points.join(" ")
            )
        };
        let shape = match self.marker {
            Marker::Circle => {
                format!("<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{r}\" fill=\"{colour}\"/>")
            }
            Marker::Square => polygon(&[[-0.9, -0.9], [0.9, -0.9], [0.9, 0.9], [-0.9, 0.9]]),
            Marker::Triangle => polygon(&[[0.0, -1.2], [1.1, 0.9], [-1.1, 0.9]]),
            Marker::Diamond => polygon(&[[0.0, -1.3], [1.3, 0.0], [0.0, 1.3], [-1.3, 0.0]]),
        };
        out.push_str(&shape);
    }

    fn polyline(self, out: &mut String, points: &[[f64; 2]]) {
        let text: Vec<_> = points
            .iter()
            .map(|[x, y]| format!("{x:.1},{y:.1}"))
            .collect();
        push(
            out,
            format_args!(
                "<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"2\" stroke-dasharray=\"{}\"/>",
                text.join(" "),
                self.colour,
                self.dash
            ),
        );
        for point in points {
            self.marker(out, *point);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sixteen_lines_look_different() {
        let looks: Vec<_> = (0..16).map(look_of).collect();
        for (i, look) in looks.iter().enumerate() {
            assert!(!looks[..i].contains(look), "{i}: {look:?}");
        }
    }
}
