//! No text an agent can write breaks the world.

use std::time::{Duration, Instant};

use proptest::prelude::*;

use super::Session;
use crate::evaluate::normalise;
use crate::expert::{expert_actions, run_agent};
use crate::server::classify;
use crate::{AppWorldEnv, Family, WorldLimits};
use harness_core::{Deadline, EnvError, Environment as _};

/// Far above a block's limit, since tests share their machine.
const PATIENCE: Duration = Duration::from_secs(5);

fn session(family: Family) -> Session {
    let mut limits = WorldLimits::default();
    limits.block.time = Duration::from_millis(100);
    let mut session = Session::new(family);
    session.env = AppWorldEnv::new(limits);
    session.env.reset(&session.task, Deadline::NEVER).unwrap();
    session
}

/// Runs blocks; every one must answer in time, and the end must be judged.
fn survives(family: Family, blocks: &[String]) {
    let mut session = session(family);
    for block in blocks {
        let begun = Instant::now();
        let seen = session.run(block);
        assert!(!seen.is_empty());
        assert!(begun.elapsed() < PATIENCE, "{block}");
        assert!(session.env.predicates().len() == 18);
    }
    session.verdict();
}

/// The expert's blocks for a task of a family.
fn expert_blocks(family: Family) -> Vec<String> {
    let task = super::first(family);
    let mut env = AppWorldEnv::default();
    let (_, turns) = run_agent(&mut env, &task, &mut expert_actions(&task)).unwrap();
    turns.into_iter().map(|(code, _)| code).collect()
}

fn family() -> impl Strategy<Value = Family> {
    prop::sample::select(Family::ALL.to_vec())
}

/// Pieces of code that combine into mostly broken programs.
fn pieces() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "apis",
        ".spotify",
        ".simple_note",
        ".supervisor",
        ".search_songs",
        ".create_note",
        ".login",
        ".complete_task",
        "(",
        ")",
        "[",
        "]",
        "{",
        "}",
        ":",
        ",",
        "=",
        "==",
        "x",
        "y",
        "print",
        "'a'",
        "\"b\"",
        "1",
        "0",
        "-1",
        "10**9",
        "**",
        "*",
        "+",
        "/",
        "%",
        "for ",
        "in ",
        "while True",
        "if ",
        "else",
        "def f",
        "return ",
        "lambda x",
        "try",
        "except Exception",
        "import ",
        "from ",
        "os",
        "copy",
        "json",
        "class A",
        "raise ",
        "not ",
        "and ",
        "None",
        "True",
        "range",
        "list",
        "len",
        "str",
        "sorted",
        "f'{x}'",
        "title",
        "page_index",
        "access_token",
        "answer",
        "status",
        "\n",
        "\n    ",
        "\n\n",
        " ",
        "#",
        "\\",
        "é",
        "\0",
        "@",
        "yield ",
        "await ",
        "async ",
        "with ",
        "del ",
        "global x",
        ".__class__",
        "_",
        "self",
    ]);
    prop::collection::vec(piece, 0..40).prop_map(|parts| parts.concat())
}

proptest! {
    #[test]
    fn random_text_is_survived(family in family(), blocks in prop::collection::vec(".{0,200}", 1..4)) {
        survives(family, &blocks);
    }

    #[test]
    fn random_pieces_of_python_are_survived(
        family in family(),
        blocks in prop::collection::vec(pieces(), 1..5),
    ) {
        survives(family, &blocks);
    }

    #[test]
    fn mutated_experts_are_survived(
        family in family(),
        edits in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), pieces(), 0_usize..6), 1..4),
    ) {
        let mut blocks = expert_blocks(family);
        for (block, place, text, cut) in edits {
            let block = block.index(blocks.len());
            let mut chars: Vec<char> = blocks[block].chars().collect();
            let start = place.index(chars.len() + 1);
            let end = (start + cut).min(chars.len());
            chars.splice(start..end, text.chars());
            blocks[block] = chars.into_iter().collect();
        }
        survives(family, &blocks);
    }

    #[test]
    fn random_arguments_are_survived(
        api in prop::sample::select(vec![
            "spotify.search_songs", "spotify.show_song", "spotify.like_song", "simple_note.create_note",
            "simple_note.update_note", "simple_note.search_notes", "supervisor.complete_task",
            "api_docs.show_api_doc", "api_docs.search_api_docs", "spotify.login",
        ]),
        name in prop::sample::select(vec![
            "query", "artist", "page_index", "page_limit", "sort_by", "access_token", "song_id", "note_id",
            "title", "content", "answer", "status", "app_name", "api_name", "username",
        ]),
        value in prop::sample::select(vec![
            "1", "-1", "0", "None", "True", "''", "'x'", "'1'", "' 1 '", "1.5", "1e400", "-1e400", "10**30",
            "float('nan')", "[]", "[[]]", "{}", "{1: 2}", "(1,)", "set()", "b'x'", "apis", "print", "print(1)",
            "'+title'", "'-'", "'x' * 6000", "[0] * 2000", "datetime.datetime.now()", "int", "...",
        ]),
    ) {
        survives(Family::Write, &[format!("print(apis.{api}({name}={value}))")]);
    }
}

