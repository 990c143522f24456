//! Fuzz tests: random texts for everything that this crate reads from the store, from the environment and from people.

use std::sync::Arc;

use bandog_core::{ClaimId, Holding, Key, Record, Version};
use bandog_testkit::fuzz;

use crate::{
    CatchUp, OnCrash, Overlap, Retry, Scope, StoreDown,
    pauses::{AllJobsPause, StoredPauses},
    plan::{Command, Event, PlanContext, apply_command, next_claim, plan},
    policy::Policy,
    state::{HistoryEntry, JobState},
    trigger::Trigger,
};

/// The present time in the tests, in milliseconds since 1970.
const NOW: i64 = 1_800_000_000_000;
/// The id of the claim of a session.
const CLAIM: &str = "00000000-0000-8000-8000-000000000001:7";

/// Records of jobs, as nodes write them.
const RECORDS: &[&str] = &[
    r#"{"spec":{"trigger":{"cron":{"text":"0 0/5 * * * ?","dialect":"quartz","zone":"Europe/Berlin"}},"enabled":true,"revision":0,"lease_ms":30000,"overlap":"skip","catch_up":"once","on_crash":"abandon","jitter_ms":0},"watermark":1799999999999,"anchor":1799999000000,"next_due":null,"fence":1799999999000000,"run":12,"counts":{"ok":10,"failed":1,"skipped":0,"missed":0,"lost":1},"rings":[11,1,0],"streak":0,"busy":[1799999990000,1799999991000],"last_success":1799999990000,"last":null,"running":[],"queue":[],"paused":null,"seen":1799999999999,"born":{"era":"x","at":1799990000000}}"#,
    r#"{"spec":{"trigger":{"fixed_rate":1000},"enabled":true,"revision":3,"lease_ms":30000,"overlap":"queue(10)","catch_up":"all(5)","on_crash":"retry","jitter_ms":100},"watermark":1799999995000,"anchor":1799999000000,"next_due":1799999000000,"fence":7,"run":3,"counts":{"ok":0,"failed":0,"skipped":0,"missed":0,"lost":0},"rings":[0,0,0],"streak":2,"busy":null,"last_success":null,"last":null,"running":[{"id":3,"kind":"scheduled","tick":1799999995000,"due":1799999995000,"attempt":1,"fence":7,"started":1799999995001,"node":"shop:1","session":["schedule/node/1","00000000-0000-8000-8000-000000000001:7"]}],"queue":[[4,"catch_up",1799999996000,1]],"paused":null}"#,
    r#"{"spec":null,"watermark":0,"anchor":0,"next_due":0,"fence":0,"run":0,"counts":{"ok":0,"failed":0,"skipped":0,"missed":0,"lost":0},"rings":[0,0,0],"streak":0,"busy":null,"last_success":null,"last":null,"running":[],"queue":[],"paused":{"by":"ops","at":1799999999999,"reason":"stock"}}"#,
];

/// Parts of records, from which the fuzz tests build random texts.
const WORDS: &[&str] = &[
    "null",
    "true",
    "[]",
    "{}",
    "\"\"",
    ":0",
    ":-1",
    ":1",
    ":9223372036854775807",
    ":-9223372036854775808",
    ":18446744073709551615",
    "fixed_rate",
    "fixed_delay",
    "\"once\"",
    "\"never\"",
    "cron",
    "running",
    "queue",
    "[4,\"catch_up\",0,1],",
    "manual",
    "retry",
    "backfill",
    "\\u0000",
    "\\ud800",
];

