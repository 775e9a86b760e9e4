//! Where a run stands, as text.

use std::fmt::Write as _;

use super::state::{JobState, RunState, Stage};

/// What a cell without a number holds.
const NONE: &str = "-";

/// The whole text: what the run is, its jobs, its pools, results, what is left, warnings.
pub(super) fn text(state: &RunState) -> String {
    let mut out = String::new();
    let budget = grouped(state.budget_rollouts);
    let end = match (&state.ended, state.wall_s) {
        (Some(ended), Some(wall_s)) => format!("done {ended} after {wall_s:.0} s"),
        (Some(ended), None) => format!("done {ended}"),
        (None, _) => "no report yet".into(),
    };
    let _ = writeln!(out, "{}, scale {}: {end}", state.env, state.scale);
    let _ = writeln!(out, "each arm and seed may spend {budget} rollouts\n");
    jobs(&mut out, state);
    pools(&mut out, state);
    results(&mut out, state);
    unfinished(&mut out, state);
    for warning in &state.warnings {
        let _ = writeln!(out, "warning: {warning}");
    }
    out
}

fn jobs(out: &mut String, state: &RunState) {
    let head = [
        "arm and seed",
        "stage",
        "steps",
        "rollouts",
        "spent",
        "base",
        "rescue",
        "all failed",
        "rescued",
        "dev",
        "per second",
    ];
    let is_shown = |job: &&JobState| job.stage != Stage::Waiting;
    let mut rows: Vec<Vec<String>> = vec![head.map(str::to_owned).to_vec()];
    let shown = state.jobs.iter().filter(is_shown);
    rows.extend(shown.map(|job| job_row(job, state.budget_rollouts)));
    if rows.len() == 1 {
        out.push_str("nothing was trained yet\n\n");
        return;
    }
    // Speeds are there only while something trains.
    if rows.iter().skip(1).all(|row| row[10] == NONE) {
        for row in &mut rows {
            row.truncate(10);
        }
    }
    columns(out, &rows, 2);
    let _ = writeln!(
        out,
        "\n\
         base, rescue, all failed: of the last {} steps; attempts under the base and in rescues that solved\n\
         their task, and groups of which the base failed every attempt\n\
         rescued: failed groups that a further attempt solved, of all failed groups so far\n\
         dev: success under the base on dev, at the last evaluation, after so many rollouts\n",
        state.window_steps
    );
}

fn job_row(job: &JobState, budget: u64) -> Vec<String> {
    let stage = match job.stage {
        Stage::Waiting => "waiting",
        Stage::Training => "training",
        Stage::Done => "done",
    };
    let rollouts = job.rollouts.filter(|_| budget > 0);
    let part = rollouts.map(|n| percent(n as f64 / budget as f64));
    let dev = job
        .dev
        .map(|dev| format!("{:.2} at {}", dev.success, grouped(dev.rollouts)));
    let rescued =
        (job.failed_groups > 0).then(|| format!("{} of {}", job.rescued_groups, job.failed_groups));
    let cell = |text: Option<String>| text.unwrap_or_else(|| NONE.into());
    vec![
        job.name.clone(),
        stage.into(),
        grouped(job.steps),
        cell(job.rollouts.map(grouped)),
        cell(part),
        cell(job.base_solved.map(percent)),
        cell(job.rescue_solved.map(percent)),
        cell(job.all_failed.map(percent)),
        cell(rescued),
        cell(dev),
        cell(job.rollouts_per_s.map(|rate| format!("{rate:.0}"))),
    ]
}

