//! Every task is solvable, none is solvable blindly, and splits share nothing.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use expect_test::expect;
use harness_core::{MakeEnvironment as _, Seed, Split};

use crate::env::world_of;
use crate::evaluate::expected_answer;
use crate::expert::{DoNothing, GuessAnswer, expert_actions, run_agent};
use crate::names::{API_WORDS, FIRST, SECOND};
use crate::tasks::entities;
use crate::{AppWorldMaker, Family, Goal, TaskData, tasks, world_hash};

const PER_FAMILY: usize = 30;

#[test]
fn the_expert_solves_every_task_of_every_split() {
    let mut env = AppWorldMaker::default().make().unwrap();
    for split in Split::ALL {
        for task in tasks(split, PER_FAMILY, Seed::new(3)) {
            let (verdict, turns) =
                run_agent(env.as_mut(), &task, &mut expert_actions(&task)).unwrap();
            assert!(
                verdict.solved,
                "{}: {:?}\n{turns:#?}",
                task.id, verdict.failures
            );
            assert!(turns.iter().all(|(_, seen)| !seen.is_empty()));
        }
    }
}

#[test]
fn doing_nothing_and_guessing_the_commonest_answer_solve_next_to_nothing() {
    let mut env = AppWorldMaker::default().make().unwrap();
    for family in Family::ALL {
        let of_family = |split| {
            let mut list = tasks(split, 60, Seed::new(3));
            list.retain(|task| task.family == family.name());
            list
        };
        let mut counts = BTreeMap::<String, usize>::new();
        for task in of_family(Split::Train) {
            let (data, world) = world_of(&task).unwrap();
            if let Some(answer) = expected_answer(&world, &data) {
                *counts.entry(answer).or_default() += 1;
            }
        }
        let commonest = counts.into_iter().max_by_key(|(_, n)| *n);
        let guess = commonest.map_or_else(String::new, |(answer, _)| answer);
        for split in [Split::Dev, Split::Test] {
            let list = of_family(split);
            let mut guessed = 0;
            for task in &list {
                let (verdict, _) = run_agent(env.as_mut(), task, &mut DoNothing).unwrap();
                assert!(!verdict.solved);
                let mut agent = GuessAnswer(guess.clone());
                let (verdict, _) = run_agent(env.as_mut(), task, &mut agent).unwrap();
                guessed += usize::from(verdict.solved);
            }
            assert!(guessed * 20 <= list.len(), "{family:?} {split}: {guessed}");
        }
    }
}

#[test]
fn tasks_are_a_function_of_their_arguments() {
    let list = tasks(Split::Dev, 9, Seed::new(1));
    assert_eq!(list, tasks(Split::Dev, 9, Seed::new(1)));
    assert_eq!(list[..20], tasks(Split::Dev, 4, Seed::new(1)));
    assert_ne!(list, tasks(Split::Dev, 9, Seed::new(2)));
    let names: Vec<&str> = list.iter().map(|t| t.family.as_str()).take(6).collect();
    assert_eq!(
        names,
        ["lookup", "auth", "pages", "docs", "write", "lookup"]
    );
}

#[test]
fn splits_share_neither_scenarios_nor_entities() {
    let mut owner = BTreeMap::<String, Split>::new();
    let mut entity_owner = BTreeMap::<String, Split>::new();
    for split in Split::ALL {
        assert!(
            entities(split).len() >= 90,
            "{split}: {}",
            entities(split).len()
        );
        for entity in entities(split) {
            assert_eq!(*entity_owner.entry(entity.clone()).or_insert(split), split);
        }
        let mut ids = BTreeSet::new();
        for task in tasks(split, 12, Seed::new(3)) {
            assert!(ids.insert(task.id.clone()), "{} twice", task.id);
            assert_eq!(
                *owner.entry(task.scenario.to_string()).or_insert(split),
                split
            );
            let (data, world) = world_of(&task).unwrap();
            let songs = world.start.songs.values();
            let named = songs.flat_map(|s| [&s.title, &s.artist]);
            let notes = world.start.notes.values().map(|n| &n.title);
            for name in named.chain(notes).chain([&data.entity]) {
                assert_eq!(entity_owner[name], split, "{name}");
            }
        }
    }
    assert_eq!(entity_owner.len(), 1_600);
}

