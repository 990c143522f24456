//! Work queues that the commands of an older version and of this one share: see docs/deploy.md, "Upgrades".
//!
//! The older one is the last version that does not know layouts of elements. The variables `BANDOG_OLDER` and `BANDOG_NEWER` have
//! the paths of both.

#![allow(clippy::unwrap_used, reason = "a test that cannot continue can only panic")]

mod kit;

use std::{thread::sleep, time::Duration};

use bandog_testkit::{MariaDbServer, PostgresServer, RedisServer, Signal, eventually};

use self::kit::{NEWER, OLDER, Program, Store};

/// The registration of a worker ends at most this long after its end.
const REGISTERED: Duration = Duration::from_secs(62);
/// The number of elements of each pusher.
const MANY: usize = 300;

#[test]
fn redis_is_shared() {
    let server = RedisServer::start();
    shared(&Store::new(server.url(), "77", None));
}

#[test]
fn postgresql_is_shared() {
    let server = PostgresServer::start();
    let database = server.new_database();
    shared(&Store::new(server.url(&database), "64", Some(server.administrator(&database))));
}

#[test]
fn mariadb_is_shared() {
    let server = MariaDbServer::start();
    let database = server.new_database();
    shared(&Store::new(server.url(&database), "64", Some(server.administrator(&database))));
}

#[test]
fn a_sqlite_file_is_shared() {
    let store = Store::new(String::new(), "77", None);
    let url = format!("sqlite:{}", store.path("queues.db").display());
    shared(&store.with_url(url));
}

/// All that two versions do on one store, from the older layout to the newer one.
fn shared(store: &Store) {
    // The older program creates what the store needs.
    store.push(OLDER, "shared", "first").expect_done();
    elements_pushed_by_either_are_done_by_either(store);
    headers_wait_for_the_end_of_older_workers(store);
    older_programs_can_do_nothing_afterwards(store);
    elements_without_headers_stay_usable(store);
}

/// In the layout 1, both push and work, and one of each is killed.
fn elements_pushed_by_either_are_done_by_either(store: &Store) {
    let names = |version: &str| (0..MANY).map(|number| format!("{version}-{number}")).collect::<Vec<_>>();
    let pushers =
        [(OLDER, "older"), (NEWER, "newer")].map(|(program, name)| store.push_lines(program, "shared", &names(name)));
    let mut workers = [OLDER, NEWER, OLDER, NEWER].map(|program| store.worker(program, "shared", "sleep 0.05"));
    pushers.into_iter().for_each(|pusher| pusher.wait().expect_done());
    eventually(Duration::from_secs(60), || store.lines("shared").len() > 50);
    workers[0].kill();
    workers[1].kill();
    let mut expected = [names("older"), names("newer"), vec!["first".to_owned()]].concat();
    expected.sort();
    eventually(Duration::from_secs(120), || {
        let mut done = store.lines("shared");
        done.sort();
        done.dedup();
        done == expected
    });
    // Only what a killed worker had may have come twice: at most the slots of both.
    assert!(store.lines("shared").len() <= expected.len() + 8, "{} deliveries", store.lines("shared").len());
    for worker in &mut workers[2..] {
        worker.stop();
    }
    for program in [OLDER, NEWER] {
        store.assert_empty(program, "shared");
    }
}

/// A push with headers is refused while a worker of the older version is registered. Then it stops the others.
fn headers_wait_for_the_end_of_older_workers(store: &Store) {
    for name in ["plain-older", "plain-newer"] {
        store.push(if name.ends_with("older") { OLDER } else { NEWER }, "raised", name).expect_done();
    }
    // A worker that is stopped while it has an element, and forgotten by the store.
    let mut frozen = store.worker(OLDER, "raised", "sleep 3");
    eventually(Duration::from_secs(30), || store.count(NEWER, "raised", "taken") > 0);
    let refused = store.push_with_header(NEWER, "raised", "with-header");
    assert_eq!(refused.code, 64, "{refused:?}");
    assert!(refused.stderr.contains("older version"), "{refused:?}");
    if let Some(operator) = &store.operator {
        let refused = store.run(NEWER, &["doctor", "--upgrade", "--url", operator]);
        assert!(refused.code != 0 && refused.stderr.contains("older version"), "{refused:?}");
    }
    frozen.signal(Signal::STOP);
    // A pusher that has opened the store before.
    let mut late = store.open_pusher(OLDER, "raised");
    late.write("early");
    eventually(Duration::from_secs(30), || store.count(NEWER, "raised", "ready") >= 1);
    sleep(REGISTERED);
    if let Some(operator) = &store.operator {
        let refused = store.push_with_header(NEWER, "raised", "with-header");
        assert!(refused.code == 64 && refused.stderr.contains("doctor --upgrade"), "{refused:?}");
        let upgraded = store.run(NEWER, &["doctor", "--upgrade", "--url", operator]);
        assert!(upgraded.stdout.contains("have the layout 2 now"), "{upgraded:?}");
        let again = store.run(NEWER, &["doctor", "--upgrade", "--url", operator]);
        assert!(again.stdout.contains("need no upgrade"), "{again:?}");
    }
    store.push_with_header(NEWER, "raised", "with-header").expect_done();
    frozen.signal(Signal::CONT);
    late.write("too-late");
    let late = late.close();
    assert_ne!(late.code, 0, "{late:?}");
    sleep(Duration::from_secs(5));
    frozen.kill();
}

/// Programs of the older version get an error. What they had comes again to newer ones, once.
fn older_programs_can_do_nothing_afterwards(store: &Store) {
    for refused in [
        store.push(OLDER, "raised", "refused"),
        store.push(OLDER, "raised", "refused again"),
        store.run(OLDER, &["queue", "raised", "pause"]),
        store.work(OLDER, "raised"),
        store.push(OLDER, "raised", "refused"),
    ] {
        assert_eq!(refused.code.to_string(), store.refusal, "{refused:?}");
    }
    store.work(NEWER, "raised").expect_done();
    eventually(Duration::from_secs(60), || {
        store.work(NEWER, "raised").expect_done();
        let mut done = store.lines("raised");
        done.sort();
        done.dedup();
        done == ["early", "plain-newer", "plain-older", "with-header {\"k\":\"v\"}"]
    });
    store.assert_empty(NEWER, "raised");
}

/// A queue without headers is as it was, if the layout is that of a queue.
fn elements_without_headers_stay_usable(store: &Store) {
    store.push(NEWER, "plain", "newer").expect_done();
    let older = store.push(OLDER, "plain", "older");
    assert_eq!(older.code == 0, store.url.starts_with("redis"), "{older:?}");
    store.work(NEWER, "plain").expect_done();
    assert!(store.lines("plain").contains(&"newer".to_owned()));
    if store.url.starts_with("redis") {
        // An empty queue goes back, and nothing of the newer layout stays.
        store.push(OLDER, "raised", "back").expect_done();
        store.work(OLDER, "raised").expect_done();
        assert!(store.lines("raised").contains(&"back".to_owned()));
    }
}

impl Program {
    fn expect_done(&self) {
        assert_eq!(self.code, 0, "{self:?}");
    }
}