fn pools(out: &mut String, state: &RunState) {
    for pool in &state.pools {
        let n = pool.siblings.len();
        let noun = if n == 1 { "sibling" } else { "siblings" };
        let _ = writeln!(out, "{}: {n} {noun}", pool.file);
        let rows = pool.siblings.iter().map(|sibling| {
            let confirmed = match (sibling.solved, sibling.base_solved) {
                (Some(solved), Some(base)) => {
                    format!(
                        "confirmed: solved {}, base {}",
                        percent(solved),
                        percent(base)
                    )
                }
                _ => "never confirmed".into(),
            };
            vec![
                format!("  {}", sibling.name),
                format!("repairs {}", sibling.direction),
                confirmed,
            ]
        });
        columns(out, &rows.collect::<Vec<_>>(), 3);
    }
    if !state.pools.is_empty() {
        out.push('\n');
    }
}

fn results(out: &mut String, state: &RunState) {
    let rows: Vec<Vec<String>> = state
        .results
        .iter()
        .filter_map(|(arm, result)| {
            let est = result.base_success?;
            let [low, high] = est.ci95;
            let value = format!("{:.2} [{low:.2}, {high:.2}]", est.mean);
            Some(vec![format!("  {arm}"), value])
        })
        .collect();
    if !rows.is_empty() {
        out.push_str("success on test under the base, last checkpoint, mean and 95 % interval:\n");
        columns(out, &rows, 2);
        out.push_str("more: report.html\n\n");
    }
}

fn unfinished(out: &mut String, state: &RunState) {
    let names = |stage: Stage| -> Vec<&str> {
        let jobs = state.jobs.iter().filter(|job| job.stage == stage);
        jobs.map(|job| job.name.as_str()).collect()
    };
    let (training, waiting) = (names(Stage::Training), names(Stage::Waiting));
    if !training.is_empty() {
        let _ = writeln!(
            out,
            "in training, or stopped while it was: {}",
            training.join(", ")
        );
    }
    match waiting.as_slice() {
        [] => {}
        few if few.len() <= 6 => {
            let _ = writeln!(out, "not begun: {}", few.join(", "));
        }
        [first, ..] => {
            let _ = writeln!(out, "not begun: {} more, {first} first", waiting.len());
        }
    }
    if state.ended.is_none() {
        out.push_str(
            "a stopped run goes on with its own command and --resume --out <this folder>\n",
        );
    }
}

/// Rows as columns two blanks apart, the first `n_left` of them to the left and the others to the right.
pub(super) fn columns(out: &mut String, rows: &[Vec<String>], n_left: usize) {
    let n_columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |i: usize| {
        let cells = rows.iter().filter_map(|row| row.get(i));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..n_columns).map(width).collect();
    for row in rows {
        let mut line = String::new();
        for (i, (cell, width)) in row.iter().zip(&widths).enumerate() {
            if i > 0 {
                line.push_str("  ");
            }
            let _ = if i < n_left {
                write!(line, "{cell:<width$}")
            } else {
                write!(line, "{cell:>width$}")
            };
        }
        let _ = writeln!(out, "{}", line.trim_end());
    }
}

fn percent(share: f64) -> String {
    format!("{:.0} %", 100.0 * share)
}

