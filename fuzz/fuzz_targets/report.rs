//! `report.json`, and what is written from it.
#![no_main]

use libfuzzer_sys::{fuzz_mutator, fuzz_target};
use xtask::report;

/// Markup that no page of ours holds; only a text of the report can bring it in.
const FOREIGN: &str = "<zz";

fuzz_target!(|data: &[u8]| {
    let text = String::from_utf8_lossy(data);
    let Ok(read) = report::parse(&text, "report.json") else {
        return;
    };
    let written = serde_json::to_string(&read).expect("a report is plain data");
    let again = report::parse(&written, "report.json").expect("its own output");
    assert_eq!(again, read);
    let html = report::html(&read);
    assert!(!html.contains(FOREIGN), "text of a report became markup");
    assert_eq!(html, report::html(&again));
    assert_eq!(report::markdown(&read), report::markdown(&again));
});

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    harness_s_fuzz::mutate(data, size, max_size, seed, harness_s_fuzz::unsealed)
});
