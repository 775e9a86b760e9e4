//! Union coverage, rate matrices and complementarity.

use harness_pool::{
    Cluster, EvidenceRow, RateMatrix, RescueEvidence, SelectSiblings, complementarity,
    union_coverage,
};

use crate::support::{id, row};

/// Sibling `a` solves `t1`, `b` solves `t2`, none solves `t3`; the base solves nothing.
fn rows() -> Vec<EvidenceRow> {
    let mut rows = Vec::new();
    for task in ["t1", "t2", "t3"] {
        for n in 0..4 {
            rows.push(row("a", task, n, task == "t1"));
            rows.push(row("b", task, n, task == "t2"));
            rows.push(row("base", task, n, false));
        }
    }
    rows
}

#[test]
fn union_of_solved_tasks() {
    let coverage = union_coverage(&rows(), &[id("a"), id("b")]);
    assert_eq!(
        (coverage.tasks, coverage.solved, coverage.attempts),
        (3, 2, 24)
    );
    assert_eq!(union_coverage(&rows(), &[id("nobody")]).rate(), None);
    let routed: Vec<_> = rows()
        .into_iter()
        .map(|r| EvidenceRow {
            is_selected: true,
            ..r
        })
        .collect();
    assert_eq!(union_coverage(&routed, &[id("a")]).tasks, 0);
}

#[test]
fn siblings_that_solve_different_tasks_are_complementary() {
    let found = complementarity(&rows(), &[id("b"), id("a")], &id("base")).unwrap();
    assert_eq!((found.tasks, found.best_single), (3, id("a")));
    assert!((found.union - 2.0 / 3.0).abs() < 1e-12 && (found.single - 1.0 / 3.0).abs() < 1e-12);
    assert!((found.gain - 1.0 / 3.0).abs() < 1e-12 && !found.is_plug_in);
    assert_eq!(found.retry, Some(0.0));
}

#[test]
fn e10_a_sibling_is_not_complementary_to_itself() {
    let one = complementarity(&rows(), &[id("a")], &id("base")).unwrap();
    assert!(one.gain.abs() < 1e-12);
    assert_eq!(complementarity(&rows(), &[], &id("base")), None);
    assert_eq!(complementarity(&rows(), &[id("x")], &id("base")), None);
}

#[test]
fn chance_of_several_attempts_is_unbiased() {
    // Two attempts of four, two of which solved: 1 - C(2, 2) / C(4, 2) = 5 / 6.
    let mut rows: Vec<_> = (0..4).map(|n| row("base", "t", n, n < 2)).collect();
    for n in 0..4 {
        rows.push(row("a", "t", n, true));
        rows.push(row("b", "t", n, true));
    }
    let found = complementarity(&rows, &[id("a"), id("b")], &id("base")).unwrap();
    assert!((found.retry.unwrap() - 5.0 / 6.0).abs() < 1e-12);
}

#[test]
fn missing_cells_are_not_zero() {
    let mut rows = rows();
    let elsewhere = Cluster::of("send mail", "none");
    rows.push(EvidenceRow {
        cluster: elsewhere.clone(),
        ..row("a", "t9", 0, false)
    });
    let matrix = RateMatrix::from_rows(&rows);
    assert_eq!(matrix.rate(&id("a"), &elsewhere), Some(0.0));
    assert_eq!(matrix.rate(&id("b"), &elsewhere), None);
    let login = Cluster::of("play a song", "missing_login");
    assert!((matrix.rate(&id("a"), &login).unwrap() - 1.0 / 3.0).abs() < 1e-12);
}

/// The promise that a trainer relies on.
#[test]
fn select_siblings_is_object_safe() {
    fn takes(_: Option<&mut dyn SelectSiblings>) {}
    takes(None);
}

#[test]
fn rescue_evidence_must_agree_with_its_rows() {
    let context = harness_pool::RouteContext {
        task_id: harness_core::TaskId::new("t1").unwrap(),
        instruction: "Play it".into(),
        digest: None,
        policy_version: harness_core::PolicyVersion(0),
        step: 0,
        seed: harness_core::Seed::new(0),
    };
    let rows = vec![row("a", "t1", 0, true), row("a", "t1", 1, false)];
    let good = RescueEvidence::from_rows(context, id("a"), rows);
    assert!(good.check().is_ok());
    let bad = [
        RescueEvidence {
            solved: 2,
            ..good.clone()
        },
        RescueEvidence {
            attempts: 3,
            ..good.clone()
        },
        RescueEvidence {
            harness: id("b"),
            ..good.clone()
        },
    ];
    assert!(bad.iter().all(|evidence| evidence.check().is_err()));
}
