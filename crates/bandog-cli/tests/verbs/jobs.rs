//! Tests of `bandog jobs` over any store, while a scheduler runs in another process.

use std::{
    fs,
    sync::LazyLock,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use bandog::backend::{Records, Swap};
use bandog_testkit::{Process, eventually};
use serde_json::Value;

use crate::{
    help::{Place, Ran, SOON, ends},
    store::Store,
};

/// Timeout for a node to notice a change. Nodes poll for changes once a second.
const NOTICE: Duration = Duration::from_secs(2);

/// The hour of the daily ticks, in UTC and in Berlin. The next of these hours begins at least six hours from now, so no
/// job with a daily tick fires during a test.
static HOUR: LazyLock<u64> = LazyLock::new(|| {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() / 3600 % 24;
    if (6..18).contains(&now) { 2 } else { 14 }
});

/// The jobs of all tests. `HOUR` is replaced by [`HOUR`].
const JOBS: &str = r#"
[pool]
size = 8

[[job]]
name = "daily"
cron = "0 0 HOUR * * ?"
zone = "Europe/Berlin"
command = "echo run >> daily; echo noted"

[[job]]
name = "often"
cron = "* * * * * ?"
command = "echo $BANDOG_TICK >> often"

[[job]]
name = "long"
cron = "0 0 HOUR * * ?"
command = "echo begun >> long; until [ -e go ]; do sleep 0.02; done"

[[job]]
name = "bad"
cron = "0 0 HOUR * * ?"
command = "exit 3"

[[job]]
name = "off"
cron = "* * * * * ?"
enabled = false
command = "echo run >> off"
"#;

/// A store and a scheduler that runs [`JOBS`] over it.
struct Site<'a> {
    place: &'a Place,
    url: &'a str,
    scheduler: Process,
}

impl<'a> Site<'a> {
    fn new(place: &'a Place, url: &'a str) -> Self {
        fs::write(place.path("jobs.toml"), JOBS.replace("HOUR", &HOUR.to_string())).unwrap();
        let scheduler = scheduler(place, url);
        Self { place, url, scheduler }
    }

    /// `bandog jobs ARGS`.
    fn jobs(&self, args: &[&str]) -> Ran {
        jobs(self.place, self.url, args)
    }

    /// Runs `bandog jobs ARGS --json`, asserts that it succeeds, and returns its output.
    #[track_caller]
    fn json(&self, args: &[&str]) -> Value {
        let ran = self.jobs(&[args, &["--json"]].concat());
        assert_eq!(ran.code, 0, "{ran:?}");
        serde_json::from_str(&ran.stdout).unwrap()
    }

    #[track_caller]
    fn show(&self, name: &str) -> Value {
        self.json(&["show", name])
    }
}

fn scheduler(place: &Place, url: &str) -> Process {
    let scheduler = place.start(&["schedule", "jobs.toml", "--url", url]);
    scheduler.stderr_line("started", SOON);
    scheduler
}

fn jobs(place: &Place, url: &str, args: &[&str]) -> Ran {
    place.run(&[&["jobs"], args, &["--url", url]].concat())
}

#[track_caller]
fn fields(value: &Value) -> Vec<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}

/// The JSON fields of a run.
const RUN: [&str; 19] = [
    "attempt",
    "cancelling",
    "due",
    "ended",
    "error",
    "fence",
    "from",
    "id",
    "job",
    "kind",
    "lag_ms",
    "node",
    "note",
    "orphaned",
    "retried",
    "started",
    "state",
    "tick",
    "ticks",
];

