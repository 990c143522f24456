//! The last 24 hours from fixed histories and observations.

use serde_json::{Value, json};

use super::*;
use crate::{
    observed::Seen,
    summary::tests::{NOW, run},
};

const MINUTE: i64 = 60_000;

fn digest(runs: &[bandog_schedule::RunRow]) -> Vec<(String, Arc<Digest>)> {
    vec![("a".to_owned(), Arc::new(Digest::new(1, runs)))]
}

fn day(digests: &[(String, Arc<Digest>)], observed: &Observed, queue: Option<&str>) -> Value {
    serde_json::to_value(PastDay::new(NOW, digests, true, observed).with_queue(observed, queue)).unwrap()
}

/// The value of the step that this time is in.
fn at(list: &Value, time: i64) -> Value {
    let list = list.as_array().unwrap();
    assert_eq!(list.len(), STEPS);
    list[usize::try_from((time - (NOW - NOW.rem_euclid(STEP_MS)) + 143 * STEP_MS).div_euclid(STEP_MS)).unwrap()].clone()
}

#[test]
fn runs_and_lags_are_those_of_their_steps() {
    let hour = 60 * MINUTE;
    let runs = [
        run(1, "failed", NOW - 25 * hour, 9),
        run(2, "ok", NOW - 2 * hour, 5),
        run(3, "lost", NOW - 2 * hour, 900),
        run(4, "ok", NOW - 1, 7),
    ];
    let day = day(&digest(&runs), &Observed::default(), None);
    assert_eq!((at(&day["runs"]["ok"], NOW - 1), at(&day["runs"]["ok"], NOW - 2 * hour)), (json!(1), json!(1)));
    assert_eq!((at(&day["runs"]["failed"], NOW), at(&day["runs"]["failed"], NOW - 2 * hour)), (json!(0), json!(1)));
    let sum: u64 = day["runs"]["failed"].as_array().unwrap().iter().filter_map(Value::as_u64).sum();
    assert_eq!(sum, 1, "a run of the day before counts");
    assert_eq!(
        (at(&day["lag"]["p50_ms"], NOW - 2 * hour), at(&day["lag"]["p99_ms"], NOW - 2 * hour)),
        (json!(5), json!(900))
    );
    assert_eq!(at(&day["lag"]["p50_ms"], NOW - hour), Value::Null);
    assert!(day["runs"]["whole"].as_array().unwrap().iter().all(|whole| *whole == true));
    assert_eq!((&day["observed_since"], &day["queues"], &day["locks"]), (&Value::Null, &json!([]), &json!([])));
}

/// Before the oldest line of a full history, the counts are lower bounds, unless the counters were observed.
#[test]
fn counts_are_lower_bounds_where_nothing_has_counted_all_runs() {
    let runs: Vec<_> = (0..50).map(|number| run(number, "ok", NOW - (50 - number as i64) * 1000, 1)).collect();
    let mut observed = Observed::default();
    let job = |ok| crate::observed::tests::jobs(&[("a", ok, 0)]);
    for minute in (0..=60).rev() {
        let time = NOW - minute * MINUTE;
        observed.add(time, Seen { jobs: Some((time, job(10_000 - 60 * minute.unsigned_abs()))), ..Seen::default() });
    }
    let day = day(&digest(&runs), &observed, None);
    let counts = |time| (at(&day["runs"]["ok"], time), at(&day["runs"]["whole"], time));
    assert_eq!(counts(NOW - 30 * MINUTE), (json!(600), json!(true)));
    assert_eq!(counts(NOW - 120 * MINUTE), (json!(0), json!(false)));
    assert_eq!(counts(NOW).1, true);
}

#[test]
fn a_gap_of_the_observations_is_no_zero() {
    let mut observed = Observed::default();
    let mails = |waiting| Some(vec![("mails".to_owned(), waiting, 7)]);
    observed.add(NOW - 40 * MINUTE, Seen { queues: mails(5), ..Seen::default() });
    observed
        .add(NOW - 39 * MINUTE, Seen { queues: mails(0), locks: Some(vec![("stock".into(), 3)]), ..Seen::default() });
    observed.add(NOW - 20 * MINUTE, Seen::default());
    observed.add(NOW, Seen { queues: mails(0), ..Seen::default() });
    let day = day(&[], &observed, Some("other"));
    let mails = &day["queues"][0];
    assert_eq!((&mails["name"], at(&mails["depth"], NOW - 40 * MINUTE)), (&json!("mails"), json!(5)));
    assert_eq!((at(&mails["depth"], NOW - 20 * MINUTE), at(&mails["depth"], NOW)), (Value::Null, json!(0)));
    assert_eq!(at(&mails["oldest_ms"], NOW - 40 * MINUTE), 7);
    let stock = &day["locks"][0];
    assert_eq!((&stock["name"], at(&stock["waiting"], NOW - 39 * MINUTE)), (&json!("stock"), json!(3)));
    assert_eq!(at(&stock["waiting"], NOW), Value::Null);
    assert_eq!((&day["queue"]["name"], at(&day["queue"]["depth"], NOW)), (&json!("other"), json!(0)));
}

/// The runs of a gap of the observations are not those of the minutes after it, and queues that are not observed have no depth.
#[test]
fn a_part_that_was_not_observed_is_not_counted() {
    let runs: Vec<_> = (0..50).map(|number| run(number, "ok", NOW - (50 - number as i64) * 1000, 1)).collect();
    let mut observed = Observed::default();
    let job = |ok| crate::observed::tests::jobs(&[("a", ok, 0)]);
    for (minute, ok) in [(500, 0), (499, 10), (90, 9_000), (89, 9_010)] {
        let time = NOW - minute * MINUTE;
        let queues = Some(vec![("b".to_owned(), 1, 1)]);
        observed.add(
            time,
            Seen { jobs: Some((time, job(ok))), queues, last_queue: Some("b".to_owned()), ..Seen::default() },
        );
    }
    let after = day(&digest(&runs), &observed, Some("c"));
    assert_eq!(at(&after["runs"]["ok"], NOW - 89 * MINUTE), 10);
    assert_eq!((&after["queue"]["name"], at(&after["queue"]["depth"], NOW - 89 * MINUTE)), (&json!("c"), Value::Null));
    let before = day(&digest(&runs), &observed, Some("a"));
    assert_eq!(at(&before["queue"]["depth"], NOW - 89 * MINUTE), 0);
}
