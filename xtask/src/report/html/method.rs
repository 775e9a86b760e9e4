//! Sections about the parts of the method: heat maps, routing, transfer, Rank-1, profiles.

use std::collections::{BTreeMap, BTreeSet};

use super::lines::parts;
use super::markup::{escape, folded, heat_map, note, shade, table};
use crate::report::format::{estimate, percent, whole};
use crate::report::svg::{Kind, Plot, Row, Series, XAxis, colours, look_of, rows};
use crate::report::tables::{self, rank1_columns, rank1_rows};
use crate::report::{
    ArmReport, HarnessMatrix, ProfileRow, Rank1Row, Report, Routed, Transfer, words,
};

pub(super) fn matrices(report: &Report) -> String {
    let moments = report.harness_by_family.iter().flatten();
    let maps: String = moments.map(moment).collect();
    if maps.is_empty() {
        return maps;
    }
    let text = "Share of attempts solved under each harness (rows) in each family of tasks (columns), with the policy of that moment. \
                Deeper blue is more; the best of a column is framed. Siblings that are ahead in one family and not in others are local repairs; \
                where the row of the base catches up, it has learned them.";
    format!("{maps}{}", note(text))
}

fn moment(matrix: &HarnessMatrix) -> String {
    let rollouts = whole(matrix.rollouts);
    let caption = format!(
        "At the {} of training ({rollouts} rollouts per seed)",
        matrix.at
    );
    let map = heat_map(&caption, "harness", &matrix.success);
    let said = words::matrix_words(matrix).map_or_else(String::new, |text| note(&text));
    format!("{map}{said}")
}

pub(super) fn routed(report: &Report) -> String {
    let arms = tables::arms_in_order(report).into_iter();
    let arms = arms.filter(|(_, arm)| !arm.routed.is_empty());
    let (main, rest): (Vec<_>, Vec<_>) = arms.partition(|(name, _)| *name == "harness_s");
    let grid = |(name, arm): &(&str, &ArmReport)| routed_grid(name, &arm.routed);
    let others: String = rest.iter().map(grid).collect();
    let main: String = main.iter().map(grid).collect();
    let grids = format!("{main}{}", folded("The same for other arms", &others));
    if grids.is_empty() {
        return grids;
    }
    let text = "Rescue attempts that solved their task, of all that were sent to a sibling, by family of the task. \
                Deeper blue is a greater share solved. A good router sends most attempts where the column is blue.";
    format!("{grids}{}", note(text))
}

fn routed_grid(arm: &str, routes: &BTreeMap<String, BTreeMap<String, Routed>>) -> String {
    let siblings: BTreeSet<&String> = routes.values().flat_map(BTreeMap::keys).collect();
    let head = |name: &&String| format!("<th>{}</th>", escape(name));
    let cell = |routed: Option<&Routed>| {
        let share = routed.filter(|r| r.attempts > 0);
        let share = share.map(|r| r.solved as f64 / r.attempts as f64);
        let text = routed.map_or_else(|| "–".into(), tables::solved_of);
        format!(
            "<td class=\"heat\" style=\"background:{}\">{text}</td>",
            shade(share)
        )
    };
    let row = |(family, row): (&String, &BTreeMap<String, Routed>)| {
        let cells: String = siblings.iter().map(|name| cell(row.get(*name))).collect();
        format!("<tr><td>{}</td>{cells}</tr>\n", escape(family))
    };
    format!(
        "<div class=\"scroll\"><table>\n<caption>{}</caption>\n<tr><th>family</th>{}</tr>\n{}</table></div>\n",
        escape(arm),
        siblings.iter().map(head).collect::<String>(),
        routes.iter().map(row).collect::<String>()
    )
}

pub(super) fn transfer(report: &Report) -> String {
    let transfer = report.transfer.as_ref();
    let mut out = transfer.map_or_else(String::new, |transfer| {
        let gap = support_gap(report, &transfer.support_gap);
        format!("{}{gap}", behaviours(report, transfer))
    });
    if let Some(numbers) = tables::nonstationarity(report) {
        out.push_str("<h3>Do the siblings change places as the policy learns?</h3>\n");
        out.push_str(&table(Some(numbers)));
        let said = words::nonstationarity_words(report).unwrap_or_default();
        out.push_str(&note(&format!(
            "Utility is a sibling's success minus the base's in a family. {said}"
        )));
    }
    out
}