#[test]
fn ls_and_show_print_each_job() {
    let store = Store::start();
    let (place, url) = store.place_and_url();
    let site = Site::new(place, url);
    let list = site.json(&["ls"]);
    let names: Vec<&str> = list.as_array().unwrap().iter().map(|job| job["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["bad", "daily", "long", "off", "often"]);
    let daily = &list[1];
    assert_eq!(
        fields(daily),
        [
            "all_paused",
            "cancelled",
            "catch_up",
            "description",
            "enabled",
            "failed",
            "last",
            "lease_ms",
            "live",
            "lost",
            "missed",
            "name",
            "next",
            "ok",
            "on_crash",
            "overlap",
            "paused",
            "presence",
            "queued",
            "rests_until",
            "skipped",
            "trigger",
            "unknown_since",
            "watermark",
            "zone"
        ]
    );
    let hour = *HOUR;
    let trigger = format!("cron 0 0 {hour} * * ?");
    assert_eq!((&daily["trigger"], &daily["zone"]), (&trigger.as_str().into(), &"Europe/Berlin".into()));
    assert_eq!((&daily["enabled"], &list[3]["enabled"], &list[3]["next"]), (&true.into(), &false.into(), &Value::Null));
    assert_eq!(site.json(&["ls", "o*"]).as_array().unwrap().len(), 2);
    assert_eq!(site.json(&["ls", "nothing*"]), Value::Array(Vec::new()));

    site.jobs(&["run", "daily", "--wait"]).assert_ended(0, &[]);
    let daily = site.show("daily");
    assert_eq!(fields(&daily["last"]), RUN);
    assert_eq!((&daily["last"]["state"], &daily["last"]["kind"]), (&"ok".into(), &"manual".into()));
    let upcoming = daily["upcoming"].as_array().unwrap();
    assert_eq!((upcoming.len(), fields(&upcoming[0])), (5, vec!["due", "job", "tick"]));
    assert_eq!(upcoming[0]["tick"], daily["next"]);
    let node = &daily["nodes"][0];
    assert!(node["node"].as_str().unwrap().ends_with(&format!(":{}", site.scheduler.pid())), "{node}");

    let table = site.jobs(&["ls"]).stdout;
    let tick = format!("T{hour:02}:00:00+0");
    for words in ["1 scheduler runs: ", "NAME ", "FIRES ", &trigger, "Europe/Berlin", &tick, "disabled"] {
        assert!(table.contains(words), "{words}: {table}");
    }
    let one = site.jobs(&["show", "daily"]).stdout;
    let fires = format!("At {hour:02}:00, every day");
    for words in [&fires, "overlap skip, catch_up once, on_crash abandon, lease 30s", "1 ok", "idle"] {
        assert!(one.contains(words), "{words}: {one}");
    }
}

#[test]
fn run_runs_a_job_in_addition_to_its_ticks() {
    let store = Store::start();
    let (place, url) = store.place_and_url();
    let site = Site::new(place, url);
    let began = Instant::now();
    let ran = site.jobs(&["run", "daily"]);
    assert_eq!((ran.code, ran.stdout.as_str(), ran.stderr.as_str()), (0, "1\n", ""));
    assert_eq!(place.written("daily"), "run");
    assert!(began.elapsed() < NOTICE * 3, "the run started only after {:?}", began.elapsed());

    let ran = site.jobs(&["run", "daily", "--wait", "--json"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let run: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(fields(&run), RUN);
    assert_eq!((&run["id"], &run["state"], &run["note"]), (&2.into(), &"ok".into(), &"noted".into()));

    site.jobs(&["run", "bad", "--wait"]).assert_ended(1, &["run 1 of \"bad\" ended failed", "exit code 3"]);
    // A disabled job can be run, too.
    site.jobs(&["run", "off", "--wait"]).assert_ended(0, &["ended ok"]);
    assert_eq!(place.lines("off"), ["run"]);

    let late = site.jobs(&["run", "long", "--wait", "--timeout", "3s"]);
    late.assert_ended(75, &["run 1 of \"long\" has not ended within 3s: it runs on "]);
    let queued = site.json(&["run", "long"]);
    assert_eq!((&queued["id"], &queued["state"]), (&2.into(), &"queued".into()));
    let row = site.show("long");
    assert_eq!((&row["queued"], &row["live"][0]["state"]), (&1.into(), &"running".into()));
    fs::write(place.path("go"), "").unwrap();
    eventually(SOON, || site.show("long")["ok"] == 2);
}

/// Waits until the next second begins. After that, a job that fires every second has had a tick.
fn wait_for_next_second() {
    let second = || SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
    let now = second();
    eventually(SOON, || second() > now);
}

#[test]
fn ticks_do_not_run_between_pause_and_resume() {
    let store = Store::start();
    let (place, url) = store.place_and_url();
    let mut site = Site::new(place, url);
    eventually(SOON, || !place.lines("often").is_empty());
    let ran = site.jobs(&["pause", "often", "--reason", "the moon"]);
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""));
    assert!(ran.stdout.starts_with("paused \"often\""), "{ran:?}");
    let row = site.show("often");
    assert_eq!((&row["paused"]["reason"], &row["next"]), (&"the moon".into(), &Value::Null));
    assert!(row["paused"]["by"].as_str().unwrap().contains('@'), "{row}");
    assert!(site.jobs(&["ls"]).stdout.contains(": the moon"), "the table does not show the reason");
    // A requested run starts after all claimed ticks, so after its end no tick is in progress.
    site.jobs(&["run", "often", "--wait"]).assert_ended(0, &[]);
    let before = place.lines("often");
    site.jobs(&["run", "often", "--wait"]).assert_ended(0, &[]);
    assert_eq!(place.lines("often").len(), before.len() + 1, "a paused job ran without a request");

    site.jobs(&["pause", "often", "--reason", "again"]).assert_ended(0, &["it was paused before, by ", ": the moon"]);
    wait_for_next_second();
    let row = site.json(&["resume", "often"]);
    assert_eq!(row["paused"], Value::Null);
    assert!(row["skipped"].as_u64().unwrap() > 0, "{row}");
    let ran = place.lines("often").len();
    eventually(SOON, || place.lines("often").len() > ran);
    let again = site.jobs(&["resume", "often"]);
    assert_eq!((again.code, again.stdout.as_str()), (0, "\"often\" was not paused\n"));
    assert!(site.jobs(&["pause", "off", "--reason", "x"]).stdout.contains("its declaration disables it"));
    site.scheduler.term();
    ends(&mut site.scheduler, 0);
}

#[test]
fn requests_without_a_scheduler_warn() {
    let store = Store::start();
    let (place, url) = store.place_and_url();
    let mut site = Site::new(place, url);
    site.jobs(&["ls"]).assert_ended(0, &[]);
    site.scheduler.term();
    ends(&mut site.scheduler, 0);
    assert!(site.jobs(&["ls"]).stdout.contains("no scheduler runs over it now"));
    site.jobs(&["ls", "--json"]).assert_ended(0, &["no scheduler runs over this store now"]);
    assert!(site.jobs(&["show", "daily"]).stdout.contains("no scheduler runs over it now"));
    assert_eq!(site.show("daily")["nodes"], Value::Array(Vec::new()));
    site.jobs(&["next"]).assert_ended(0, &["no scheduler runs"]);
    site.jobs(&["pause", "often", "--reason", "x"])
        .assert_ended(0, &["no scheduler runs", "the pause applies to schedulers that start later"]);
    site.jobs(&["resume", "often"]).assert_ended(0, &["no scheduler runs"]);
    let ran = site.jobs(&["run", "daily"]);
    ran.assert_ended(0, &["no scheduler runs over this store now: run 1 of \"daily\" waits until a scheduler"]);
    let late = site.jobs(&["run", "daily", "--wait", "--timeout", "100ms"]);
    late.assert_ended(75, &["no scheduler runs", "run 2 of \"daily\" has not ended within 100ms: it waits for a node"]);
    let unserved = site.jobs(&["run", "daily", "--wait"]);
    unserved.assert_ended(69, &["no scheduler runs over ", "run 3 of \"daily\" waits", "bandog jobs cancel daily 3"]);
    // The store has kept the runs for the next scheduler.
    site.scheduler = scheduler(place, url);
    eventually(SOON, || place.lines("daily").len() == 3);
}

#[test]
fn bad_arguments_are_refused() {
    let store = Store::start();
    let (place, url) = store.place_and_url();
    let site = Site::new(place, url);
    for verb in [&["show", "dialy"][..], &["run", "dialy"], &["next", "dialy"], &["resume", "dialy"]] {
        site.jobs(verb).assert_ended(64, &["knows no job \"dialy\"", "did you mean \"daily\"?"]);
    }
    site.jobs(&["show", "quite another"])
        .assert_ended(64, &["it knows \"bad\", \"daily\", \"long\", \"off\", \"often\""]);
    site.jobs(&["show", "a\u{1}b"]).assert_ended(64, &[]);
    site.jobs(&["show", &"x".repeat(300)]).assert_ended(64, &[]);
    site.jobs(&["pause", "daily"]).assert_ended(64, &["--reason"]);
    site.jobs(&["pause", "daily", "--reason", " "]).assert_ended(64, &["a reason is required"]);
    site.jobs(&["run", "daily", "--timeout", "1s"]).assert_ended(64, &["--wait"]);
    site.jobs(&["run", "daily", "--wait", "--timeout", "soon"]).assert_ended(64, &["500ms"]);
    site.jobs(&["next", "--count", "-1"]).assert_ended(64, &[]);
    site.jobs(&["dance"]).assert_ended(64, &["dance"]);
    site.jobs(&["reset", "daily"]).assert_ended(64, &["--reason"]);
    site.jobs(&["reset", "dialy", "--reason", "x"]).assert_ended(64, &["did you mean"]);
    site.jobs(&["reset", "daily", "--reason", "x"])
        .assert_ended(64, &["does not lie after the store's time", "nothing to set back"]);
}

#[test]
fn next_prints_the_ticks_in_the_order_of_time() {
    let store = Store::start();
    let (place, url) = store.place_and_url();
    let site = Site::new(place, url);
    let fires = site.json(&["next", "--count", "40"]);
    let fires = fires.as_array().unwrap();
    assert_eq!((fires.len(), fields(&fires[0])), (40, vec!["due", "job", "tick"]));
    let ticks: Vec<&str> = fires.iter().map(|fire| fire["tick"].as_str().unwrap()).collect();
    assert!(ticks.is_sorted(), "{ticks:?}");
    assert!(
        fires.iter().all(|fire| fire["job"] == "often"),
        "a job that fires hours later, or is disabled, is listed: {fires:?}"
    );
    let two = site.json(&["next", "[a-z]*", "--count", "2"]);
    assert_eq!(two, Value::Array(Vec::new()), "brackets have a special meaning in the pattern");
    let daily = site.jobs(&["next", "daily", "--count", "2"]);
    let lines: Vec<&str> = daily.stdout.lines().collect();
    assert!(
        lines[0].starts_with("NEXT ")
            && lines[1].contains(&format!("T{:02}:00:00+0", *HOUR))
            && lines[1].ends_with("daily"),
        "{daily:?}"
    );
    assert_eq!(lines.len(), 3);
    assert_eq!(site.jobs(&["next", "off"]).stdout, "no tick follows\n");
    assert_eq!(site.json(&["next", "--count", "0"]), Value::Array(Vec::new()));
}

#[test]
fn history_prints_the_outcomes_of_runs() {
    let store = Store::start();
    let (place, url) = store.place_and_url();
    let site = Site::new(place, url);
    site.jobs(&["run", "bad", "--wait"]).assert_ended(1, &[]);
    site.jobs(&["run", "bad", "--wait"]).assert_ended(1, &[]);
    site.jobs(&["run", "daily", "--wait"]).assert_ended(0, &[]);
    let bad = site.json(&["history", "bad"]);
    let ids: Vec<&Value> = bad.as_array().unwrap().iter().map(|run| &run["id"]).collect();
    assert_eq!(ids, [2, 1], "the latest run is not the first row");
    assert_eq!(fields(&bad[0]), RUN);
    assert_eq!((&bad[0]["state"], &bad[0]["error"]), (&"failed".into(), &"exit code 3".into()));
    assert!(bad[0]["lag_ms"].is_u64() && bad[0]["node"].is_string() && bad[0]["fence"].is_u64(), "{bad}");
    assert_eq!(site.json(&["history", "bad", "--limit", "1"]).as_array().unwrap().len(), 1);
    assert_eq!(site.json(&["history", "bad", "--state", "ok"]), Value::Array(Vec::new()));
    assert_eq!(site.json(&["history", "bad", "--state", "ok", "--state", "failed"]).as_array().unwrap().len(), 2);
    let table = site.jobs(&["history", "bad"]).stdout;
    for words in ["RUN  TICK ", "manual", "failed", "\n  error: exit code 3\n"] {
        assert!(table.contains(words), "{words}: {table}");
    }
    assert!(site.jobs(&["history", "daily"]).stdout.contains("\n  | noted\n"));
    assert!(site.jobs(&["history", "long"]).stdout.contains("has no such run"));
    site.jobs(&["history", "bad", "--state", "gone"]).assert_ended(64, &["timed_out"]);
}

#[test]
fn cancel_ends_runs_that_wait_or_run() {
    let store = Store::start();
    let (place, url) = store.place_and_url();
    let site = Site::new(place, url);
    site.jobs(&["run", "long"]).assert_ended(0, &[]);
    assert_eq!(place.written("long"), "begun");
    for _ in 2..=4 {
        site.jobs(&["run", "long"]).assert_ended(0, &[]);
    }
    let one = site.json(&["cancel", "long", "3"]);
    assert_eq!((&one[0]["id"], &one[0]["state"]), (&3.into(), &"cancelled".into()));
    site.jobs(&["cancel", "long", "3"]).assert_ended(75, &["run 3 of \"long\" neither waits nor runs"]);
    let began = Instant::now();
    let rest = site.jobs(&["cancel", "long"]);
    assert_eq!((rest.code, rest.stdout.as_str()), (0, "cancelled runs 1, 2, 4 of \"long\"\n"), "{rest:?}");
    eventually(SOON, || site.show("long")["live"] == Value::Array(Vec::new()));
    assert!(began.elapsed() < NOTICE * 3, "the run ended only after {:?}", began.elapsed());
    let states = site.json(&["history", "long"]);
    assert!(states.as_array().unwrap().iter().all(|run| run["state"] == "cancelled"), "{states}");
    assert_eq!(states.as_array().unwrap().len(), 4);
    site.jobs(&["cancel", "long"]).assert_ended(75, &["no run of \"long\" waits or runs"]);
    site.jobs(&["cancel", "long", "0"]).assert_ended(64, &[]);
}

#[test]
fn backfill_runs_ticks_of_the_past() {
    let store = Store::start();
    let (place, url) = store.place_and_url();
    let site = Site::new(place, url);
    let ticks = [10, 11, 12].map(|day| format!("2026-01-{day}T{:02}:00:00Z", *HOUR - 1));
    let range = ["--from", &ticks[0], "--to", &format!("2026-01-12T{:02}:00:00+01:00", *HOUR)];
    let dry = site.jobs(&[&["backfill", "daily", "--dry-run"], &range[..]].concat());
    assert_eq!(
        (dry.code, dry.stdout),
        (0, ticks.join("\n") + "\n"),
        "the ticks at both ends of the range must be included"
    );
    assert_eq!(site.json(&["history", "daily"]), Value::Array(Vec::new()), "a tick of the dry run has run");
    let done = site.jobs(&[&["backfill", "daily"], &range[..]].concat());
    assert_eq!((done.code, done.stdout.as_str()), (0, "3\n"), "{done:?}");
    eventually(SOON, || site.show("daily")["ok"] == 3);
    let runs = site.json(&["history", "daily"]);
    let ran: Vec<_> = runs.as_array().unwrap().iter().rev().map(|run| (&run["tick"], &run["kind"])).collect();
    let kind = Value::from("backfill");
    assert_eq!(ran, ticks.clone().map(Value::from).iter().map(|tick| (tick, &kind)).collect::<Vec<_>>());
    let json = site.json(&[&["backfill", "daily", "--dry-run"], &range[..]].concat());
    assert_eq!(fields(&json), ["count", "dry_run", "job", "ticks"]);
    let refused = |from: &str, to: &str, words: &str| {
        site.jobs(&["backfill", "often", "--from", from, "--to", to]).assert_ended(64, &[words]);
    };
    refused("2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z", "more than 10000 ticks");
    refused("2026-01-01T00:00:00Z", "2999-01-02T00:00:00Z", "is in the future");
    refused("2026-01-02T00:00:00Z", "2026-01-01T00:00:00Z", "begins at 2026-01-02T00:00:00Z, after its end");
    refused("2026-01-01T00:00:00.1Z", "2026-01-01T00:00:00.9Z", "has no tick from");
    refused("yesterday", "2026-01-01T00:00:00Z", "yesterday");
}

#[test]
fn forget_removes_a_job() {
    let store = Store::start();
    let (place, url) = store.place_and_url();
    let mut site = Site::new(place, url);
    site.jobs(&["run", "long"]).assert_ended(0, &[]);
    assert_eq!(place.written("long"), "begun");
    site.jobs(&["forget", "long"]).assert_ended(64, &["--yes"]);
    site.jobs(&["forget", "long", "--yes"]).assert_ended(64, &["runs now; cancel it first"]);
    site.jobs(&["forget"]).assert_ended(64, &["NAME"]);
    site.jobs(&["forget", "long", "--unknown"]).assert_ended(64, &["cannot be used with"]);
    site.jobs(&["forget", "--unknown", "--older", "1d", "--yes"]).assert_ended(64, &["after 2 days at the earliest"]);
    assert!(site.jobs(&["forget", "--unknown"]).stdout.starts_with("no job has been unknown for 14days"));
    assert_eq!(site.json(&["forget", "--unknown", "--yes"]), Value::Array(Vec::new()));
    let off = site.json(&["forget", "off", "--yes"]);
    assert_eq!((&off["job"], &off["forgotten"]), (&"off".into(), &true.into()));
    site.jobs(&["show", "off"]).assert_ended(64, &["knows no job"]);
    site.jobs(&["forget", "daily", "--yes"])
        .assert_ended(0, &["one that still has \"daily\" registers it again at its next tick"]);
    fs::write(place.path("go"), "").unwrap();
    site.scheduler.term();
    ends(&mut site.scheduler, 0);
    site.scheduler = scheduler(place, url);
    assert_eq!(site.show("off")["ok"], 0, "the scheduler has not registered the job as a new job");
}

#[test]
fn a_run_whose_node_was_killed_is_marked() {
    let store = Store::start();
    let (place, url) = store.place_and_url();
    // The node is killed. A node that lives renews its lease also on a slow machine.
    let url = &format!("{url}?watchdog=4s");
    let mut site = Site::new(place, url);
    site.jobs(&["run", "long"]).assert_ended(0, &[]);
    assert_eq!(place.written("long"), "begun");
    assert_eq!(site.show("long")["live"][0]["orphaned"], false);
    site.scheduler.kill();
    site.scheduler.wait(SOON);
    eventually(SOON, || site.show("long")["live"][0]["orphaned"] == true);
    assert!(site.jobs(&["ls"]).stdout.contains("left behind by "));
    assert!(site.jobs(&["history", "long"]).stdout.contains("its node is dead"));
    site.jobs(&["forget", "long", "--yes"]).assert_ended(0, &[]);
    site.jobs(&["show", "long"]).assert_ended(64, &["knows no job"]);
}

/// Changes a time in a job's record by this number of days.
fn shift(url: &str, name: &str, field: &str, days: i64) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let client = bandog::connect(url).await.unwrap();
        let key = bandog::Key::new(format!("job/{name}")).unwrap();
        let reading = client.records().read(std::slice::from_ref(&key), &[]).await.unwrap();
        let record = reading.records.into_iter().next().unwrap().unwrap().unwrap();
        let mut state: Value = serde_json::from_str(&record.value).unwrap();
        state[field] = (state[field].as_i64().unwrap() + days * 86_400_000).into();
        let swap = Swap::new(key, Some(record.version), state.to_string());
        client.records().swap(&[swap]).await.unwrap();
    });
}

