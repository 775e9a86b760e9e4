//! What may enter a pool, and what a frozen one says.

use harness_core::{BaseHarness, HarnessEdit, HarnessSpec};
use harness_pool::{PoolBuilder, PoolError, Sibling, SiblingPool};

use crate::support::{base, rich_pool, sibling};

#[track_caller]
fn refusal(existing: Vec<Sibling>, refused: Sibling) -> PoolError {
    let mut builder = PoolBuilder::new(base(), "p".into(), "m".into());
    for sibling in existing {
        builder.add(sibling).unwrap();
    }
    let before = builder.len();
    let error = builder.add(refused).unwrap_err();
    assert_eq!(builder.len(), before, "a refusal changes nothing");
    error
}

#[test]
fn e10_same_content_under_another_name_is_a_duplicate() {
    let error = refusal(vec![sibling("a", "note")], sibling("b", "note"));
    assert!(matches!(error, PoolError::DuplicateContent { ref existing, .. } if existing == "a"));
}

#[test]
fn one_name_for_two_contents() {
    let error = refusal(vec![sibling("a", "note")], sibling("a", "other"));
    assert_eq!(error, PoolError::DuplicateName("a".into()));
}

#[test]
fn the_base_is_no_sibling() {
    let mut same = sibling("same", "note");
    same.harness = base();
    assert_eq!(refusal(vec![], same), PoolError::IsBase("same".into()));
}

#[test]
fn another_base() {
    let mut other = sibling("other", "note");
    other.harness.base.system = "Elsewhere.".into();
    let error = refusal(vec![], other);
    assert!(matches!(error, PoolError::OtherBase { .. }), "{error}");
}

#[test]
fn a_harness_that_breaks_a_bound() {
    let mut long = sibling("long", "note");
    long.harness.overlay.overrides.notes = vec!["x".repeat(901)];
    let error = refusal(vec![], long);
    assert!(
        error
            .to_string()
            .starts_with("sibling `long`: its harness is not valid"),
        "{error}"
    );
}

#[test]
fn a_base_with_an_overlay() {
    let overlaid = base().apply(&HarnessEdit::AddNote("x".into())).unwrap();
    let mut builder = PoolBuilder::new(overlaid, "p".into(), "m".into());
    assert_eq!(
        builder.add(sibling("a", "b")),
        Err(PoolError::BaseHasOverlay)
    );
}

#[test]
fn names_and_numbers() {
    assert_eq!(
        refusal(vec![], sibling("", "n")),
        PoolError::InvalidName(String::new())
    );
    assert_eq!(
        refusal(vec![], sibling("a\n", "n")),
        PoolError::InvalidName("a\n".into())
    );
    let mut nan = sibling("a", "n");
    nan.evidence.p_value = f64::NAN;
    let field = "p_value";
    assert_eq!(
        refusal(vec![], nan),
        PoolError::InvalidEvidence {
            name: "a".into(),
            field
        }
    );
    let mut many = sibling("a", "n");
    many.evidence.retry_solved = many.evidence.n_attempts + 1;
    let field = "retry_solved";
    assert_eq!(
        refusal(vec![], many),
        PoolError::InvalidEvidence {
            name: "a".into(),
            field
        }
    );
}

fn pool_of(siblings: Vec<Sibling>) -> SiblingPool {
    let mut builder = PoolBuilder::new(base(), "p".into(), "m".into());
    for sibling in siblings {
        builder.add(sibling).unwrap();
    }
    builder.freeze()
}

#[test]
fn order_of_adding_does_not_matter() {
    let (a, b) = (sibling("a", "one"), sibling("b", "two"));
    let there = pool_of(vec![a.clone(), b.clone()]);
    assert_eq!(there, pool_of(vec![b, a]));
    assert!(there.ids().is_sorted());
}

#[test]
fn all_content_reaches_the_hash() {
    let pool = pool_of(vec![sibling("a", "one")]);
    let mut renamed = sibling("a", "one");
    renamed.direction = "other".into();
    assert_ne!(pool.hash(), pool_of(vec![renamed]).hash());
    let mut builder = PoolBuilder::new(base(), "p2".into(), "m".into());
    builder.add(sibling("a", "one")).unwrap();
    assert_ne!(pool.hash(), builder.freeze().hash());
    assert_eq!(pool.hash().len(), 64);
}

#[test]
fn lookup_is_by_content() {
    let pool = rich_pool();
    for (id, sibling) in pool.ids().iter().zip(pool.siblings()) {
        assert_eq!(pool.get(id), Some(sibling));
        assert_eq!(*id, sibling.id());
        assert_eq!(sibling.replay(pool.base()).unwrap(), sibling.harness);
    }
    assert_eq!(pool.get(pool.base_id()), None);
    let stranger = HarnessSpec::base(BaseHarness::default()).id();
    assert_eq!(pool.get(&stranger), None);
}

#[test]
fn an_empty_pool_is_allowed() {
    let pool = pool_of(vec![]);
    assert!(pool.is_empty() && pool.ids().is_empty() && pool.siblings().is_empty());
}
