//! The checker sees what it is for: histories that must fail, one for each law, and one that must not.

use std::collections::BTreeMap;

use super::{
    check::check,
    history::{End, Harm, History, Job, Kind, Life, Nanos, SECOND, Start, Tally, Terms},
};

const MS: Nanos = 1_000_000;

/// One job that fires each second, on two nodes: three ticks of 100 ms, one after the other.
fn good() -> History {
    let job = Job { name: "job".into(), period: 1000, limit: 1, waits: false, retry: true };
    let starts = (0..3).map(|tick| {
        let at = u64::try_from(tick).unwrap() * SECOND + 10 * MS;
        let (id, fence, node) = (u64::try_from(tick).unwrap() + 1, u64::try_from(tick).unwrap() + 1, 0);
        let end = Some((at + 100 * MS, End::Ok));
        Start { job: 0, tick: tick * 1000, attempt: 1, id, fence, node, at, store: tick * 1000 + 10, end }
    });
    History {
        jobs: vec![job],
        tallies: vec![Tally { first: 0, watermark: 2000, ok: 3, ..Tally::default() }],
        starts: starts.collect(),
        lives: BTreeMap::from([(0, Life::default()), (1, Life::default())]),
        harms: Vec::new(),
        terms: Terms { lease: 2 * SECOND, look: SECOND, slack: SECOND / 10, over: 60 * SECOND },
    }
}

/// Node 0 is killed in its last run, and node 1 takes it over after so long.
fn taken_over(after: Nanos) -> History {
    let mut history = good();
    let killed = history.starts[2].at + 50 * MS;
    history.starts[2].end = None;
    history.lives.insert(0, Life { killed: Some(killed), asked: None });
    let at = killed + after;
    let store = i64::try_from(at / MS).unwrap();
    let again = Start { attempt: 2, fence: 4, node: 1, at, store, end: Some((at + MS, End::Ok)), ..history.starts[2] };
    history.starts.push(again);
    history
}

#[track_caller]
fn breaks(history: &History, laws: &[&str]) {
    let findings = check(history);
    assert_eq!(findings.laws().into_keys().collect::<Vec<_>>(), laws, "{:?}", findings.violations);
}

#[test]
fn a_good_history_passes() {
    breaks(&good(), &[]);
    breaks(&taken_over(2 * SECOND), &[]);
    let findings = check(&taken_over(2 * SECOND));
    assert_eq!((findings.ticks, findings.ran, findings.retries, findings.takeovers), (3, 3, 1, vec![2 * SECOND]));
}

#[test]
fn a_tick_that_starts_twice_is_seen() {
    let mut history = good();
    let at = history.starts[1].at + 500 * MS;
    let twice = Start { id: 9, fence: 9, node: 1, at, end: Some((at, End::Ok)), ..history.starts[1] };
    history.starts.insert(2, twice);
    let findings = check(&history);
    assert_eq!(findings.duplicates, 1);
    assert!(findings.laws().contains_key("once"));
}

#[test]
fn a_takeover_without_a_reason_is_seen() {
    let mut history = taken_over(2 * SECOND);
    history.lives.insert(0, Life::default());
    history.starts[2].end = Some((history.starts[2].at + MS, End::Ok));
    breaks(&history, &["once"]);
    let (from, to) = (history.starts[2].at, history.starts[2].at + SECOND);
    history.harms.push(Harm { kind: Kind::Cut, node: Some(0), from, to });
    breaks(&history, &[]);
}

#[test]
fn a_second_attempt_of_an_abandoned_tick_is_seen() {
    let mut history = taken_over(2 * SECOND);
    history.jobs[0].retry = false;
    breaks(&history, &["once"]);
}

#[test]
fn fences_that_do_not_rise_are_seen() {
    let mut history = good();
    history.starts[1].fence = 1;
    breaks(&history, &["fences"]);
    history.starts[1].fence = 7;
    breaks(&history, &["fences"]);
}

#[test]
fn a_start_before_its_tick_is_seen() {
    let mut history = good();
    history.starts[1].store = 499;
    breaks(&history, &["early"]);
}

#[test]
fn an_overlap_is_seen_and_excused_only_of_who_stood_still() {
    let mut history = good();
    let until = history.starts[1].at + 50 * MS;
    history.starts[0].end = Some((until, End::Ok));
    breaks(&history, &["overlap"]);
    let stood = |to| Harm { kind: Kind::Stall, node: Some(0), from: 500 * MS, to };
    history.starts[1].node = 1;
    history.harms = vec![stood(until - 20 * MS)];
    breaks(&history, &["overlap"]);
    history.harms = vec![Harm { from: 100 * MS, ..stood(until - 20 * MS) }];
    breaks(&history, &[]);
}

#[test]
fn ticks_that_are_not_accounted_for_are_seen() {
    let changes: [fn(&mut Tally); 3] =
        [|tally| tally.watermark += 1000, |tally| tally.ok -= 1, |tally| tally.skipped += 1];
    for change in changes {
        let mut history = good();
        change(&mut history.tallies[0]);
        breaks(&history, &["accounts"]);
    }
    let mut history = good();
    history.starts[1].end = Some((history.starts[1].at, End::Failed));
    breaks(&history, &["accounts"]);
}

#[test]
fn a_late_takeover_is_seen() {
    breaks(&taken_over(4 * SECOND), &["takeover"]);
    let mut history = taken_over(2 * SECOND);
    history.starts.pop();
    history.tallies[0] = Tally { running: 1, ok: 2, ..history.tallies[0] };
    breaks(&history, &["takeover"]);
}
