//! Files of trajectories: what is read back, what is refused, and with what words.

use std::io::{BufReader, Read};

use expect_test::{Expect, expect};
use harness_core::testing::json_schema::problem;
use harness_core::testing::{ByteCodec, ToyMaker};
use harness_core::trajectory_file::line_schema;
use harness_core::{
    FileError, MAX_LINE_BYTES, Seed, SegmentKind, Trajectory, TrajectoryReader, TrajectoryWriter,
    run_jobs,
};
use serde_json::{Value, json};

use crate::executor::{base, jobs, options, peeker};

fn some(n: u32) -> Vec<Trajectory> {
    let jobs = jobs(base(), n);
    let envs = ToyMaker::default();
    run_jobs(
        vec![Box::new(peeker())],
        &ByteCodec,
        &envs,
        jobs,
        &options(),
    )
}

fn written(trajectories: &[Trajectory]) -> Vec<u8> {
    let mut text = Vec::new();
    let mut writer = TrajectoryWriter::new(&mut text, "t.jsonl");
    for t in trajectories {
        writer.write(t).expect("it is valid");
    }
    text
}

fn read(text: &[u8]) -> Vec<Result<Trajectory, FileError>> {
    TrajectoryReader::new(text, "t.jsonl").collect()
}

/// The first attempt as JSON by another tool, changed.
fn line(change: impl FnOnce(&mut Value)) -> String {
    let mut value = serde_json::to_value(&some(1)[0]).expect("plain data");
    change(&mut value);
    value.to_string()
}

#[track_caller]
fn refused(text: &str, expect: &Expect) {
    let mut found = read(text.as_bytes());
    let error = found.pop().expect("a line").expect_err("it is refused");
    expect.assert_eq(&error.to_string());
}

#[test]
fn files_are_read_as_written_and_not_overwritten() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("t.jsonl");
    let done = some(3);
    let mut writer = TrajectoryWriter::create(&path).expect("a new file");
    for t in &done {
        writer.write(t).expect("it is valid");
    }
    writer.finish().expect("it can be written");
    let mut reader = TrajectoryReader::open(&path).expect("it is there");
    let back: Result<Vec<_>, _> = reader.by_ref().collect();
    assert_eq!(back.expect("its own output"), done);
    assert_eq!(reader.n_unverified(), 0);
    let error = TrajectoryWriter::create(&path).expect_err("it is there already");
    assert!(error.to_string().contains("t.jsonl"), "{error}");
}

#[test]
fn the_schema_is_that_of_a_line() {
    let schema = line_schema();
    let line: Value = serde_json::from_slice(&written(&some(1))).expect("JSON");
    assert!(line["hash"].is_string());
    assert_eq!(problem(schema.as_value(), &line), None);
}

#[test]
fn lines_of_other_tools_are_read_and_counted() {
    let text = format!("\n{}\r\n  \n{}", line(|_| {}), line(|_| {}));
    let mut reader = TrajectoryReader::new(text.as_bytes(), "t.jsonl");
    assert_eq!(reader.by_ref().flatten().count(), 2);
    assert_eq!(reader.n_unverified(), 2);
}

#[test]
fn an_error_in_a_line_says_where_and_the_next_line_is_read() {
    let text = format!("{}\n{{\"run_id\": \n{}", line(|_| {}), line(|_| {}));
    let found = read(text.as_bytes());
    assert!(found[0].is_ok() && found[2].is_ok());
    let error = found[1].as_ref().expect_err("it is cut");
    expect!["t.jsonl, line 2, column 10: not JSON (EOF while parsing a value): restore the line, or remove it"].assert_eq(&error.to_string());
}

#[test]
fn fields_are_named() {
    refused(
        &line(|t| t["turns"][1]["segments"][0]["ids"] = json!([1, "x"])),
        &expect![[
            r#"t.jsonl, line 1, column 915, at field `turns[1].segments[0].ids[1]`: invalid type: string "x", expected u32"#
        ]],
    );
    refused(
        &line(|t| t["task_id"] = json!("two words")),
        &expect![[
            r#"t.jsonl, line 1, column 90, at field `task_id`: an id must be 1 to 200 printable ASCII characters without blanks, got: "two words""#
        ]],
    );
    refused(
        &line(|t| t["rewards"] = json!(1.0)),
        &expect![
            "t.jsonl, line 1, column 1213, at field `rewards`: unknown field `rewards`, expected one of `schema_version`, `run_id`, `rollout_id`, `group_id`, `task_id`, `env`, `split`, `harness_id`, `policy_version`, `attempt`, `role`, `outcome`, `reward`, `prompt`, `turns`, `error`, `rule_errors`, `unprojectable`, `sampling`, `started`, `ended`"
        ],
    );
    refused(
        &line(|t| drop(t.as_object_mut().expect("an object").remove("outcome"))),
        &expect!["t.jsonl, line 1, column 1185, at the object: missing field `outcome`"],
    );
    refused(
        &"[".repeat(100_000),
        &expect!["t.jsonl, line 1, column 1, at field `[0]`: invalid type: sequence, expected u32"],
    );
}

