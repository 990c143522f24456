//! `bandog cached` over a real Redis server: hits, misses, refreshes, lost loaders, signals and large outputs.

use std::{
    fs, thread,
    time::{Duration, Instant},
};

use bandog::grid::{ClientGrid, codec::Bytes};
use bandog_testkit::{Process, RedisServer, Signal, eventually, is_alive};

use crate::{
    help::{Place, Ran, SOON, dead, ends},
    signals::is_catching,
};

/// The lease of a load, which is the time after which another caller takes over.
const LEASE: Duration = Duration::from_secs(10);

/// A server, and a directory.
struct Cached {
    redis: RedisServer,
    place: Place,
}

impl Cached {
    fn start() -> Self {
        Self { redis: RedisServer::start(), place: Place::new() }
    }

    fn words<'a>(url: &'a str, options: &'a str, script: &'a str) -> Vec<&'a str> {
        let options: Vec<_> = options.split_whitespace().collect();
        [&["--url", url, "cached", "k"], options.as_slice(), &["--", "sh", "-c", script]].concat()
    }

    /// Runs `bandog cached k` with these options and this script.
    fn run(&self, options: &str, script: &str) -> Ran {
        self.place.run(&Self::words(&self.redis.url(), options, script))
    }

    fn spawn(&self, options: &str, script: &str) -> Process {
        self.place.start(&Self::words(&self.redis.url(), options, script))
    }

    /// Starts a caller whose script writes its id into the file `pid`, and waits until it loads. Returns the id, too.
    fn load(&self, script: &str) -> (Process, u32) {
        let loader = self.spawn("--fresh 1h", script);
        let child = self.place.pid("pid");
        // On a loaded machine, the store can be so late that the script runs without the cache.
        assert!(self.has("cache-fill"), "the script runs without the cache");
        (loader, child)
    }

    #[track_caller]
    fn assert(&self, options: &str, script: &str, output: &str) {
        let ran = self.run(options, script);
        assert_eq!((ran.code, ran.stdout.as_str(), ran.stderr.as_str()), (0, output, ""), "{script}");
    }

    fn remove(&self) {
        self.place.run(&["--url", &self.redis.url(), "cached", "k", "--remove"]).assert_ended(0, &[]);
    }

    /// Whether there are keys `bandog:KIND:command:{PART}:k`.
    fn has(&self, kind: &str) -> bool {
        !self.redis.cmd(&["KEYS", &format!("bandog:{kind}:command:*:k")]).array().is_empty()
    }

    /// Stores an output, and waits until it is stale.
    fn make_stale(&self) {
        self.assert("--fresh 100ms --stale 1h", "echo old", "old\n");
        eventually(SOON, || !self.has("cache-fresh"));
    }
}

#[test]
fn the_output_comes_from_the_cache() {
    let cached = Cached::start();
    let script = "echo run >> runs; printf 'a\\0b\\n\\n'; echo oops >&2";
    let first = cached.run("--fresh 1h", script);
    assert_eq!((first.code, first.stdout.as_str(), first.stderr.as_str()), (0, "a\0b\n\n", "oops\n"));
    cached.assert("--fresh 1h", script, "a\0b\n\n");
    assert_eq!(cached.place.lines("runs").len(), 1);
    // Another cache, and an empty output.
    cached.assert("--fresh 1h --cache other", "echo run >> runs", "");
    cached.assert("--fresh 1h --cache other", "echo run >> runs", "");
    assert_eq!(cached.place.lines("runs").len(), 2);
    cached.remove();
    cached.assert("--fresh 1h", "echo new; cat", "new\n");
}

#[tokio::test]
async fn a_program_reads_the_output() {
    let cached = Cached::start();
    cached.assert("--fresh 1h", "printf output", "output");
    let grid = bandog::connect(cached.redis.url()).await.unwrap().grid();
    let outputs = grid.cache::<String, Vec<u8>>("command").unwrap().codec(Bytes);
    assert_eq!(outputs.get("k").await.unwrap().unwrap().as_slice(), b"output");
}

