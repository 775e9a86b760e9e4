//! A language model's reply as a ballot.
#![no_main]

use harness_core::HarnessId;
use harness_router::parse_reply;
use harness_router::reply::MAX_REPLY_BYTES;
use libfuzzer_sys::{fuzz_mutator, fuzz_target};

/// Names that are close to each other, to ids, and to none.
const SIBLINGS: [(&str, &str); 6] = [
    ("id-a", "alpha"),
    ("id-A", "Alpha"),
    ("id-b", "beta"),
    ("id-c", "id-b"),
    ("id-d", "\u{3a3}\u{e9}\u{212a}"),
    ("id-e", ""),
];

fuzz_target!(|data: &[u8]| {
    let reply = String::from_utf8_lossy(data);
    let siblings = SIBLINGS.map(|(id, name)| (HarnessId::new(id).expect("printable ASCII"), name));
    let parsed = parse_reply(&reply, &siblings);
    let thought = format!("<think>{{\"vote\":\"id-c\"}}</think>{reply}");
    if thought.len() <= MAX_REPLY_BYTES {
        assert_eq!(
            parse_reply(&thought, &siblings),
            parsed,
            "thinking is no vote"
        );
    }
    let Ok(ballot) = parsed else {
        return;
    };
    let ids = siblings.clone().map(|(id, _)| id);
    assert_eq!(ballot.check(&ids), Ok(()));
    let prose = format!("{reply} So be it.");
    if prose.len() <= MAX_REPLY_BYTES {
        assert_eq!(parse_reply(&prose, &siblings), Ok(ballot.clone()));
    }
    // Names that no id bears twice, so that the ballot can be said by id.
    let plain = ids.clone().map(|id| (id.clone(), id.to_string()));
    let said = serde_json::to_string(&ballot).expect("a ballot is plain data");
    assert_eq!(parse_reply(&said, &plain), Ok(ballot));
});

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    harness_s_fuzz::repeat(data, size, max_size, seed)
});