/// J4: a newer version is refused by name, whatever else it holds.
#[test]
fn j4_newer_versions_are_refused_by_name() {
    let expect = expect![
        "t.jsonl, line 1: made by a newer version (schema_version 2, this code reads up to 1): update harness-core"
    ];
    refused(&line(|t| t["schema_version"] = json!(2)), &expect);
    refused(r#"{"schema_version": 2, "shape": "another"}"#, &expect);
    let mut newer = some(1).remove(0);
    newer.schema_version = 2;
    let mut writer = TrajectoryWriter::new(Vec::new(), "t.jsonl");
    assert!(writer.write(&newer).is_err());
}

/// G23: a record of truncating sampling is refused.
#[test]
fn g23_truncating_sampling_is_refused() {
    refused(
        &line(|t| t["sampling"]["top_p"] = json!(0.9)),
        &expect![
            "t.jsonl, line 1, column 1210, at field `sampling.top_p`: unknown field `top_p`, expected `temperature` or `max_new_tokens`"
        ],
    );
}

/// F1: an attempt that says nothing about the policy has no reward.
#[test]
fn f1_a_fault_has_no_reward() {
    refused(
        &line(|t| t["outcome"] = json!("infra_error")),
        &expect!["t.jsonl, line 1: field `reward` must be null after `infra_error`"],
    );
}

#[test]
fn sampled_ids_need_their_logprobs() {
    let logprobs = |to: Value| line(move |t| t["turns"][0]["segments"][1]["logprobs"] = to);
    refused(
        &logprobs(json!([-0.5])),
        &expect![
            "t.jsonl, line 1: field `turns[0].segments[1].logprobs` must hold as many log-probs as sampled ids, expected 5, got: 1"
        ],
    );
    refused(
        &logprobs(json!([-1e39, -1, -1, -1, -1])),
        &expect![
            "t.jsonl, line 1, column 587: not JSON (number out of range): restore the line, or remove it"
        ],
    );
    refused(
        &line(|t| t["prompt"][0]["logprobs"] = json!([-0.5])),
        &expect![
            "t.jsonl, line 1: field `prompt[0].logprobs` must hold as many log-probs as sampled ids, expected 0, got: 1"
        ],
    );
}

/// G24: a log-prob that the engine did not give stays unknown, is counted, and is written as it was.
#[test]
fn g24_missing_logprobs_are_kept_and_counted() {
    let text = line(|t| {
        t["turns"][0]["segments"][1]["ids"] = json!([112, 101, 261]);
        t["turns"][0]["segments"][1]["logprobs"] = json!([-0.1, null, -0.3]);
    });
    let t = read(text.as_bytes()).remove(0).expect("it is allowed");
    assert_eq!(t.n_missing_logprobs(), 1);
    let sampled = t.segments().find(|s| s.kind == SegmentKind::Sampled);
    let logprobs = &sampled.expect("a sampled segment").logprobs;
    assert_eq!(format!("{logprobs:?}"), "[-0.1, NaN, -0.3]");
    let again = String::from_utf8(written(&[t])).expect("JSON is text");
    assert!(again.contains("[-0.1,null,-0.3]"), "{again}");
}

#[test]
fn a_line_has_a_greatest_length() {
    let endless = BufReader::new(std::io::repeat(b' ').take(MAX_LINE_BYTES as u64 * 9));
    let found: Vec<_> = TrajectoryReader::new(endless, "t.jsonl").collect();
    assert!(matches!(
        found[..],
        [Err(FileError::TooLong { line: 1, .. })]
    ));
}

/// One of the things that happen to files; `other` is another file.
fn corrupt(text: &[u8], other: &[u8], seed: Seed) -> Vec<u8> {
    let draw = |what: &str, below: usize| {
        usize::try_from(seed.derive(what, &[]).value() % below as u64).expect("it is below")
    };
    let at = draw("at", text.len());
    let end = at + draw("length", (text.len() - at).min(200));
    let mut lines: Vec<&[u8]> = text.split_inclusive(|b| *b == b'\n').collect();
    match draw("kind", 6) {
        0 | 1 => {
            let mut text = text.to_vec();
            text[at] ^= 1 << draw("bit", 8);
            text
        }
        2 => text[..at].to_vec(),
        3 => {
            lines.swap(draw("a line", 4), draw("another", 4));
            lines.concat()
        }
        4 => [&text[..at], &text[end..]].concat(),
        _ => [&text[..at], &other[at.min(other.len())..]].concat(),
    }
}

/// 200 seeded corruptions: no panic, and what is read is an attempt as it was written.
#[test]
fn corruptions_never_give_another_trajectory() {
    let all = some(8);
    let (text, other) = (written(&all[..4]), written(&all[4..]));
    let mut n_refused = 0;
    for n in 0..200 {
        for result in read(&corrupt(&text, &other, Seed::new(n))) {
            match result {
                Ok(t) => assert!(all.contains(&t), "corruption {n} gives another: {t:?}"),
                Err(_) => n_refused += 1,
            }
        }
    }
    assert!(n_refused > 100, "only {n_refused} lines were refused");
}

/// Without hashes a changed digit goes unseen, as the module says; but nothing panics.
#[test]
fn corruptions_of_lines_without_hashes_are_no_panic() {
    let plain = |some: &[Trajectory]| {
        let lines = some
            .iter()
            .map(|t| serde_json::to_string(t).expect("plain data") + "\n");
        lines.collect::<String>().into_bytes()
    };
    let all = some(8);
    let (text, other) = (plain(&all[..4]), plain(&all[4..]));
    for n in 0..200 {
        for t in read(&corrupt(&text, &other, Seed::new(n)))
            .into_iter()
            .flatten()
        {
            assert!(t.validate().is_ok());
        }
    }
}
