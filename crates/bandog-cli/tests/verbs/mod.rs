//! Tests of `show`, `ls`, `release` and `latch` over any store.

mod jobs;
mod latch;

use bandog_testkit::{Process, eventually};
use serde_json::Value;

use crate::{
    help::{Place, SOON, ends},
    store::Store,
};

/// Starts a holder of `x` whose script reads a word, and waits until the holder is registered in the store.
fn holder(place: &Place, url: &str, script: &str) -> Process {
    let holder = place.start(&Place::lock("x", &["--url", url], script));
    holder.stdout_line("in", SOON);
    eventually(SOON, || !place.show("x", &["--url", url])["holder"].is_null());
    holder
}

/// Asserts that the client, a holder or a waiter, is this process.
#[track_caller]
fn assert_client(client: &Value, process: &Process, program: &str) {
    assert_eq!((&client["pid"], &client["program"]), (&process.pid().into(), &program.into()), "{client}");
    assert!(client["host"].is_string() && client["since"].as_str().unwrap().ends_with('Z'), "{client}");
}

#[test]
fn show_and_ls_name_the_holder_and_the_waiters() {
    let store = Store::start();
    let (place, url) = store.place_and_url();
    let mut holder = holder(place, url, "echo in; read word; exit 0");
    let waiter = place.start(&["lock", "x", "--url", url, "--", "env", "SECRET=hunter2", "true"]);
    let row = eventually(SOON, || Some(place.show("x", &["--url", url])).filter(|row| row["waiters"][0].is_object()));
    assert_client(&row["holder"], &holder, "bandog lock -- sh");
    assert_client(&row["waiters"][0], &waiter, "bandog lock -- env");
    let list = place.run(&["ls", "--json", "--url", url]).stdout;
    assert_eq!(serde_json::from_str::<Value>(&list).unwrap()["holder"], row["holder"]);
    let show = place.run(&["show", "x", "--url", url]).stdout;
    let pid = holder.pid().to_string();
    for word in ["HOLDER", "bandog lock -- sh (process ", "waiting:\n  bandog lock -- env (process ", &pid] {
        assert!(show.contains(word), "{word}: {show}");
    }
    assert!(!show.contains("hunter2"), "an argument of the command is printed");
    let busy = place.run(&["lock", "x", "-v", "--wait", "0s", "--url", url, "--", "true"]);
    busy.assert_ended(75, &["held by bandog lock -- sh (process "]);
    holder.close_stdin();
    ends(&mut holder, 0);
}

#[test]
fn release_takes_a_lock_from_its_holder() {
    let store = Store::start();
    let (place, url) = store.place_and_url();
    let url = &format!("{url}?watchdog=5s");
    let mut first = holder(place, url, "echo in; trap 'echo notified' TERM; read word; exit 0");
    let fence = place.show("x", &["--url", url])["fence"].as_u64().unwrap();
    let ran = place.run(&["release", "x", "--force", "--json", "--url", url]);
    ran.assert_ended(0, &[]);
    let taken: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!((&taken["freed"], &taken["name"], &taken["held"]), (&true.into(), &"x".into(), &true.into()));
    assert_client(&taken["holder"], &first, "bandog lock -- sh");
    let next = place.run(&Place::lock("x", &["--url", url], "echo $BANDOG_FENCE"));
    assert!(next.stdout.trim().parse::<u64>().unwrap() > fence, "{next:?}");
    ends(&mut first, 76);
    assert!(first.stderr().join("\n").contains("taken away"), "{:?}", first.stderr());

    let _second = holder(place, url, "echo in; read word");
    let ran = place.run(&["release", "x", "--force", "--url", url]);
    ran.assert_ended(0, &[]);
    assert!(
        ran.stdout.starts_with("took \"x\" in ") && ran.stdout.contains("from bandog lock -- sh (process "),
        "{ran:?}"
    );
}

#[test]
fn release_of_a_free_lock_is_busy() {
    let store = Store::start();
    let (place, url) = store.place_and_url();
    place.run(&["lock", "x", "--url", url, "--", "true"]).assert_ended(0, &[]);
    for name in ["x", "never used"] {
        let ran = place.run(&["release", name, "--force", "--json", "--url", url]);
        ran.assert_ended(75, &["is free", name]);
        let printed: Value = serde_json::from_str(&ran.stdout).unwrap();
        assert_eq!((&printed["freed"], &printed["name"]), (&false.into(), &name.into()));
    }
}

#[test]
fn release_without_force_changes_nothing() {
    let store = Store::start();
    let (place, url) = store.place_and_url();
    let mut holder = holder(place, url, "echo in; read word; exit 0");
    let ran = place.run(&["release", "x", "--url", url]);
    ran.assert_ended(64, &["only its holder", "--force", "next renewal", "fence"]);
    assert_eq!(place.show("x", &["--url", url])["held"], true);
    holder.close_stdin();
    ends(&mut holder, 0);
}

/// Two commands take two locks in opposite orders. Both inner commands report the deadlock once, with the processes that
/// hold the locks and the process that waits on the other side, and then both outer commands end.
// Promise: K18
#[test]
fn commands_that_wait_for_each_other_report_a_deadlock() {
    let store = Store::start();
    let (place, url) = store.place_and_url();
    let under = |name: &str, inner: &str| {
        let waits = format!("touch {name}.held; while [ ! -e {inner}.held ]; do sleep 0.01; done");
        format!("{waits}; {} lock {inner} --url {url} -- true; exit $?", env!("CARGO_BIN_EXE_bandog"))
    };
    let scripts = [("a", under("a", "b")), ("b", under("b", "a"))];
    let mut commands =
        scripts.each_ref().map(|(name, script)| place.start(&Place::lock(name, &["--url", url], script)));
    let [one, two] = commands.each_ref().map(Process::pid);
    for (command, (waited, held, outer, other)) in commands.iter_mut().zip([("b", "a", one, two), ("a", "b", two, one)])
    {
        ends(command, 75);
        let text = command.stderr().join("\n");
        let circle = [
            format!("deadlock: this process waits for \"{waited}\", held by bandog lock -- sh (process {other} on "),
            "), under which bandog lock -- true (process ".to_owned(),
            format!(") runs, which waits for \"{held}\", held by bandog lock -- sh (process {outer} on "),
            "), under which this process runs; take these locks in the same order".to_owned(),
        ];
        let mut rest = text.as_str();
        for part in circle {
            let at = rest.find(&part).unwrap_or_else(|| panic!("{part:?} is not in {text}"));
            rest = &rest[at + part.len()..];
        }
        assert_eq!(text.matches("deadlock").count(), 1, "{text}");
    }
}