#[test]
fn nests_and_towers_are_survived() {
    let deep =
        |open: &str, close: &str, n: usize| format!("x = {}1{}", open.repeat(n), close.repeat(n));
    let blocks = [
        deep("(", ")", 59),
        deep("[", "]", 59),
        deep("[", "]", 5_000),
        deep("{1:", "}", 100),
        deep("-", "", 1_900),
        deep("not ", "", 1_900),
        deep("lambda: ", "", 1_900),
        deep("1+", "", 1_900),
        deep("1**", "", 1_900),
        deep("1 if 1 else ", "", 900),
        format!("x{}", ".a".repeat(1_900)),
        format!("x{}", "()".repeat(1_900)),
        format!("x{}", "[0]".repeat(1_900)),
        "1 < ".repeat(1_900) + "1",
        "x = ".repeat(1_900) + "1",
        deep("1 and ", "", 1_000),
        deep("1 or ", "", 1_000),
        deep("await ", "", 500),
        stairs(90) + &" ".repeat(90) + "x = 1",
        format!("if 0:\n    pass\n{}", "elif 0:\n    pass\n".repeat(900)),
        "x = []\nfor i in range(100000):\n    x = [x]".into(),
        "print(x)".into(),
        "y = str(x)".into(),
        "print(x == x)".into(),
        "apis.supervisor.complete_task(answer=x)".into(),
        "z = deepcopy(x)".into(),
        "x = 1".into(),
        "a = []\na.append(a)\nprint(a)".into(),
        "apis.supervisor.complete_task(answer=a)".into(),
        "import re\nprint(re.match(r'(a+)+$', 'a' * 40 + 'b'))".into(),
        format!("x = f'{}'", "{x:".repeat(80)),
        "\u{feff}x = 1".into(),
        "x = '\\N{DASH}'".into(),
        "\r\rx = 1\r".into(),
        "x = 1 \\".into(),
        "'''".into(),
        "sorted(range(100000), key=lambda v: sorted(range(1000)))".into(),
        "print('%s' % 1)".into(),
        "class A:\n    def __repr__(self):\n        return repr(self)\nprint(A())".into(),
        "import asyncio\nasync def f():\n    await f()\nasyncio.run(f())".into(),
    ];
    survives(Family::Lookup, &blocks);
}

/// Nested statements, one blank deeper each.
fn stairs(n: usize) -> String {
    let lines: Vec<String> = (0..n)
        .map(|i| format!("{}if 1:\n", " ".repeat(i)))
        .collect();
    lines.concat()
}

proptest! {
    /// A6: whatever the real server answers, it is an answer or a failure of the machinery.
    #[test]
    fn any_answer_of_the_server_is_classified(
        status in prop::sample::select(vec![200, 400, 404, 422, 500, 503]),
        body in prop_oneof![".{0,60}", prop::sample::select(vec![
            "{}", "[]", "null", "{\"detail\":1}", "{\"detail\":[{\"loc\":[]}]}", "{\"detail\":[1,{\"loc\":[2]}]}",
            "{\"output\":null}", "{\"output\":[1]}",
        ]).prop_map(str::to_owned)],
    ) {
        if let Err(error) = classify(status, &body) {
            prop_assert!(matches!(EnvError::from(error), EnvError::Infra(_)));
        }
    }

    /// A4: blanks around an answer, and the case of its letters, make no difference.
    #[test]
    fn an_answer_is_compared_without_blanks_around_it_and_case(answer in "[ \"'a-cA-C0-9.-]{0,12}") {
        let once = normalise(&answer.clone().into());
        prop_assert_eq!(normalise(&format!(" {answer}\n").into()), once.clone());
        prop_assert_eq!(normalise(&answer.to_uppercase().into()), once);
    }
}
