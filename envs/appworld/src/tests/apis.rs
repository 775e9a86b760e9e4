//! The apps' answers, errors and arguments.
#![expect(
    clippy::needless_raw_string_hashes,
    reason = "expect-test writes the hashes"
)]

use expect_test::{Expect, expect};

use super::Session;
use crate::Family;

/// The last line of what a block leads to, or all of it if it did not fail.
#[track_caller]
fn check(session: &mut Session, code: &str, expected: &Expect) {
    let seen = session.run(code);
    let shown = match seen.strip_prefix("Execution failed. Traceback:\n") {
        Some(trace) => trace
            .lines()
            .skip_while(|line| line.starts_with(' '))
            .collect::<Vec<_>>()
            .join("\n"),
        None => seen,
    };
    expected.assert_eq(&shown);
}

#[test]
fn unknown_names() {
    let mut s = Session::new(Family::Lookup);
    check(
        &mut s,
        "apis.spotify.nope(x=1)",
        &expect!["Exception: No API named 'nope' found in the spotify app."],
    );
    assert_eq!(s.text("error_kind"), "no_api");
    check(
        &mut s,
        "apis.nope.thing(x=1)",
        &expect!["Exception: No app named 'nope' found."],
    );
    assert_eq!(s.text("error_kind"), "no_app");
    check(
        &mut s,
        "apis.nope()",
        &expect!["Exception: No app named 'nope' found."],
    );
    check(
        &mut s,
        "f = apis.spotify.nope",
        &expect!["Exception: No API named 'nope' found in the spotify app."],
    );
    check(
        &mut s,
        "apis.spotify.show_rating(title='x')",
        &expect!["Exception: No API named 'show_rating' found in the spotify app."],
    );
    check(
        &mut s,
        "getattr(apis, 'nope')",
        &expect!["Exception: No app named 'nope' found."],
    );
}