#[test]
fn callers_at_the_same_time_run_the_command_once() {
    let cached = Cached::start();
    thread::scope(|scope| {
        for _ in 0..20 {
            // If the machine is slow, no caller runs the command because it has waited for too long.
            scope.spawn(|| cached.assert("--fresh 1h --wait 5m", "echo run >> runs; sleep 0.5; echo out", "out\n"));
        }
    });
    assert_eq!(cached.place.lines("runs").len(), 1);
}

#[test]
fn a_stale_output_is_printed_at_once_and_replaced_in_the_background() {
    let cached = Cached::start();
    cached.make_stale();
    let script = "echo $PPID > refresher; while ! [ -e go ]; do sleep 0.02; done; echo new";
    let line = format!(
        "x=$('{}' --url {} cached k --fresh 1h --stale 1h -- sh -c '{script}'); echo \"got $x\"",
        env!("CARGO_BIN_EXE_bandog"),
        cached.redis.url()
    );
    // The refresh cannot end before the callers.
    for _ in 0..3 {
        assert_eq!(Ran::from(cached.place.command(&["sh", "-c", &line])).stdout, "got old\n");
    }
    let refresher = cached.place.pid("refresher");
    let stat = fs::read_to_string(format!("/proc/{refresher}/stat")).unwrap();
    let session = stat.rsplit_once(") ").unwrap().1.split(' ').nth(3).unwrap().to_owned();
    assert_eq!(session, refresher.to_string(), "it has a session of its own");
    for stream in 0..3 {
        let file = fs::read_link(format!("/proc/{refresher}/fd/{stream}")).unwrap();
        assert_eq!(file.to_str(), Some("/dev/null"));
    }
    cached.assert("--fresh 1h --stale 1h", script, "old\n");
    fs::write(cached.place.path("go"), "").unwrap();
    eventually(SOON, || cached.has("cache-fresh"));
    cached.assert("--fresh 1h", "exit 9", "new\n");
    eventually(SOON, || !is_alive(refresher));
    assert_eq!(cached.place.pid("refresher"), refresher, "one refresh ran");
}

#[test]
fn a_failed_refresh_keeps_the_output() {
    let cached = Cached::start();
    cached.make_stale();
    for tries in 1..=2 {
        cached.assert("--fresh 1h --stale 1h", "echo lost; echo try >> tries; exit 1", "old\n");
        eventually(SOON, || cached.place.lines("tries").len() == tries && !cached.has("cache-fill"));
    }
    cached.assert("--fresh 1h --stale 1h", "echo new", "old\n");
    eventually(SOON, || cached.has("cache-fresh"));
    cached.assert("--fresh 1h", "exit 9", "new\n");
}

#[test]
fn a_failure_is_not_stored_and_has_the_code_of_the_command() {
    let cached = Cached::start();
    for (script, code) in [("exit 4", 4), ("kill -9 $$", 137)] {
        let ran = cached.run("--fresh 1h", &format!("echo out; echo err >&2; {script}"));
        assert_eq!((ran.code, ran.stdout.as_str(), ran.stderr.as_str()), (code, "out\n", "err\n"));
    }
    let url = cached.redis.url();
    let run = |program| cached.place.run(&["cached", "k", "--url", &url, "--fresh", "1h", "--", program]);
    run("./nowhere").assert_ended(127, &["cannot run \"./nowhere\""]);
    run("/").assert_ended(126, &["cannot run \"/\""]);
    assert!(!cached.has("cache") && !cached.has("cache-fill"));
}

#[test]
fn a_known_absence_is_cached() {
    let cached = Cached::start();
    let absent = |options: &str| {
        let ran = cached.run(options, "echo run >> runs; echo no such user; exit 3");
        assert_eq!((ran.code, ran.stdout.as_str(), ran.stderr.as_str()), (3, "", ""));
        cached.place.lines("runs").len()
    };
    assert_eq!(absent("--fresh 1h --none-on 3 --none 1h"), 1);
    assert_eq!(absent("--fresh 1h --none-on 3"), 1);
    // For this caller, the code is a failure.
    let ran = cached.run("--fresh 1h", "echo no; exit 3");
    assert_eq!((ran.code, ran.stdout.as_str()), (3, "no\n"));
    cached.remove();
    let ran = cached.run("--fresh 1h --none-on 3", "echo no; exit 4");
    assert_eq!((ran.code, ran.stdout.as_str()), (4, "no\n"));
    assert_eq!(absent("--fresh 1h --none-on 3 --none 100ms"), 2);
    eventually(SOON, || absent("--fresh 1h --none-on 3 --none 100ms") > 2);
}

