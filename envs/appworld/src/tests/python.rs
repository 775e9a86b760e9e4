//! What agents' code may do and how its failures read.

use expect_test::{Expect, expect};
use harness_core::{Action, Deadline, Environment as _};

use super::Session;
use crate::{AppWorldEnv, Family, WorldLimits};

#[track_caller]
fn check(code: &str, expected: &Expect) {
    let mut session = Session::new(Family::Lookup);
    expected.assert_eq(&session.run(code));
}

#[track_caller]
fn prints(code: &str, expected: &str) {
    let mut session = Session::new(Family::Lookup);
    assert_eq!(session.run(code), format!("{expected}\n"), "{code}");
}

#[test]
fn state_lasts_from_block_to_block() {
    let mut s = Session::new(Family::Lookup);
    assert_eq!(s.run("n = 1\ndef more(x):\n    return x + n"), "Execution successful.");
    assert_eq!(s.run("n = 10\nprint(more(1))"), "11\n");
    assert_eq!(s.run("n"), "Execution successful.");
    assert_eq!(s.run("  \n"), "No code available to execute.");
    assert_eq!(s.int("n_blocks"), 4);
}

#[test]
fn print_shows_containers_as_json() {
    prints("print({'a': 1, 'b': [True, None]})", r#"{"a": 1, "b": [true, null]}"#);
    prints("print((1, 'x'))", r#"[1, "x"]"#);
    prints("print([1], [2])", "[1] [2]");
    prints("print('a', 2, sep='-', end='!\\n')", "a-2!");
    check("print([{'name': 'n' * 30, 'value': 'v' * 30}, {'name': 'n' * 30}])", &expect![]);
    check("print({'s': {1, 2}})", &expect![]);
}

#[test]
fn common_python_works() {
    prints("print(next(x for x in [3, 4] if x > 3))", "4");
    prints("print(next((x for x in [1] if x > 3), 'none'))", "none");
    prints("i = iter([1, 2])\nnext(i)\nprint(next(i))", "2");
    prints("from copy import deepcopy\na = {'x': [1]}\nb = deepcopy(a)\nb['x'].append(2)\nprint(a)", r#"{"x": [1]}"#);
    prints("import copy, json\nprint(json.dumps(copy.deepcopy([1])))", "[1]");
    prints("if True:\n    import copy\nprint(1)", "1");
    prints("print(Counter('aab').most_common(1)[0][0], defaultdict(int)['x'])", "a 0");
    prints("import re\nprint(re.findall(r'\\d+', 'a1b22'), math.ceil(1.2), reduce(lambda a, b: a + b, [1, 2]))", "['1', '22'] 2 3");
    prints("d = {'a': 3, 'b': 1}\nprint(sorted(d.items(), key=lambda kv: kv[1])[0][0], f'{2.5:.2f}', 'x,y'.split(','))", "b 2.50 ['x', 'y']");
    prints("try:\n    apis.spotify.show_song(song_id=0)\nexcept Exception as e:\n    print(str(e)[:27])", "Response status code is 422");
    prints("from datetime import datetime, timedelta\nd = datetime.strptime('2023-05-18', '%Y-%m-%d')\nprint((d - timedelta(days=3)).strftime('%A'))", "Monday");
}

#[test]
fn tracebacks() {
    check("x = 1\nprint('a')\napis.spotify.show_song(song_id='x')", &expect![]);
    check("def f(x):\n    return x['nokey']\nf({})", &expect![]);
    check("a = [1]\nb = a[0] + a[5]", &expect![]);
    check("y = missing + 1", &expect![]);
    check("1 / 0", &expect![]);
    check("raise ValueError('bad')", &expect![]);
    check("next(x for x in [])", &expect![]);
    check("input('go on?')", &expect![]);
    check("def f(n):\n    return f(n + 1)\nf(0)", &expect![]);
}

#[test]
fn syntax_errors() {
    check("x = 1\nprint('a'\n", &expect![]);
    check("if True\n    x = 1", &expect![]);
    check("for x in [1]:\nprint(x)", &expect![]);
    check("please call the api", &expect![]);
}

#[test]
fn the_guard_refuses() {
    check("import sys", &expect![]);
    check("import subprocess\nfrom requests import get", &expect![]);
    check("print(open('/etc/passwd').read())", &expect![]);
    check("import os\nos.system('ls')\nexit()", &expect![]);
    check("x = [0] * 10**8", &expect![]);
    check("x = 'a' * 1000000000", &expect![]);
    check("x = 9**9**9", &expect![]);
    check("x = list(range(10**9))", &expect![]);
    check(&format!("x = {}", "9".repeat(400)), &expect![]);
    check(&"x = 1\n".repeat(10_000), &expect![]);
    check(&format!("x = {}", "1+".repeat(3_000)), &expect![]);
    check(&format!("x = {}1{}", "(".repeat(300), ")".repeat(300)), &expect![]);
}

#[test]
fn limits_stop_a_block_and_the_session_goes_on() {
    let mut limits = WorldLimits::default();
    limits.block.time = std::time::Duration::from_millis(100);
    limits.block.max_calls = 10;
    limits.max_blocks = 9;
    let mut session = Session::new(Family::Lookup);
    session.env = AppWorldEnv::new(limits);
    session.env.reset(&session.task, Deadline::NEVER).unwrap();
    let mut run = |code: &str| session.run(code);
    expect![].assert_eq(&run("x = 5\nwhile True:\n    x += 1"));
    expect![].assert_eq(&run("while True:\n    try:\n        apis.spotify.search_songs()\n    except Exception:\n        pass"));
    expect![].assert_eq(&run("x = 'a'\nwhile True:\n    x = x + x"));
    expect![].assert_eq(&run("while True:\n    print('x' * 1000)"));
    expect![].assert_eq(&run("x = [0] * int('9' * 9)"));
    assert!(run("items = []\nwhile True:\n    items.append('a' * 1000000 + str(len(items)))").contains("Exec"));
    assert!(run("from datetime import datetime\nwhile True:\n    datetime.now()").contains("Number of requests"));
    assert_eq!(run("items = 0\nprint(x > 5)"), "True\n");
    assert_eq!(run("print(1)"), "1\n");
    expect![].assert_eq(&run("print(1)"));
}

#[test]
fn gaps_of_the_interpreter_are_counted() {
    for code in [
        "def gen():\n    yield 1",
        "x = [1]\ndel x[0]",
        "match 1:\n    case 1: pass",
        "import random",
        "class E(Exception):\n    pass",
    ] {
        let mut session = Session::new(Family::Lookup);
        let result = session.step(code);
        assert!(result.unsupported, "{code}: {:?}", result.observation);
        assert_eq!(session.text("error_kind"), "unsupported");
        assert_eq!(session.run("print(1)"), "1\n");
    }
    let mut session = Session::new(Family::Lookup);
    assert!(!session.step("raise NotImplementedError('todo')").unsupported);
}

#[test]
fn nothing_of_the_machine_is_in_reach() {
    for code in [
        "import os\nprint(os.getenv('HOME'))",
        "import os\nprint(os.environ)",
        "from pathlib import Path\nprint(Path('/etc/passwd').read_text())",
        "from pathlib import Path\nPath('/tmp/x').write_text('x')",
        "__import__('os')",
        "eval('1')",
        "print = 1\nprint(1)",
    ] {
        let mut session = Session::new(Family::Lookup);
        let seen = session.run(code);
        assert!(seen.starts_with("Execution failed"), "{code}: {seen}");
    }
}

#[test]
fn long_output_comes_back_whole() {
    let mut session = Session::new(Family::Lookup);
    assert_eq!(session.run("print('x' * 30000)").len(), 30_001);
}

#[test]
fn other_actions_are_refused_as_observations() {
    let mut session = Session::new(Family::Lookup);
    let action = Action::ToolCall {
        name: "x".into(),
        arguments: serde_json::Value::Null,
    };
    let result = session.env.step(&action, Deadline::NEVER).unwrap();
    assert!(!result.done && session.is("last_result_error"));
}