#[test]
fn calls_take_keywords_only() {
    let mut s = Session::new(Family::Lookup);
    check(
        &mut s,
        "apis.spotify.search_songs('x')",
        &expect!["TypeError: search_songs() takes 0 positional arguments but 1 was given"],
    );
    check(
        &mut s,
        "apis.spotify.show_song(1, 2)",
        &expect!["TypeError: show_song() takes 0 positional arguments but 2 were given"],
    );
    assert_eq!(s.text("error_kind"), "python");
    check(
        &mut s,
        "print(len(apis.spotify.search_songs(extra=1, page_limit='3')))",
        &expect![[r#"
        3
    "#]],
    );
    check(
        &mut s,
        "f = apis.spotify.search_songs\nprint(len(f(page_limit=2)))",
        &expect![[r#"
        2
    "#]],
    );
    check(
        &mut s,
        "print(len(getattr(getattr(apis, 'spotify'), 'search_songs')(**{'page_limit': 1})))",
        &expect![[r#"
        1
    "#]],
    );
    check(
        &mut s,
        "apis.spotify.show_song(song_id=lambda: 1)",
        &expect!["TypeError: Object of type function is not JSON serializable"],
    );
}

#[test]
fn validation() {
    let mut s = Session::new(Family::Lookup);
    check(
        &mut s,
        "apis.spotify.show_song()",
        &expect![[r#"
        Exception: Response status code is 422:
        {"message":"Validation error. Reason: \nsong_id: field required"}"#]],
    );
    assert_eq!(s.text("error_kind"), "422");
    check(
        &mut s,
        "apis.spotify.show_song(song_id='x')",
        &expect![[r#"
        Exception: Response status code is 422:
        {"message":"Validation error. Reason: \nsong_id: value is not a valid integer"}"#]],
    );
    check(
        &mut s,
        "apis.spotify.show_song(song_id=None)",
        &expect![[r#"
        Exception: Response status code is 422:
        {"message":"Validation error. Reason: \nsong_id: none is not an allowed value"}"#]],
    );
    check(
        &mut s,
        "apis.spotify.search_songs(page_limit=21, page_index=-1)",
        &expect![[r#"
        Exception: Response status code is 422:
        {"message":"Validation error. Reason: \npage_index: ensure this value is greater than or equal to 0\npage_limit: ensure this value is less than or equal to 20"}"#]],
    );
    check(
        &mut s,
        "apis.spotify.search_songs(query=['x'])",
        &expect![[r#"
        Exception: Response status code is 422:
        {"message":"Validation error. Reason: \nquery: str type expected"}"#]],
    );
    check(
        &mut s,
        "apis.spotify.search_songs(sort_by='like_count')",
        &expect![[r#"
        Exception: Response status code is 422:
        {"message":"The sort_by parameter must start with + or -."}"#]],
    );
    check(
        &mut s,
        "apis.spotify.search_songs(sort_by='+mood')",
        &expect![[r#"
        Exception: Response status code is 422:
        {"message":"The sort_by parameter must name one of song_id, title, artist, like_count, play_count."}"#]],
    );
    check(
        &mut s,
        "apis.simple_note.create_note(title='', content='x' * 5001)",
        &expect![[r#"
        Exception: Response status code is 422:
        {"message":"Validation error. Reason: \ntitle: ensure this value has at least 1 characters\ncontent: ensure this value has at most 5000 characters"}"#]],
    );
    check(
        &mut s,
        "apis.supervisor.complete_task(answer={'a': 1})",
        &expect![[r#"
        Exception: Response status code is 422:
        {"message":"Validation error. Reason: \nanswer: value is not a valid answer"}"#]],
    );
    check(
        &mut s,
        "apis.supervisor.complete_task(status='done')",
        &expect![[r#"
        Exception: Response status code is 422:
        {"message":"Validation error. Reason: \nstatus: unexpected value; permitted: 'success', 'fail'"}"#]],
    );
    assert!(!s.is("task_completed"));
}

#[test]
fn conflicts() {
    let mut s = Session::new(Family::Lookup);
    check(
        &mut s,
        "apis.spotify.show_song(song_id=99999)",
        &expect![[r#"
        Exception: Response status code is 409:
        {"message":"The song with id 99999 does not exist."}"#]],
    );
    assert_eq!(s.text("error_kind"), "409");
    check(
        &mut s,
        "apis.simple_note.delete_note(note_id=99999)",
        &expect![[r#"
        Exception: Response status code is 409:
        {"message":"The note with id 99999 does not exist."}"#]],
    );
    check(
        &mut s,
        "apis.spotify.signup(first_name='a', last_name='b', email='c', password='d')",
        &expect![[r#"
        Exception: Response status code is 422:
        {"message":"This email cannot be used."}"#]],
    );
}

#[test]
fn a_locked_app_wants_a_token() {
    let mut s = Session::new(Family::Auth);
    check(
        &mut s,
        "apis.simple_note.search_notes()",
        &expect![[r#"
        Exception: Response status code is 401:
        {"message":"You are either not authorized to access this simple_note API endpoint or your access token is missing, invalid or expired."}"#]],
    );
    assert_eq!(s.text("error_kind"), "401");
    check(
        &mut s,
        "apis.simple_note.search_notes(access_token='x')",
        &expect![[r#"
        Exception: Response status code is 401:
        {"message":"You are either not authorized to access this simple_note API endpoint or your access token is missing, invalid or expired."}"#]],
    );
    check(
        &mut s,
        "apis.simple_note.login(username='a', password='b')",
        &expect![[r#"
        Exception: Response status code is 401:
        {"message":"Invalid credentials"}"#]],
    );
    assert!(!s.is("logged_in") && !s.is("passwords_shown"));
    let login = "\
accounts = apis.supervisor.show_account_passwords()
password = next(a['password'] for a in accounts if a['account_name'] == 'simple_note')
email = apis.supervisor.show_profile()['email']
token = apis.simple_note.login(username=email, password=password)['access_token']
print(len(apis.simple_note.search_notes(access_token=token)))";
    check(
        &mut s,
        login,
        &expect![[r#"
        5
    "#]],
    );
    assert!(s.is("logged_in") && s.is("passwords_shown"));
    check(
        &mut s,
        "apis.spotify.search_songs(access_token=token)",
        &expect![[r#"
        Exception: Response status code is 401:
        {"message":"You are either not authorized to access this spotify API endpoint or your access token is missing, invalid or expired."}"#]],
    );
    check(
        &mut s,
        "print(apis.simple_note.logout(access_token=token))",
        &expect![[r#"
        {"message": "Logged out."}
    "#]],
    );
    check(
        &mut s,
        "apis.simple_note.search_notes(access_token=token)",
        &expect![[r#"
        Exception: Response status code is 401:
        {"message":"You are either not authorized to access this simple_note API endpoint or your access token is missing, invalid or expired."}"#]],
    );
}

#[test]
fn tokens_come_from_the_seed() {
    let login = "\
p = {a['account_name']: a['password'] for a in apis.supervisor.show_account_passwords()}
e = apis.supervisor.show_profile()['email']
print(apis.spotify.login(username=e, password=p['spotify']))";
    let first = Session::new(Family::Auth).run(login);
    assert_eq!(first, Session::new(Family::Auth).run(login));
    assert_ne!(first, Session::new(Family::Docs).run(login));
}

#[test]
fn listings_are_paged_and_sorted() {
    let mut s = Session::new(Family::Pages);
    let artist = s.entity();
    let code = format!(
        "
sizes = []
for i in range(9):
    sizes.append(len(apis.spotify.search_songs(artist='{artist}', page_index=i)))
print(sizes)"
    );
    let sizes: Vec<usize> = serde_json::from_str(&s.run(&code)).unwrap();
    assert!(sizes[0] == 5 && sizes[8] == 0, "{sizes:?}");
    assert_eq!(s.int("pages_read"), 9);
    assert!(s.is("last_result_empty") && !s.is("last_page_full"));
    let code = format!(
        "
plays = [x['play_count'] for x in apis.spotify.search_songs(artist='{artist}', sort_by='-play_count', page_limit=20)]
print(plays == sorted(plays, reverse=True))"
    );
    assert_eq!(s.run(&code), "True\n");
    s.run("apis.spotify.search_songs(artist='nobody')");
    assert!(s.is("last_result_empty"));
    s.run("apis.spotify.search_songs()");
    assert!(s.is("last_page_full") && !s.is("last_result_empty"));
}

#[test]
fn the_docs_name_the_rating_api_and_its_parameter() {
    let mut s = Session::new(Family::Docs);
    let found = s.run("print(apis.api_docs.search_api_docs(query='rating'))");
    let found: serde_json::Value = serde_json::from_str(&found).unwrap();
    assert_eq!(found.as_array().unwrap().len(), 1, "{found}");
    assert!(s.is("docs_searched") && !s.is("api_doc_read"));
    let name = found[0]["api_name"].as_str().unwrap().to_owned();
    let title = s.entity();
    let seen = s.run(&format!("apis.spotify.{name}(title='{title}')"));
    assert!(
        seen.contains("422") && seen.contains("field required"),
        "{seen}"
    );
    let doc = s.run(&format!(
        "print(apis.api_docs.show_api_doc(app_name='spotify', api_name='{name}')['parameters'][0]['name'])"
    ));
    assert!(s.is("api_doc_read"));
    let seen = s.run(&format!(
        "print(apis.spotify.{name}({}='{title}'))",
        doc.trim()
    ));
    assert!(seen.starts_with("{\"rating\": "), "{seen}");
}

#[test]
fn documentation() {
    let mut s = Session::new(Family::Lookup);
    check(
        &mut s,
        "print(apis.api_docs.show_app_descriptions())",
        &expect![[r#"
        [
         {
          "name": "api_docs",
          "description": "look up apps and their apis"
         },
         {
          "name": "simple_note",
          "description": "keep short notes"
         },
         {
          "name": "spotify",
          "description": "listen to songs"
         },
         {
          "name": "supervisor",
          "description": "facts about your supervisor and the active task"
         }
        ]
    "#]],
    );
    check(
        &mut s,
        "print(apis.api_docs.show_api_doc(app_name='spotify', api_name='show_song'))",
        &expect![[r#"
        {
         "app_name": "spotify",
         "api_name": "show_song",
         "path": "/spotify/show_song",
         "method": "GET",
         "description": "show a song",
         "parameters": [
          {
           "name": "song_id",
           "type": "integer",
           "required": true,
           "description": "id of the song",
           "default": null,
           "constraints": [
            "value >= 1"
           ]
          },
          {
           "name": "access_token",
           "type": "string",
           "required": false,
           "description": "token from login",
           "default": null,
           "constraints": [
            "length <= 200"
           ]
          }
         ],
         "response_schemas": {
          "success": {
           "song_id": 1,
           "title": "string",
           "artist": "string",
           "like_count": 1,
           "play_count": 1
          },
          "failure": {
           "message": "string"
          }
         }
        }
    "#]],
    );
}

#[test]
fn documentation_of_unknown_names() {
    let mut s = Session::new(Family::Lookup);
    check(
        &mut s,
        "apis.api_docs.show_api_doc(app_name='spotify', api_name='nope')",
        &expect![[r#"
        Exception: Response status code is 422:
        {"message":"No API named 'nope' found in the spotify app."}"#]],
    );
    check(
        &mut s,
        "apis.api_docs.show_api_descriptions(app_name='nope')",
        &expect![[r#"
        Exception: Response status code is 422:
        {"message":"No app named 'nope' found."}"#]],
    );
    check(
        &mut s,
        "print([d['name'] for d in apis.api_docs.show_api_descriptions(app_name='simple_note')])",
        &expect![[r#"
        [
         "login",
         "logout",
         "signup",
         "show_account",
         "show_profile",
         "search_notes",
         "show_note",
         "create_note",
         "update_note",
         "delete_note"
        ]
    "#]],
    );
}

#[test]
fn a_lost_write_shows_only_when_read_back() {
    let mut s = Session::new(Family::Write);
    let saved = s.run("print(apis.simple_note.create_note(title='abc', content=4821))");
    assert!(
        saved.starts_with("{\"message\": \"Note saved.\", \"note_id\": "),
        "{saved}"
    );
    assert!(s.is("write_unchecked"));
    assert_eq!(
        s.run("print(apis.simple_note.search_notes(query='abc'))"),
        "[]\n"
    );
    assert!(!s.is("write_unchecked") && s.is("last_result_empty"));
    s.run("for i in range(4):\n    apis.simple_note.create_note(title='abc', content=4821)");
    assert_eq!(s.int("n_writes"), 5);
    let kept: serde_json::Value =
        serde_json::from_str(&s.run("print(apis.simple_note.search_notes(query='abc'))")).unwrap();
    let kept = kept.as_array().unwrap();
    assert!((2..=4).contains(&kept.len()), "{kept:?}");
    assert_eq!(kept[0]["content"], "4821");
    assert_eq!(s.text("last_call"), "simple_note.search_notes");
}

#[test]
fn the_active_task_can_be_read() {
    let mut s = Session::new(Family::Lookup);
    let task = s.task.instruction.clone();
    let seen = s.run("print(apis.supervisor.show_active_task()['instruction'])");
    assert_eq!(seen, format!("{task}\n"));
    let done = s.step("print(apis.supervisor.complete_task(answer=None))");
    assert!(done.done && s.is("task_completed") && !s.is("gave_up"));
}

#[test]
fn an_account_has_room_for_so_many_notes() {
    let mut s = Session::new(Family::Lookup);
    let code = "for i in range(1000):\n    apis.simple_note.create_note(title='x', content='y')";
    let seen = s.run(code);
    assert!(seen.contains("409") && seen.contains("no room"), "{seen}");
}