#[test]
fn reset_resumes_a_job_that_was_claimed_ahead_of_time() {
    let store = Store::start();
    let (place, url) = store.place_and_url();
    let mut site = Site::new(place, url);
    eventually(SOON, || !place.lines("often").is_empty());
    site.scheduler.term();
    ends(&mut site.scheduler, 0);
    // This has the same effect as a store's clock that was ahead by a year at the last claim.
    shift(url, "often", "watermark", 365);
    site.scheduler = place.start(&["schedule", "jobs.toml", "--url", url]);
    site.scheduler.stderr_line("`bandog jobs reset` ends this", SOON);
    let row = site.show("often");
    assert_eq!(row["rests_until"], row["watermark"]);
    assert!(site.jobs(&["ls"]).stdout.contains(": see `bandog jobs reset`"));
    let ran = place.lines("often").len();
    let reset = site.jobs(&["reset", "often", "--reason", "a bad quartz"]);
    assert!(reset.code == 0 && reset.stdout.starts_with("\"often\" continues from "), "{reset:?}");
    eventually(SOON, || place.lines("often").len() > ran);
    let line = &site.json(&["history", "often", "--state", "reset"])[0];
    assert!(line["note"].as_str().unwrap().ends_with(": a bad quartz"), "{line}");
    assert!(site.jobs(&["history", "often", "--state", "reset"]).stdout.contains(" set it back from "));
    assert_eq!(site.show("often")["rests_until"], Value::Null);
}