#[test]
fn fuzz_records_of_jobs() {
    let key = Key::new("job/x").unwrap();
    let node: Arc<str> = "here".into();
    let me = Holding { key: Key::new("schedule/node/1").unwrap(), id: CLAIM.parse::<ClaimId>().unwrap() };
    let all = AllJobsPause::default();
    let policy = Policy::new(Overlap::Skip);
    fuzz::texts("records of jobs", RECORDS, WORDS, |text| {
        let Ok(state) = JobState::read(text, &key) else { return false };
        let written = state.write().unwrap();
        assert_eq!(JobState::read(&written, &key).unwrap(), state);
        let trigger = state.spec.as_deref().and_then(|spec| spec.trigger()).unwrap_or(Trigger::FixedRate(1000));
        // A plan from a damaged record can have any result, but must not panic.
        for (free_slots, events) in
            [(0, vec![]), (2, vec![Event::NodeDied(me.clone()), Event::RanUnclaimed(NOW - 1000)])]
        {
            let mut state = state.clone();
            let context = PlanContext {
                name: "job",
                trigger: &trigger,
                policy: &policy,
                now: NOW,
                node: &node,
                session: Some(&me),
                free_slots,
                is_current: true,
                all: &all,
            };
            plan(&mut state, &context, &events);
            let _ = next_claim(&state, "job", &trigger, &policy);
            let written = state.write().unwrap();
            assert_eq!(JobState::read(&written, &key).unwrap(), state);
        }
        for command in [Command::Run, Command::Resume, Command::Cancel(None), Command::Backfill(vec![NOW - 5000])] {
            apply_command(&mut state.clone(), "job", &trigger, &policy, NOW, &command);
        }
        true
    });
}

#[test]
fn fuzz_lines_of_histories() {
    let sample = r#"{"id":3,"kind":"scheduled","tick":1799999995000,"ticks":1,"attempt":1,"node":"shop:1","fence":7,"due":1799999995000,"started":1799999995001,"ended":1799999996000,"state":"ok","note":"42 pages"}"#;
    fuzz::texts("lines of histories", &[sample], WORDS, |text| {
        let Some(past) = HistoryEntry::read(text) else { return false };
        let row = past.row("job");
        assert_eq!(row.job, "job");
        assert_eq!(HistoryEntry::read(&serde_json::to_string(&past).unwrap()), Some(past));
        true
    });
}

#[test]
fn fuzz_pauses() {
    let sample = r#"{"all":{"number":7,"paused":{"by":"ops","at":1799999999999,"reason":"stock"}},"nodes":{"shop:1":{"by":"ops","at":0,"reason":""}}}"#;
    fuzz::texts("pauses", &[sample, "{}"], WORDS, |text| {
        let record = Record { version: Version::new(7).unwrap(), value: text.to_owned() };
        let Ok(stored) = StoredPauses::of(Some(&record)) else { return false };
        let value = stored.write().unwrap();
        assert_eq!(StoredPauses::of(Some(&Record { value, ..record })).unwrap(), stored);
        let _ = (stored.of_node("shop:1"), stored.all.next(None, NOW), stored.all.next(None, i64::MAX));
        true
    });
}

/// Whether a text is a policy of this type. If so, checks that the policy's own text is read as the same policy.
fn is_policy<T>(text: &str) -> bool
where
    T: std::str::FromStr + std::fmt::Display + PartialEq + std::fmt::Debug,
    T::Err: std::fmt::Debug,
{
    let Ok(policy) = text.parse::<T>() else { return false };
    assert_eq!(policy.to_string().parse::<T>().unwrap(), policy, "{text:?}");
    true
}

#[test]
fn fuzz_policies() {
    let samples = [
        "skip",
        "queue(10)",
        "replace",
        "allow(2)",
        "once",
        "all(5)",
        "none",
        "abandon",
        "retry",
        "cluster",
        "fail_open",
        "3",
        "3 from 1s to 1m",
        "3 within 10m until next tick",
        "each_node",
    ];
    fuzz::texts(
        "policies",
        &samples,
        &["(", ")", "4294967295", "4294967296", " from ", " to ", "90s", "1ms", "36000000000000000000s"],
        |text| {
            let read = [is_policy::<Overlap>(text), is_policy::<CatchUp>(text), is_policy::<OnCrash>(text)];
            let words = [text.parse::<Scope>().is_ok(), text.parse::<StoreDown>().is_ok(), is_policy::<Retry>(text)];
            read.contains(&true) || words.contains(&true)
        },
    );
}
