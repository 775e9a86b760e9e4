//! What agents' code may do and how its failures read.
#![expect(
    clippy::needless_raw_string_hashes,
    reason = "expect-test writes the hashes"
)]

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
    assert_eq!(
        s.run("n = 1\ndef more(x):\n    return x + n"),
        "Execution successful."
    );
    assert_eq!(s.run("n = 10\nprint(more(1))"), "11\n");
    assert_eq!(s.run("n"), "Execution successful.");
    assert_eq!(s.run("  \n"), "No code available to execute.");
    assert_eq!(s.int("n_blocks"), 4);
}

#[test]
fn print_shows_containers_as_json() {
    prints(
        "print({'a': 1, 'b': [True, None]})",
        r#"{"a": 1, "b": [true, null]}"#,
    );
    prints("print((1, 'x'))", r#"[1, "x"]"#);
    prints("print([1], [2])", "[1] [2]");
    prints("print('a', 2, sep='-', end='!\\n')", "a-2!");
    check(
        "print([{'name': 'n' * 30, 'value': 'v' * 30}, {'name': 'n' * 30}])",
        &expect![[r#"
        [
         {
          "name": "nnnnnnnnnnnnnnnnnnnnnnnnnnnnnn",
          "value": "vvvvvvvvvvvvvvvvvvvvvvvvvvvvvv"
         },
         {
          "name": "nnnnnnnnnnnnnnnnnnnnnnnnnnnnnn"
         }
        ]
    "#]],
    );
    check(
        "print({'s': {1, 2}})",
        &expect![[r#"
        Execution failed. Traceback:
          File "<python-input>", line 1, in <module>
            print({'s': {1, 2}})
        TypeError: Object of type set is not JSON serializable"#]],
    );
}

#[test]
fn common_python_works() {
    prints("print(next(x for x in [3, 4] if x > 3))", "4");
    prints("print(next((x for x in [1] if x > 3), 'none'))", "none");
    prints("i = iter([1, 2])\nnext(i)\nprint(next(i))", "2");
    prints(
        "from copy import deepcopy\na = {'x': [1]}\nb = deepcopy(a)\nb['x'].append(2)\nprint(a)",
        r#"{"x": [1]}"#,
    );
    prints(
        "import copy, json\nprint(json.dumps(copy.deepcopy([1])))",
        "[1]",
    );
    prints("if True:\n    import copy\nprint(1)", "1");
    prints(
        "print(Counter('aab').most_common(1)[0][0], defaultdict(int)['x'])",
        "a 0",
    );
    prints(
        "import re\nprint(re.findall(r'\\d+', 'a1b22'), math.ceil(1.2), reduce(lambda a, b: a + b, [1, 2]))",
        "['1', '22'] 2 3",
    );
    prints(
        "d = {'a': 3, 'b': 1}\nprint(sorted(d.items(), key=lambda kv: kv[1])[0][0], f'{2.5:.2f}', 'x,y'.split(','))",
        "b 2.50 ['x', 'y']",
    );
    prints(
        "try:\n    apis.spotify.show_song(song_id=0)\nexcept Exception as e:\n    print(str(e)[:27])",
        "Response status code is 422",
    );
    prints(
        "from datetime import datetime, timedelta\nd = datetime.strptime('2023-05-18', '%Y-%m-%d')\nprint((d - timedelta(days=3)).strftime('%A'))",
        "Monday",
    );
}

#[test]
fn tracebacks() {
    check(
        "x = 1\nprint('a')\napis.spotify.show_song(song_id='x')",
        &expect![[r#"
        Execution failed. Traceback:
          File "<python-input>", line 3, in <module>
            apis.spotify.show_song(song_id='x')
        Exception: Response status code is 422:
        {"message":"Validation error. Reason: \nsong_id: value is not a valid integer"}"#]],
    );
    check(
        "def f(x):\n    return x['nokey']\nf({})",
        &expect![[r#"
        Execution failed. Traceback:
          File "<python-input>", line 3, in <module>
            f({})
          File "<python-input>", line 2, in f
            return x['nokey']
                   ~^^^^^^^^^
        KeyError: 'nokey'"#]],
    );
    check(
        "a = [1]\nb = a[0] + a[5]",
        &expect![[r#"
        Execution failed. Traceback:
          File "<python-input>", line 2, in <module>
            b = a[0] + a[5]
                       ~^^^
        IndexError: list index out of range"#]],
    );
    check(
        "y = missing + 1",
        &expect![[r#"
        Execution failed. Traceback:
          File "<python-input>", line 1, in <module>
            y = missing + 1
                ^^^^^^^
        NameError: name 'missing' is not defined"#]],
    );
    check(
        "1 / 0",
        &expect![[r#"
        Execution failed. Traceback:
          File "<python-input>", line 1, in <module>
            1 / 0
        ZeroDivisionError: division by zero"#]],
    );
}

#[test]
fn tracebacks_of_raises() {
    check(
        "raise ValueError('bad')",
        &expect![[r#"
        Execution failed. Traceback:
          File "<python-input>", line 1, in <module>
            raise ValueError('bad')
        ValueError: bad"#]],
    );
    check(
        "next(x for x in [])",
        &expect![[r#"
        Execution failed. Traceback:
          File "<python-input>", line 1, in <module>
            next(x for x in [])
        StopIteration"#]],
    );
    check(
        "input('go on?')",
        &expect![[r#"
        Execution failed. Traceback:
          File "<python-input>", line 1, in <module>
            input('go on?')
        Exception: input(..) is not allowed. All decisions must be made autonomously."#]],
    );
    check(
        "def f(n):\n    return f(n + 1)\nf(0)",
        &expect![[r#"
        Execution failed. Traceback:
          File "<python-input>", line 3, in <module>
            f(0)
          File "<python-input>", line 2, in f
            return f(n + 1)
                   ^^^^^^^^
          File "<python-input>", line 2, in f
            return f(n + 1)
                   ^^^^^^^^
          File "<python-input>", line 2, in f
            return f(n + 1)
                   ^^^^^^^^
          File "<python-input>", line 2, in f
            return f(n + 1)
                   ^^^^^^^^
          File "<python-input>", line 2, in f
            return f(n + 1)
                   ^^^^^^^^
          [139 more frames]
          File "<python-input>", line 2, in f
            return f(n + 1)
                   ^^^^^^^^
          File "<python-input>", line 2, in f
            return f(n + 1)
                   ^^^^^^^^
          File "<python-input>", line 2, in f
            return f(n + 1)
                   ^^^^^^^^
          File "<python-input>", line 2, in f
            return f(n + 1)
                   ^^^^^^^^
          File "<python-input>", line 2, in f
            return f(n + 1)
                   ^^^^^^^^
          File "<python-input>", line 2, in f
            return f(n + 1)
                   ^^^^^^^^
        RecursionError: maximum recursion depth exceeded"#]],
    );
}

#[test]
fn syntax_errors() {
    check(
        "x = 1\nprint('a'\n",
        &expect![[r#"
            Execution failed. Traceback:
            Syntax error in line:
            print('a'
            Message: unexpected EOF while parsing"#]],
    );
    check(
        "if True\n    x = 1",
        &expect![[r#"
        Execution failed. Traceback:
        Syntax error in line:
        if True
        Message: Expected `:`, found newline"#]],
    );
    check(
        "for x in [1]:\nprint(x)",
        &expect![[r#"
        Execution failed. Traceback:
        Syntax error in line:
        print(x)
        Message: Expected an indented block after `for` statement"#]],
    );
    check(
        "please call the api",
        &expect![[r#"
        Execution failed. Traceback:
        Syntax error in line:
        please call the api
        Message: Simple statements must be separated by newlines or semicolons"#]],
    );
}

#[test]
fn the_guard_refuses() {
    check(
        "import sys",
        &expect![[r#"
        Execution failed. Traceback:
        Usage of the following module is not allowed: sys."#]],
    );
    check(
        "import subprocess\nfrom requests import get",
        &expect![[r#"
        Execution failed. Traceback:
        Usage of the following modules are not allowed: subprocess and requests."#]],
    );
    check(
        "print(open('/etc/passwd').read())",
        &expect![[r#"
        Execution failed. Traceback:
        Usage of the following function is not allowed: builtins.open."#]],
    );
    check(
        "import os\nos.system('ls')\nexit()",
        &expect![[r#"
        Execution failed. Traceback:
        Usage of the following functions are not allowed: os.system and builtins.exit."#]],
    );
    check(
        "x = [0] * 10**8",
        &expect![[r#"
        Execution failed. Traceback:
        The code would make a too large value."#]],
    );
    check(
        "x = 'a' * 1000000000",
        &expect![[r#"
        Execution failed. Traceback:
        The code would make a too large value."#]],
    );
    check(
        "x = 9**9**9",
        &expect![[r#"
        Execution failed. Traceback:
        The code would make a too large value."#]],
    );
    check(
        "x = list(range(10**9))",
        &expect![[r#"
        Execution failed. Traceback:
        The code would make a too large range."#]],
    );
    check(
        &format!("x = {}", "9".repeat(400)),
        &expect![[r#"
        Execution failed. Traceback:
        The code would make a too large number."#]],
    );
    check(
        &"x = 1\n".repeat(10_000),
        &expect![[r#"
        Execution failed. Traceback:
        The code is too long."#]],
    );
    check(
        &format!("x = {}", "1+".repeat(3_000)),
        &expect![[r#"
        Execution failed. Traceback:
        The code is too complex."#]],
    );
    check(
        &format!("x = {}1{}", "(".repeat(300), ")".repeat(300)),
        &expect![[r#"
        Execution failed. Traceback:
        Syntax error in line:
        x = ((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((1))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))
        Message: Source is too deeply nested"#]],
    );
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
    expect![[r#"
        Execution failed. Traceback:
        Exception: Execution timed out after 0.1 seconds."#]]
    .assert_eq(&run("x = 5\nwhile True:\n    x += 1"));
    expect![[r#"
        Execution failed. Traceback:
          File "<python-input>", line 3, in <module>
            apis.spotify.search_songs()
        Exception: Number of requests exceeded the limit of 10. This potentially means that you have an infinite loop in your code."#]].assert_eq(&run("while True:\n    try:\n        apis.spotify.search_songs()\n    except Exception:\n        pass"));
    expect![[r#"
        Execution failed. Traceback:
          File "<python-input>", line 3, in <module>
            t = t + t
                ^^^^^
        MemoryError: memory limit exceeded: 2097152 bytes > 1048576 bytes"#]]
    .assert_eq(&run("t = 'a'\nwhile True:\n    t = t + t"));
    expect![[r#"
        Execution failed. Traceback:
          File "<python-input>", line 2, in <module>
            print('x' * 1000)
        MemoryError: more than 1000000 bytes printed in one block"#]]
    .assert_eq(&run("while True:\n    print('x' * 1000)"));
    expect![[r#"
        Execution failed. Traceback:
          File "<python-input>", line 1, in <module>
            y = [0] * int('9' * 9)
                ^^^^^^^^^^^^^^^^^^
        MemoryError: memory limit exceeded: 15999999984 bytes > 1048576 bytes"#]]
    .assert_eq(&run("y = [0] * int('9' * 9)"));
    assert!(
        run("from datetime import datetime\nwhile True:\n    datetime.now()")
            .contains("Number of requests")
    );
    assert_eq!(run("print(x > 5)"), "True\n");
    // What it gathers may be more than a session can hold.
    assert!(
        run("items = []\nwhile True:\n    items.append(('a' * 90000) * 10 + str(len(items)))")
            .contains("Exec")
    );
    assert_eq!(run("print(1)"), "1\n");
    expect![[r#"
        Execution failed. Traceback:
        Exception: Maximum number of executions (9) reached."#]]
    .assert_eq(&run("print(1)"));
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
    assert!(
        !session
            .step("raise NotImplementedError('todo')")
            .unsupported
    );
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

#[test]
fn sets_are_shown_the_same_in_every_session() {
    let code = "s = {'d', 'a', 'c', 'b'}\nprint(s, list(s), {3, 1, 2})";
    let first = Session::new(Family::Lookup).run(code);
    for _ in 0..5 {
        assert_eq!(Session::new(Family::Lookup).run(code), first);
    }
}