#[test]
fn all_jobs_that_rest_are_reset_by_one_command() {
    let store = Store::start();
    let (place, url) = store.place_and_url();
    let mut site = Site::new(place, url);
    site.jobs(&["reset", "--all"]).assert_ended(64, &["--reason"]);
    site.jobs(&["reset", "daily", "--all", "--reason", "x"]).assert_ended(64, &["cannot be used with"]);
    assert_eq!(site.jobs(&["reset", "--all", "--reason", "x"]).stdout, "no job rests\n");
    assert_eq!(site.json(&["reset", "--all", "--reason", "x"]), Value::Array(Vec::new()));
    site.scheduler.term();
    ends(&mut site.scheduler, 0);
    for name in ["often", "daily"] {
        shift(url, name, "watermark", 365);
    }
    let ran = site.jobs(&["reset", "--all", "--reason", "a bad quartz"]);
    ran.assert_ended(
        64,
        &["--yes sets back the watermarks of daily (rests until 20", "often (rests until 20", "cannot be confirmed"],
    );
    let done = site.json(&["reset", "--all", "--yes", "--reason", "a bad quartz"]);
    let of = |nth: usize| (done[nth]["job"].clone(), done[nth]["reset"].clone());
    assert_eq!((of(0), of(1)), (("daily".into(), true.into()), ("often".into(), true.into())), "{done}");
    assert!(done.as_array().unwrap().len() == 2 && done[0]["rested_until"].is_string(), "{done}");
    for name in ["often", "daily"] {
        assert_eq!(site.show(name)["rests_until"], Value::Null);
        assert_eq!(site.json(&["history", name, "--state", "reset"]).as_array().unwrap().len(), 1);
    }
    shift(url, "daily", "watermark", 365);
    let ran = site.jobs(&["reset", "--all", "--yes", "--reason", "again"]);
    assert!(ran.stdout.starts_with("\"daily\" continues from now; it rested until 20"), "{ran:?}");
    assert_eq!(ran.stdout.lines().count(), 1);
}