/// A count with its thousands apart.
fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use expect_test::{Expect, expect};
    use harness_core::{BaseHarness, HarnessEdit, HarnessSpec};
    use harness_pool::{AcceptanceEvidence, PoolBuilder, Sibling};

    use super::super::state::RunState;
    use super::*;
    use crate::config::{Config, Scale};
    use crate::run_dir::RunDir;

    fn run(root: &Path) -> RunDir {
        let mut config = Config::builtin("appworld", Scale::Smoke).unwrap();
        config.run.seeds = vec![1, 2];
        config.study.controls.clear();
        RunDir::create(root, &config).unwrap()
    }

    fn step(arm: &str, step: u64, solved: u64, rescued: u64) -> serde_json::Value {
        serde_json::json!({
            "arm": arm, "seed": 1, "step": step, "rollouts": 96 * (step + 1), "n_tasks": 12,
            "base": {"solved": solved, "failed": 96 - solved, "infra_error": 0},
            "rescue": {"solved": rescued, "failed": 8 - rescued},
            "groups": {"all_failed": 3, "rescued": rescued.min(1)}, "decisions": [{"long": "list"}],
        })
    }

    fn dev(arm: &str, rollouts: u64, success: f64) -> serde_json::Value {
        let dev = serde_json::json!({"success": success, "n": 40});
        serde_json::json!({"arm": arm, "seed": 1, "step": 0, "rollouts": rollouts, "dev": dev})
    }

    fn pool(run: &RunDir) {
        let base = HarnessSpec::base(BaseHarness::default());
        let edit = HarnessEdit::AddNote("look twice".into());
        let mut builder = PoolBuilder::new(base.clone(), "p".into(), "m".into());
        let sibling = Sibling {
            name: "careful".into(),
            harness: base.apply(&edit).unwrap(),
            direction: "wrong_end".into(),
            lineage: vec![edit],
            evidence: AcceptanceEvidence {
                n_tasks: 12,
                n_attempts: 48,
                sibling_solved: 36,
                retry_solved: 1,
                ..AcceptanceEvidence::default()
            },
        };
        builder.add(sibling).unwrap();
        builder.freeze().save(run.pool_path()).unwrap();
    }

    #[track_caller]
    fn check(run: &RunDir, expect: &Expect) {
        let state = RunState::read(run).unwrap();
        let text = text(&state);
        let root = run.root().display().to_string();
        expect.assert_eq(&text.replace(&root, "RUN"));
    }

    #[test]
    fn a_run_that_trains_with_a_torn_line_and_no_report() {
        let folder = tempfile::tempdir().unwrap();
        let run = run(folder.path());
        pool(&run);
        fs::write(folder.path().join("pool-2.json"), "{").unwrap();
        run.start_metrics().unwrap();
        let mut lines = vec![dev("policy_only", 0, 0.2)];
        lines.extend((0..12).map(|n| step("policy_only", n, 24 + n, 0)));
        lines.push(dev("policy_only", 1152, 0.41));
        run.append_metrics("pool", &lines).unwrap();
        let path = folder.path().join("metrics.jsonl");
        let whole = fs::read_to_string(&path).unwrap();
        fs::write(&path, whole + "{\"arm\":\"policy_only_mat").unwrap();
        let state = serde_json::json!({
            "format_version": 1,
            "result": {"metrics": [dev("policy_only_matched", 0, 0.2), step("policy_only_matched", 0, 12, 4)],
                       "warnings": ["some are odd"]},
        });
        let saved = folder.path().join("checkpoints/policy_only_matched-s1");
        for name in ["step-1", "step-2.part"] {
            fs::create_dir_all(saved.join(name)).unwrap();
            fs::write(saved.join(name).join("state.json"), state.to_string()).unwrap();
        }
        check(
            &run,
            &expect![[r"
                appworld, scale smoke: no report yet
                each arm and seed may spend 400 rollouts

                arm and seed            stage     steps  rollouts  spent  base  rescue  all failed  rescued            dev
                policy_only-s1          done         12     1,152  288 %  32 %     0 %        25 %  0 of 36  0.41 at 1,152
                policy_only_matched-s1  training      1        96   24 %  12 %    50 %        25 %   1 of 3      0.20 at 0

                base, rescue, all failed: of the last 10 steps; attempts under the base and in rescues that solved
                their task, and groups of which the base failed every attempt
                rescued: failed groups that a further attempt solved, of all failed groups so far
                dev: success under the base on dev, at the last evaluation, after so many rollouts

                pool.json: 1 sibling
                  careful  repairs wrong_end  confirmed: solved 75 %, base 2 %

                in training, or stopped while it was: policy_only_matched-s1
                not begun: 7 more, harness_s-s1 first
                a stopped run goes on with its own command and --resume --out <this folder>
                warning: `RUN/metrics.jsonl`: the last line is not whole and is left out
                warning: policy_only_matched-s1: some are odd
                warning: `pool-2.json` cannot be read: RUN/pool-2.json: not JSON at line 1, column 1 (EOF while parsing an object at line 1 column 1): restore the file from a copy
            "]],
        );
    }

    #[test]
    fn a_run_of_which_only_attempts_are_there() {
        let folder = tempfile::tempdir().unwrap();
        let run = run(folder.path());
        check(
            &run,
            &expect![[r"
            appworld, scale smoke: no report yet
            each arm and seed may spend 400 rollouts

            nothing was trained yet

            not begun: 9 more, policy_only-s1 first
            a stopped run goes on with its own command and --resume --out <this folder>
        "]],
        );
        let kept = |step: u64, role: &str, outcome: &str| {
            let id = format!("s{step}-t0-a0");
            serde_json::json!({"rollout_id": id, "role": role, "outcome": outcome}).to_string()
                + "\n"
        };
        let lines = [
            kept(0, "base", "failed"),
            kept(0, "rescue", "solved"),
            kept(10, "base", "solved"),
            kept(10, "base", "infra_error"),
        ];
        fs::write(run.trajectory_path("policy_only-s1"), lines.concat()).unwrap();
        fs::write(run.trajectory_path("policy_only_matched-s1"), "").unwrap();
        check(
            &run,
            &expect![[r"
            appworld, scale smoke: no report yet
            each arm and seed may spend 400 rollouts

            arm and seed            stage     steps  rollouts  spent  base  rescue  all failed  rescued  dev
            policy_only-s1          done         11         -      -  50 %   100 %           -        -    -
            policy_only_matched-s1  training      0         -      -     -       -           -        -    -

            base, rescue, all failed: of the last 10 steps; attempts under the base and in rescues that solved
            their task, and groups of which the base failed every attempt
            rescued: failed groups that a further attempt solved, of all failed groups so far
            dev: success under the base on dev, at the last evaluation, after so many rollouts

            in training, or stopped while it was: policy_only_matched-s1
            not begun: 7 more, harness_s-s1 first
            a stopped run goes on with its own command and --resume --out <this folder>
            warning: policy_only-s1: 1 of 4 attempts broke (infra_error, verifier_error) and say nothing of the policy
        "]],
        );
    }

    #[test]
    fn a_run_that_is_done() {
        let folder = tempfile::tempdir().unwrap();
        let run = run(folder.path());
        run.start_metrics().unwrap();
        run.append_metrics("pool", &[step("policy_only", 3, 90, 8)])
            .unwrap();
        let report = serde_json::json!({
            "ended": "2026-01-01T00:00:00Z", "wall_s": 61.2, "warnings": ["one warm start"],
            "arms": {"policy_only": {"base_success": {"mean": 0.4, "ci95": [0.3, 0.5], "n": 9}, "rollouts": 3}},
        });
        fs::write(folder.path().join("report.json"), report.to_string()).unwrap();
        check(
            &run,
            &expect![[r"
            appworld, scale smoke: done 2026-01-01T00:00:00Z after 61 s
            each arm and seed may spend 400 rollouts

            arm and seed    stage  steps  rollouts  spent  base  rescue  all failed  rescued  dev
            policy_only-s1  done       4       384   96 %  94 %   100 %        25 %   1 of 3    -

            base, rescue, all failed: of the last 10 steps; attempts under the base and in rescues that solved
            their task, and groups of which the base failed every attempt
            rescued: failed groups that a further attempt solved, of all failed groups so far
            dev: success under the base on dev, at the last evaluation, after so many rollouts

            success on test under the base, last checkpoint, mean and 95 % interval:
              policy_only  0.40 [0.30, 0.50]
            more: report.html

            not begun: 8 more, policy_only_matched-s1 first
            warning: one warm start
        "]],
        );
        let state = RunState::read(&run).unwrap();
        let json = serde_json::to_value(&state).unwrap();
        assert_eq!(json["jobs"][0]["base_solved"], 0.9375);
        assert_eq!(json["jobs"][1]["stage"], "waiting");
        assert_eq!(json["results"]["policy_only"]["base_success"]["mean"], 0.4);
    }
}