#[test]
fn a_killed_loader_costs_a_waiter_its_wait() {
    let cached = Cached::start();
    let (loader, child) = cached.load("echo $$ > pid; sleep 1000");
    loader.kill();
    let start = Instant::now();
    cached.assert("--fresh 1h --wait 200ms", "echo own", "own\n");
    assert!(start.elapsed() < LEASE, "{:?}", start.elapsed());
    assert!(!cached.has("cache"), "it was not the turn of the waiter");
    eventually(SOON, || !is_alive(child));
    cached.assert("--fresh 1h --wait 5m", "echo new", "new\n");
    cached.assert("--fresh 1h", "exit 9", "new\n");
}

#[test]
fn a_loader_that_continues_does_not_overwrite_a_newer_output() {
    let cached = Cached::start();
    let (mut loader, child) = cached.load("echo $$ > pid; while ! [ -e go ]; do sleep 0.02; done; echo old");
    loader.stop();
    cached.assert("--fresh 1h --wait 5m", "echo new", "new\n");
    fs::write(cached.place.path("go"), "").unwrap();
    eventually(SOON, || !is_alive(child));
    loader.cont();
    ends(&mut loader, 0);
    assert_eq!(loader.stdout(), ["old"]);
    cached.assert("--fresh 1h", "exit 9", "new\n");
}

#[test]
fn a_removal_ends_a_load_that_runs() {
    let cached = Cached::start();
    let (mut loader, _) = cached.load("echo $$ > pid; while ! [ -e go ]; do sleep 0.02; done; echo old");
    cached.remove();
    cached.assert("--fresh 1h --wait 5m", "echo new", "new\n");
    fs::write(cached.place.path("go"), "").unwrap();
    ends(&mut loader, 0);
    assert_eq!(loader.stdout(), ["old"]);
    cached.assert("--fresh 1h", "exit 9", "new\n");
}

#[test]
fn without_the_store_the_command_runs() {
    let cached = Cached::start();
    cached.assert("--fresh 1h", "echo stored", "stored\n");
    let says = |ran: Ran, code: i32, output: &str| {
        ran.assert_ended(code, &["; running without the cache\n"]);
        assert_eq!((ran.stdout.as_str(), ran.stderr.lines().count()), (output, 1), "{ran:?}");
    };
    cached.redis.pause();
    says(cached.run("--fresh 1h", "echo own"), 0, "own\n");
    cached.redis.resume();
    cached.redis.kill();
    says(cached.run("--fresh 1h", "echo own; exit 5"), 5, "own\n");
    says(cached.run("--fresh 1h --none-on 3", "echo own; exit 3"), 3, "");
    let remove = cached.place.run(&["--url", &cached.redis.url(), "cached", "k", "--remove"]);
    remove.assert_ended(69, &["may still be in the cache"]);
}

#[test]
fn a_store_without_caches_and_a_wrong_line_are_refused() {
    let place = Place::new();
    for (line, reason) in [
        ("k --fresh 1m -- touch ran", "has no maps, queues and other objects"),
        ("k --fresh 1m --url memory: -- touch ran", "exists in one process only"),
        ("k -- touch ran", "--fresh"),
        ("k --fresh 1m", "<CMD>"),
        ("k --fresh 0s -- touch ran", "between 100ms and 365d"),
        ("k --fresh 1m --none 1m -- touch ran", "--none-on"),
        ("k --fresh 1m --none-on 0 -- touch ran", "0 is not in 1..=255"),
        ("k --remove -- touch ran", "cannot be used with"),
        ("k --remove --fresh 1m", "cannot be used with"),
    ] {
        let words: Vec<_> = ["cached"].into_iter().chain(line.split(' ')).collect();
        place.run(&words).assert_ended(64, &[reason]);
    }
    for key in ["", " "] {
        let lock = place.run(&["lock", key, "--", "true"]);
        let cached = place.run(&["cached", key, "--url", "redis://localhost:1", "--fresh", "1m", "--", "touch", "ran"]);
        assert_eq!((cached.code, lock.code), (64, 64), "{key:?}: {cached:?} {lock:?}");
    }
    assert!(!place.path("ran").exists());
}

