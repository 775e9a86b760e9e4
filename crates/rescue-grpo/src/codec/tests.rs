//! Tests of `codec`.

use harness_core::{Codec, Message, Role};
use proptest::prelude::*;

use super::*;

fn corpus() -> Vec<Message> {
    let mut out = Vec::new();
    for i in 0..50 {
        out.push(Message::new(
            Role::System,
            "Log in before you read. Never give up.",
        ));
        out.push(Message::new(
            Role::User,
            format!("find the lamp of user {i}"),
        ));
        let call = format!("print(apis.spotify.search_songs(query=\"lamp\", page={i}))");
        out.push(Message::new(Role::Assistant, call));
        out.push(Message::new(
            Role::Observation,
            format!("{{\"songs\": [{i}], \"total\": 3}}"),
        ));
    }
    out
}

fn codec() -> BpeCodec {
    BpeCodec::train(&corpus(), &["lamp", "songs"], 400).unwrap()
}

/// A codec that knows `he`, `llo` and `hello`.
fn toy() -> BpeCodec {
    let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
    let merges = vec![
        pair("h", "e"),
        pair("l", "l"),
        pair("ll", "o"),
        pair("he", "llo"),
    ];
    let atoms = Vec::new();
    BpeCodec::build(Content { atoms, merges }).unwrap()
}

#[test]
fn t1_ids_are_never_reencoded() {
    let codec = toy();
    let (he, llo) = (
        codec.encode_text("he", Style::Code),
        codec.encode_text("llo", Style::Code),
    );
    let sampled = [he[0], llo[0], END];
    assert_eq!(codec.decode(&sampled), "hello");
    assert_ne!(
        codec.encode_reply("hello"),
        sampled,
        "the text has another encoding"
    );
    // A context grows by whole messages; what was sampled stays as it was.
    let prompt = [Message::new(Role::User, "hello")];
    let answer = [Message::new(Role::Observation, "llo")];
    let mut context = codec.encode(&prompt);
    let at = context.len();
    context.extend(sampled);
    context.extend(codec.encode_next(&answer));
    assert_eq!(context[at..at + 3], sampled);
    assert!(context.ends_with(&codec.open_assistant()));
    let whole = [
        prompt[0].clone(),
        Message::new(Role::Assistant, "hello"),
        answer[0].clone(),
    ];
    assert_ne!(codec.encode(&whole), context);
}

#[test]
fn t5_control_tokens_in_text_are_text() {
    let codec = codec();
    for name in CONTROLS.iter().take(7) {
        for role in [Role::User, Role::Observation, Role::Assistant, Role::Hint] {
            let text = format!("a {name} b{name}");
            let ids = codec.encode_message(&Message::new(role, &text));
            let inner = &ids[1..ids.len() - usize::from(role == Role::Assistant)];
            assert!(
                inner.iter().all(|&id| id > REPLACEMENT),
                "{name} under {role:?}"
            );
            assert_eq!(codec.decode(&ids), text);
        }
    }
}

#[test]
fn a_message_is_its_role_its_text_and_for_the_policy_a_stop() {
    let codec = codec();
    let said = codec.encode_message(&Message::new(Role::Assistant, "x"));
    assert_eq!(
        (said[0], said[said.len() - 1]),
        (codec.open_assistant()[0], codec.stop_ids()[0])
    );
    let seen = codec.encode_message(&Message::new(Role::Observation, "x"));
    assert_eq!(seen.len(), 2);
    assert_eq!(codec.encode_reply("x"), said[1..]);
}

#[test]
fn values_are_single_characters_and_calls_few_tokens() {
    let codec = codec();
    let ids = codec.encode_text("aB12 9Z", Style::Prose);
    let texts: Vec<&str> = ids
        .iter()
        .map(|&id| codec.texts()[id as usize].as_str())
        .collect();
    assert_eq!(texts, ["a", "B", "1", "2", " ", "9", "Z"]);
    let call = codec.encode_text(
        "print(apis.spotify.search_songs(query=\"lamp\"",
        Style::Code,
    );
    assert!(call.len() <= 6, "{} tokens", call.len());
    let rule = codec.encode_text("before you read.", Style::Prose);
    assert!(rule.len() >= 3);
}

#[test]
fn an_atom_has_the_same_ids_everywhere() {
    let codec = codec();
    let alone = codec.encode_text("lamp", Style::Code);
    for (text, style) in [("the lamp.", Style::Prose), ("x=\"lamp\"", Style::Code)] {
        let ids = codec.encode_text(text, style);
        assert!(ids.windows(alone.len()).any(|w| w == alone), "{text}");
    }
}

#[test]
fn other_characters_are_replaced_visibly() {
    let codec = codec();
    assert_eq!(
        codec.decode(&codec.encode_text("a\té", Style::Code)),
        "a\u{fffd}\u{fffd}"
    );
}

#[test]
fn training_is_deterministic_and_files_round_trip() {
    let (first, second) = (codec(), codec());
    assert_eq!(first.content, second.content);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("tokenizer.json");
    first.save(&path).unwrap();
    let read = BpeCodec::load(&path).unwrap();
    assert_eq!(
        (read.hash(), read.vocab_size()),
        (first.hash(), first.vocab_size())
    );
    let text = "print(apis.spotify.login())";
    assert_eq!(read.encode_reply(text), first.encode_reply(text));
}

#[test]
fn corrupt_and_newer_files_are_told_apart() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("tokenizer.json");
    codec().save(&path).unwrap();
    let good = std::fs::read_to_string(&path).unwrap();
    let load = |text: &str| {
        std::fs::write(&path, text).unwrap();
        BpeCodec::load(&path)
    };
    let newer = good.replace("\"format_version\": 1", "\"format_version\": 2");
    assert!(matches!(
        load(&newer),
        Err(CodecError::Newer { found: 2, .. })
    ));
    for bad in [
        &good[..good.len() / 2],
        "",
        "{}",
        &good.replacen("\"lamp\"", "\"lamb\"", 1),
    ] {
        assert!(matches!(load(bad), Err(CodecError::Corrupt { .. })));
    }
    assert!(matches!(
        BpeCodec::load(dir.path().join("none")),
        Err(CodecError::Io { .. })
    ));
}

proptest! {
    #[test]
    fn ascii_survives(text in "[ -~\n]{0,80}", prose: bool) {
        let style = if prose { Style::Prose } else { Style::Code };
        let codec = toy();
        let ids = codec.encode_text(&text, style);
        prop_assert!(ids.iter().all(|&id| id > REPLACEMENT && (id as usize) < codec.vocab_size()));
        prop_assert_eq!(codec.decode(&ids), text.clone());
        let atoms = Atoms::new(&["ab", "a_b", "x"]);
        prop_assert_eq!(pieces(&text, style, &atoms).concat(), text);
    }
}