#[test]
fn three_tasks_of_a_scenario_differ_in_entity_and_values_only() {
    let list = tasks(Split::Train, 6, Seed::new(3));
    let mut by_scenario = BTreeMap::<_, Vec<_>>::new();
    for task in &list {
        let data: TaskData = serde_json::from_value(task.data.clone()).unwrap();
        let text = task.instruction.replace(&data.entity, "X");
        let text: String = text.chars().filter(|c| !c.is_ascii_digit()).collect();
        by_scenario
            .entry(task.scenario.clone())
            .or_default()
            .push((text, std::mem::discriminant(&data.goal)));
    }
    for (scenario, group) in by_scenario {
        assert_eq!(group.len(), 3, "{scenario}");
        assert!(
            group.iter().all(|g| *g == group[0]),
            "{scenario}: {group:?}"
        );
    }
}

#[test]
fn instructions_are_lower_case_without_punctuation() {
    for task in tasks(Split::Test, 20, Seed::new(5)) {
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == ' ';
        assert!(task.instruction.chars().all(plain), "{}", task.instruction);
    }
}

#[test]
fn words_are_short_and_no_list_shares_one_with_another() {
    let all: Vec<&str> = [&FIRST[..], &SECOND[..], &API_WORDS[..]].concat();
    assert_eq!(all.iter().collect::<HashSet<_>>().len(), all.len());
    for word in all {
        assert!((3..=7).contains(&word.len()), "{word}");
        assert!(word.bytes().all(|b| b.is_ascii_lowercase()), "{word}");
    }
}

#[test]
fn pages_end_full_sometimes_and_sums_vary() {
    let mut full = 0;
    let mut sums = BTreeSet::new();
    let mut n = 0;
    for task in tasks(Split::Train, 60, Seed::new(3)) {
        let (data, world) = world_of(&task).unwrap();
        if data.goal != Goal::Plays {
            continue;
        }
        let songs = world.start.songs.values();
        let count = songs.filter(|s| s.artist == data.entity).count();
        assert!((6..=30).contains(&count), "{count}");
        full += usize::from(count.is_multiple_of(5));
        sums.insert(expected_answer(&world, &data));
        n += 1;
    }
    assert!(full * 5 > n && full * 5 < n * 4, "{full} of {n}");
    assert!(sums.len() + 1 >= n);
}

#[test]
fn lost_writes_and_locks_follow_the_family() {
    let mut lost = BTreeSet::new();
    for task in tasks(Split::Train, 30, Seed::new(3)) {
        let (data, _) = world_of(&task).unwrap();
        assert_eq!(data.note_locked, task.family == "auth");
        assert_eq!(data.lost_writes > 0, task.family == "write");
        lost.insert(data.lost_writes);
    }
    assert_eq!(lost.into_iter().collect::<Vec<_>>(), [0, 1, 2, 3]);
}

#[test]
fn the_world_hash_is_stable() {
    let hash = world_hash();
    assert_eq!(hash, world_hash());
    // A new value means that checkpoints made before no longer fit the world.
    expect!["5cb2fd92cab1c060db4078fe978b81c7"].assert_eq(&hash);
}

#[test]
fn episodes_are_repeatable() {
    let play = || {
        let mut env = AppWorldMaker::default().make().unwrap();
        let list = tasks(Split::Dev, 3, Seed::new(3));
        list.iter()
            .map(|task| run_agent(env.as_mut(), task, &mut expert_actions(task)).unwrap())
            .collect::<Vec<_>>()
    };
    assert_eq!(play(), play());
}
