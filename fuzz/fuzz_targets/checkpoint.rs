//! Checkpoints of a policy: safetensors files whose header is changed by its tree, with a hash that fits.
#![no_main]

use harness_s_fuzz::{mutate, on_disk, unsealed};
use libfuzzer_sys::{fuzz_mutator, fuzz_target, fuzzer_mutate};
use rescue_grpo::{Checkpoint, CheckpointError};
use serde_json::Value;

fuzz_target!(|data: &[u8]| {
    on_disk(data, |path| {
        let Ok(checkpoint) = Checkpoint::load(path) else {
            return;
        };
        assert_eq!(checkpoint.weights.len(), checkpoint.model.n_params());
        checkpoint.save(path).expect("a folder of our own");
        let again = Checkpoint::load(path).expect("its own file");
        assert_eq!(again.content_hash(), checkpoint.content_hash());
    });
});

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    let file = &data[..size];
    let changed = match seed % 4 {
        0 => None,
        1 => change_header(file, |header| change_json(header, seed)),
        _ => change_header(file, |header| change_meta(header, seed)),
    };
    let size = match changed {
        Some(file) if file.len() <= max_size => {
            data[..file.len()].copy_from_slice(&file);
            file.len()
        }
        _ => fuzzer_mutate(data, size, max_size),
    };
    seal(&mut data[..size]);
    size
});

/// The file with another header; what follows it stays.
fn change_header(file: &[u8], change: impl FnOnce(&[u8]) -> Option<Vec<u8>>) -> Option<Vec<u8>> {
    let (n_bytes, rest) = file.split_first_chunk()?;
    let n_bytes = usize::try_from(u64::from_le_bytes(*n_bytes)).ok()?;
    let header = change(rest.get(..n_bytes)?)?;
    let n_bytes_now = (header.len() as u64).to_le_bytes();
    Some([&n_bytes_now, header.as_slice(), &rest[n_bytes..]].concat())
}

/// A header whose one entry, which is JSON in a text, is changed.
fn change_meta(header: &[u8], seed: u32) -> Option<Vec<u8>> {
    let mut header: Value = serde_json::from_slice(header).ok()?;
    let entry = header.pointer_mut("/__metadata__/harness_s")?;
    let text = change_json(entry.as_str()?.as_bytes(), seed)?;
    *entry = String::from_utf8(text).ok()?.into();
    Some(header.to_string().into_bytes())
}

fn change_json(text: &[u8], seed: u32) -> Option<Vec<u8>> {
    let mut buffer = text.to_vec();
    buffer.resize(text.len() + 256, 0);
    let max_size = buffer.len();
    let size = mutate(&mut buffer, text.len(), max_size, seed, unsealed);
    buffer.truncate(size);
    Some(buffer)
}

/// Puts the right hash into a file of which nothing else is wrong: the reader tells it.
fn seal(file: &mut [u8]) {
    const BEFORE: &[u8] = br#"content_hash\":\""#;
    let mut hash = None;
    on_disk(file, |path| {
        if let Err(CheckpointError::Corrupt { reason, .. }) = Checkpoint::load(path) {
            hash = reason
                .strip_prefix("its content hashes to ")
                .map(str::to_owned);
        }
    });
    let at = file.windows(BEFORE.len()).position(|w| w == BEFORE);
    if let (Some(at), Some(hash)) = (at, hash)
        && let Some(place) = file.get_mut(at + BEFORE.len()..)
        && let Some(place) = place.get_mut(..hash.len())
    {
        place.copy_from_slice(hash.as_bytes());
    }
}
