//! Tokenizer files, with a hash that fits most of the time, and any text through the codec that was read.
#![no_main]

use harness_core::{Codec as _, Message, Role};
use harness_s_fuzz::{mutate, on_disk};
use libfuzzer_sys::{fuzz_mutator, fuzz_target};
use rescue_grpo::codec::{BpeCodec, Style};
use serde_json::{Map, Value};

fuzz_target!(|data: &[u8]| {
    on_disk(data, |path| {
        let Ok(codec) = BpeCodec::load(path) else {
            return;
        };
        let text = String::from_utf8_lossy(data);
        let text: String = text.chars().take(2000).collect();
        let shown: String = text
            .chars()
            .map(|c| {
                if c == '\n' || (' '..='~').contains(&c) {
                    c
                } else {
                    '\u{fffd}'
                }
            })
            .collect();
        for style in [Style::Prose, Style::Code] {
            let ids = codec.encode_text(&text, style);
            assert!(ids.iter().all(|&id| (id as usize) < codec.vocab_size()));
            assert_eq!(codec.decode(&ids), shown);
        }
        let ids = codec.encode_message(&Message::new(Role::Observation, text));
        assert!(
            !ids.contains(&codec.stop_ids()[0]),
            "text is never a control id"
        );
        codec.save(path).expect("a folder of our own");
        let again = BpeCodec::load(path).expect("its own file");
        assert_eq!((again.hash(), again.texts()), (codec.hash(), codec.texts()));
    });
});

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    mutate(data, size, max_size, seed, seal)
});

/// The hash is taken of the content with its fields in their order.
fn seal(file: &mut Map<String, Value>) {
    let Some(Value::Object(content)) = file.get("content") else {
        return;
    };
    let mut fields = Map::new();
    for name in ["atoms", "merges"] {
        fields.insert(name.into(), content.get(name).cloned().unwrap_or_default());
    }
    let hash = blake3::hash(Value::Object(fields).to_string().as_bytes()).to_hex();
    file.insert("hash".into(), hash.as_str().into());
}