fn behaviours(report: &Report, transfer: &Transfer) -> String {
    let pictures = dumbbells(transfer);
    if pictures.is_empty() {
        return pictures;
    }
    let text = "How often the policy shows a behaviour under the base harness, without any sibling: \
                the empty circle is the policy before training, the full one after. \
                A behaviour that rises with rescue and not with the control was learned from siblings.";
    let numbers = folded("The rates as numbers", &table(tables::transfer(report)));
    format!("{pictures}{}{numbers}", note(text))
}

/// A picture for each behaviour that was measured before and after.
fn dumbbells(transfer: &Transfer) -> String {
    let pictures = transfer.behaviours.iter().filter_map(|(behaviour, arms)| {
        let mut arms: Vec<_> = arms.iter().collect();
        arms.sort_by_key(|(name, _)| tables::place(name));
        let row = |(arm, rate): &(&String, &crate::report::BeforeAfter)| {
            let (before, after) = (rate.before?, rate.after?);
            Some(Row {
                label: (*arm).clone(),
                text: format!("{} % → {} %", percent(before), percent(after)),
                value: after,
                ci95: None,
                thin: None,
                dots: Vec::new(),
                colour: look_of(tables::place(arm)).colour,
                kind: Kind::From(before),
            })
        };
        let all: Vec<_> = arms.iter().filter_map(row).collect();
        let label = format!("Rate of {behaviour} before and after training");
        let picture = rows(&label, "% under the base harness", &all);
        let title = escape(behaviour);
        (!picture.is_empty()).then(|| {
            format!(
                "<h3>{title}</h3>
{picture}
"
            )
        })
    });
    pictures.collect()
}

fn support_gap(report: &Report, gap: &[f64]) -> String {
    let values: Vec<_> = gap.iter().copied().map(Some).collect();
    let series = [Series {
        name: "best sibling minus base".into(),
        look: look_of(2),
        parts: parts(&values),
    }];
    let plot = Plot {
        label: "Best sibling minus base over training",
        x_label: "training",
        y_label: "percentage points",
        x_axis: XAxis::Training,
        series: &series,
    };
    let picture = plot.draw();
    if picture.is_empty() {
        return picture;
    }
    let said = words::support_words(report).unwrap_or_default();
    let text = format!(
        "The best sibling of each family minus the base, mean over families, at the moments of the heat maps. {said}"
    );
    format!("<h3>Support gap</h3>\n{picture}\n{}", note(&text))
}

pub(super) fn rank1(report: &Report) -> String {
    let pictures = rank1_rows(report).into_iter().map(|(policy, row)| {
        let bars = bars(row);
        let picture = rows(
            &format!("Ways to choose a harness, {policy}"),
            "% of test tasks solved",
            &bars,
        );
        format!("<h3>With the {policy}</h3>\n{picture}\n")
    });
    let pictures: String = pictures.collect();
    if pictures.is_empty() {
        return pictures;
    }
    let said = words::rank1_words(report).unwrap_or_default();
    let text = format!(
        "One rollout for each task under one harness; the ways differ in who chooses it. \
         The router must beat the base and the best fixed harness to be of use; the oracle is what a perfect choice would give. {said}"
    );
    let numbers = folded("Rank-1 as numbers", &table(tables::rank1(report)));
    format!("{pictures}{}{numbers}", note(&text))
}

fn bars(row: &Rank1Row) -> Vec<Row> {
    let colours = [
        colours::BLACK,
        colours::BLUE,
        colours::SKY,
        colours::ORANGE,
        colours::GREEN,
    ];
    let columns = rank1_columns(row).into_iter().zip(colours);
    let bars = columns.filter_map(|((name, value), colour)| {
        let value = value?;
        Some(Row {
            label: name.to_owned(),
            text: estimate(Some(value)),
            value: value.mean,
            ci95: Some(value.ci95),
            thin: None,
            dots: Vec::new(),
            colour,
            kind: Kind::Bar,
        })
    });
    bars.collect()
}

pub(super) fn profiles(report: &Report) -> String {
    let mut moments: Vec<&str> = Vec::new();
    for row in &report.profiles {
        if !moments.contains(&row.at.as_str()) {
            moments.push(&row.at);
        }
    }
    let tables = moments.into_iter().map(|at| {
        let rows: Vec<&ProfileRow> = report.profiles.iter().filter(|row| row.at == at).collect();
        format!(
            "<h3>At the {} of training</h3>\n{}",
            escape(at),
            table(tables::profiles(&rows))
        )
    });
    let tables: String = tables.collect();
    if tables.is_empty() {
        return tables;
    }
    let text = "What the router knows of each sibling from probes with the policy of that moment, first warm start. \
                Brackets here are bounds of the Beta posterior. Turns and tokens are differences from the base.";
    format!("{tables}{}", note(text))
}