#[test]
fn pauses_of_all_jobs_and_of_nodes_take_effect_and_are_shown() {
    let store = Store::start();
    let (place, url) = store.place_and_url();
    let site = Site::new(place, url);
    eventually(SOON, || !place.lines("often").is_empty());
    site.jobs(&["pause"]).assert_ended(64, &["--all", "--node"]);
    site.jobs(&["pause", "often", "--all", "--reason", "x"]).assert_ended(64, &["cannot be used with"]);
    site.jobs(&["resume", "--node", "a", "--all"]).assert_ended(64, &["cannot be used with"]);
    site.jobs(&["pause", "--all"]).assert_ended(64, &["--reason"]);
    let ran = site.jobs(&["pause", "--all", "--reason", "the store is moved"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "paused all jobs; present runs continue\n"), "{ran:?}");
    let row = site.show("often");
    assert_eq!((&row["paused"], &row["all_paused"]["reason"]), (&Value::Null, &"the store is moved".into()));
    assert!(site.jobs(&["ls"]).stdout.contains("all jobs are paused by "));
    assert!(site.jobs(&["show", "often"]).stdout.contains("never while all jobs are paused"));
    site.jobs(&["run", "often", "--wait"]).assert_ended(0, &[]);
    let before = place.lines("often").len();
    site.jobs(&["run", "often", "--wait"]).assert_ended(0, &[]);
    assert_eq!(place.lines("often").len(), before + 1, "a paused job ran without a request");
    site.jobs(&["pause", "--all", "--reason", "again"])
        .assert_ended(0, &["it was paused before, by ", ": the store is moved"]);
    wait_for_next_second();
    let pauses = site.json(&["resume", "--all"]);
    assert_eq!((&pauses["all"], fields(&pauses)), (&Value::Null, vec!["all", "nodes"]));
    assert!(site.show("often")["skipped"].as_u64().unwrap() > 0);
    eventually(SOON, || place.lines("often").len() > before + 1);
    assert_eq!(site.jobs(&["resume", "--all"]).stdout, "all jobs were not paused\n");

    let nodes = site.json(&["nodes"]);
    let node = nodes["nodes"][0]["node"].as_str().unwrap().to_owned();
    assert_eq!((fields(&nodes), &nodes["nodes"][0]["paused"]), (vec!["nodes", "pauses"], &Value::Null));
    let machine = node.rsplit_once(':').unwrap().0;
    assert!(nodes["nodes"][0]["zones"].as_str().unwrap().starts_with("20"), "{nodes}");
    for name in [&node, machine] {
        let pauses = site.jobs(&["pause", "--node", name, "--reason", "a new disk", "--json"]);
        assert_eq!(pauses.stderr, "", "there is a warning, although a node has this name");
        let pauses: Value = serde_json::from_str(&pauses.stdout).unwrap();
        assert_eq!(pauses["nodes"][name]["reason"], "a new disk");
        site.scheduler.stderr_line("this node is paused", SOON);
        assert_eq!(site.json(&["nodes"])["nodes"][0]["paused"]["reason"], "a new disk");
        assert!(site.jobs(&["nodes"]).stdout.contains(": a new disk"));
        let late = site.jobs(&["run", "daily", "--wait", "--timeout", "1500ms"]);
        late.assert_ended(75, &["has not ended within"]);
        assert_eq!(site.jobs(&["resume", "--node", name]).stdout, format!("resumed node {name}\n"));
        site.scheduler.stderr_line("this node is resumed", SOON);
        eventually(SOON, || site.show("daily")["queued"] == 0);
    }
    let ran = site.jobs(&["resume", "--node", "other"]);
    assert_eq!(ran.stdout, "node other was not paused\n");
    ran.assert_ended(0, &["bandog: no pause has the name other: "]);
    let ran = site.jobs(&["pause", "--node", "other", "--reason", "gone"]);
    ran.assert_ended(
        0,
        &["bandog: no scheduler of the name other runs now: the pause is kept for a node that starts later"],
    );
    assert_eq!(
        site.jobs(&["resume", "--node", "other"]).stderr,
        "",
        "there is a warning, although the node was paused"
    );
    site.jobs(&["pause", "--node", "other", "--reason", "gone"]).assert_ended(0, &[]);
    assert!(site.jobs(&["nodes"]).stdout.contains("no node other runs now: paused by "));
}

#[test]
fn jobs_that_no_scheduler_has_are_marked_and_forgotten_by_a_command() {
    let store = Store::start();
    let (place, url) = store.place_and_url();
    let mut site = Site::new(place, url);
    site.scheduler.term();
    ends(&mut site.scheduler, 0);
    for (name, days) in [("daily", -15), ("bad", -3)] {
        shift(url, name, "seen", days);
    }
    let list = site.jobs(&["ls"]).stdout;
    assert_eq!(list.matches(": no scheduler has it").count(), 2, "{list}");
    assert!(site.show("daily")["unknown_since"].is_string() && site.show("often")["unknown_since"].is_null());
    site.jobs(&["forget", "--unknown"])
        .assert_ended(64, &["--yes forgets daily (unknown since 20", "with their histories"]);
    assert_eq!(site.jobs(&["forget", "--unknown", "--yes"]).stdout, "forgot \"daily\"\n");
    let bad = site.json(&["forget", "--unknown", "--older", "2d", "--yes"]);
    assert_eq!((&bad[0]["job"], &bad[0]["forgotten"]), (&"bad".into(), &true.into()));
    site.jobs(&["show", "daily"]).assert_ended(64, &["knows no job"]);
}