#[test]
fn a_signal_reaches_the_command_and_nothing_is_left() {
    let cached = Cached::start();
    for (signal, code) in [(Signal::TERM, 143), (Signal::INT, 130), (Signal::HUP, 129)] {
        let (mut loader, child) = cached.load("echo $$ > pid; exec sleep 1000");
        let mut waiter = cached.spawn("--fresh 1h --wait 5m", "touch ran");
        // Bandog installs the handler of this signal last.
        eventually(SOON, || is_catching(waiter.pid(), Signal::TTOU));
        waiter.signal(signal);
        ends(&mut waiter, code);
        assert!(cached.has("cache-fill"), "the load still runs");
        loader.signal(signal);
        ends(&mut loader, code);
        dead(&[child]);
        assert!(!cached.has("cache-fill") && !cached.has("cache"));
        fs::remove_file(cached.place.path("pid")).unwrap();
    }
    assert!(!cached.place.path("ran").exists());
    // The output of a command that a signal has ended may be incomplete.
    let script = "trap 'echo part; exit 0' TERM; echo $$ > pid; while :; do sleep 0.02; done";
    let (mut loader, _) = cached.load(script);
    loader.term();
    ends(&mut loader, 0);
    assert_eq!(loader.stdout(), ["part"]);
    assert!(!cached.has("cache-fill") && !cached.has("cache"));
}

#[test]
fn a_large_output_is_printed_and_not_stored() {
    let cached = Cached::start();
    let script = |bytes: u32| format!("echo run >> runs; head -c {bytes} /dev/zero | tr '\\0' x");
    let most = 512 * 1024;
    for (bytes, runs) in [(most, 1), (most, 1)] {
        let ran = cached.run("--fresh 1h", &script(bytes));
        assert_eq!((ran.code, ran.stdout.len(), ran.stderr.as_str()), (0, 524_288, ""));
        assert_eq!(cached.place.lines("runs").len(), runs);
    }
    cached.remove();
    for runs in 2..=3 {
        let ran = cached.run("--fresh 1h", &script(most + 1));
        assert_eq!((ran.code, ran.stdout.len(), ran.stderr.matches("not stored").count()), (0, 524_289, 1));
        assert_eq!(cached.place.lines("runs").len(), runs);
    }
    let ran = cached.run("--fresh 1h", &format!("{}; exit 6", script(3_000_000)));
    assert_eq!((ran.code, ran.stdout.len()), (6, 3_000_000));
    // A reader that has enough ends the command.
    let line = format!(
        "'{}' --url {} cached k --fresh 1h -- yes | head -n 1",
        env!("CARGO_BIN_EXE_bandog"),
        cached.redis.url()
    );
    assert_eq!(Ran::from(cached.place.command(&["sh", "-c", &line])).stdout, "y\n");
}

/// It is not the newest output any more.
#[test]
fn a_stale_output_is_removed_if_the_next_one_is_too_large() {
    let cached = Cached::start();
    cached.make_stale();
    let large = "head -c 600000 /dev/zero | tr '\\0' x";
    // A command that fails changes nothing.
    cached.assert("--fresh 1h --stale 1h", &format!("{large}; touch ran; exit 1"), "old\n");
    eventually(SOON, || cached.place.path("ran").exists() && !cached.has("cache-fill"));
    assert!(cached.has("cache"));
    cached.assert("--fresh 1h --stale 1h", large, "old\n");
    eventually(SOON, || !cached.has("cache"));
    let ran = cached.run("--fresh 1h --stale 1h", large);
    assert_eq!((ran.code, ran.stdout.len()), (0, 600_000));
}

#[test]
fn a_background_process_of_the_command_does_not_delay_the_output() {
    let cached = Cached::start();
    cached.assert("--fresh 1h", "sleep 1000 2>/dev/null & echo $! > pid; echo out", "out\n");
    assert!(is_alive(cached.place.pid("pid")));
    cached.assert("--fresh 1h", "exit 9", "out\n");
}
