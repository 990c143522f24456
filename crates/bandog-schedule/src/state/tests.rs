#![allow(clippy::unwrap_used, reason = "tests")]

use bandog_cron::{DayMatch, Daylight, Dialect};

use super::{spec::TriggerSpec, *};
use crate::{Job, Run};

/// The settings of a job as its record has them.
fn spec(job: Job) -> JobSpec {
    let definition = job.run(async |_: Run| ()).prepare(None).unwrap();
    JobSpec::new(&definition.trigger, &definition.policy)
}

fn text(spec: &JobSpec) -> String {
    serde_json::to_string(&spec.trigger).unwrap()
}

#[test]
fn a_spec_makes_the_same_expression_again() {
    let both = || Job::cron("job", "0 30 2 13 * FRI").zone("America/New_York");
    let plain = Job::cron("job", "0 0/5 * * * ?");
    assert_eq!(text(&spec(plain)), r#"{"cron":{"text":"0 0/5 * * * ?","dialect":"quartz","zone":"UTC"}}"#);
    let said = spec(both().day_match(DayMatch::Or).daylight(Daylight::Skip));
    let other = spec(both().day_match(DayMatch::And).daylight(Daylight::Pinned));
    assert!(text(&said).contains(r#""days":"or","daylight":"skip""#), "{}", text(&said));
    assert!(
        text(&other).contains(r#""days":"and"}"#),
        "daylight is omitted, because pinned is the default here: {}",
        text(&other)
    );
    assert_ne!(said.trigger, other.trigger, "a change of these settings is a change of the trigger");
    for spec in [said, other] {
        let read: JobSpec = serde_json::from_str(&serde_json::to_string(&spec).unwrap()).unwrap();
        let Some(Trigger::Cron(cron)) = read.trigger() else { panic!("{read:?}") };
        assert_eq!(TriggerSpec::cron(&cron), spec.trigger);
    }
}

#[test]
fn a_trigger_of_an_older_version_is_read() {
    let trigger: TriggerSpec =
        serde_json::from_str(r#"{"cron":{"text":"0 30 1 * * FRI","dialect":"spring","zone":"Europe/Berlin"}}"#)
            .unwrap();
    let job = Job::cron("job", "0 30 1 * * FRI").dialect(Dialect::Spring).zone("Europe/Berlin");
    assert_eq!(spec(job).trigger, trigger);
}

/// Two records that the version of commit 58f9083 has written. The first record belongs to a job whose run was retried
/// after the death of a node. The second record belongs to a job with queued runs.
const OLDER: [&str; 2] = [include_str!("records/58f9083-poison.json"), include_str!("records/58f9083-waits.json")];

#[test]
fn a_record_that_an_older_version_wrote_is_read_and_written_as_it_was() {
    for text in OLDER {
        let state = JobState::read(text, &Key::new("job/older").unwrap()).unwrap();
        assert_eq!(state.write().unwrap(), text, "no field is renamed, and no new field is written without need");
    }
}

#[test]
fn deaths_of_a_run_that_an_older_version_began_count_from_then_on() {
    let key = Key::new("job/older").unwrap();
    let mut state = JobState::read(OLDER[0], &key).unwrap();
    assert_eq!((state.running[0].attempt, &state.deaths), (2, &None));
    assert_eq!(state.count_death(1), 1);
    let text = state.write().unwrap();
    assert!(text.contains(r#""deaths":{"1":1}"#), "{text}");
    assert_eq!(JobState::read(&text, &key).unwrap(), state);
}

#[test]
fn a_damaged_period_gives_no_trigger() {
    for trigger in [TriggerSpec::FixedRate(0), TriggerSpec::FixedRate(-1), TriggerSpec::FixedDelay(0)] {
        let plain = spec(Job::cron("job", "0 0/5 * * * ?"));
        assert!(JobSpec { trigger, ..plain }.trigger().is_none());
    }
}

// Promise: PG19
#[test]
fn a_record_contains_the_text_of_a_run_under_way_and_not_that_of_an_ended_run() {
    use crate::records::running_text;
    let state = JobState::read(OLDER[0], &Key::new("job/older").unwrap()).unwrap();
    let text = state.write().unwrap();
    let running = bandog_core::Fence::new(state.running[0].fence);
    assert!(text.contains(&running_text(running)), "{text}");
    let mut ended = state.clone();
    let live = ended.running.remove(0);
    let line = format!(
        r#"{{"id":1,"kind":"scheduled","tick":1,"ticks":1,"attempt":1,"fence":{running},"due":1,"started":{},"ended":2,"state":"ok"}}"#,
        live.started
    );
    let line = HistoryEntry::read(&line).unwrap();
    assert_eq!(line.fence, Some(live.fence));
    ended.last = Some(Box::new(line));
    let text = ended.write().unwrap();
    assert!(text.contains(&format!("\"fence\":{running},")) && !text.contains(&running_text(running)), "{text}");
}
