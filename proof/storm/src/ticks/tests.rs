//! Tests of the checker. A correct history must pass. For each law, there is also a history that breaks the law.

use std::collections::BTreeMap;

use super::{
    check::check,
    history::{End, Harm, HarmKind, History, Job, Life, Nanos, Orphan, SECOND, Start, Tally, Terms},
    report::found,
};

const MS: Nanos = 1_000_000;

/// A correct history: one job that is due each second, on two nodes. Its three runs take 100 ms each.
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
        orphans: Vec::new(),
        left: 0,
        terms: Terms { lease: 2 * SECOND, check_interval: SECOND, slack: SECOND / 10, over: 60 * SECOND },
    }
}

/// The correct history with one change: node 0 is killed during its last run. When the time `after` has passed since
/// the kill, node 1 takes this run over.
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

/// Asserts that the history breaks exactly these laws.
#[track_caller]
fn breaks(history: &History, laws: &[&str]) {
    let findings = check(history);
    assert_eq!(found(&findings).laws().into_keys().collect::<Vec<_>>(), laws, "{:?}", findings.violations);
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
    assert!(found(&findings).laws().contains_key("once"));
}

#[test]
fn a_complete_run_that_starts_again_after_a_loss_is_seen_unless_its_node_was_away() {
    let mut history = good();
    let last = history.starts[2].clone();
    let at = last.at + SECOND;
    let emptied = Harm { kind: HarmKind::Emptied, node: None, from: at - 200 * MS, to: at - 200 * MS };
    history.harms.push(emptied);
    history.starts.push(Start { attempt: 2, fence: 9, node: 1, at, end: Some((at + MS, End::Ok)), ..last });
    breaks(&history, &["again"]);
    history.harms.push(Harm { kind: HarmKind::Stall, node: Some(0), from: last.at, to: at });
    breaks(&history, &[]);
}

#[test]
fn a_takeover_without_a_reason_is_seen() {
    let mut history = taken_over(2 * SECOND);
    history.lives.insert(0, Life::default());
    history.starts[2].end = Some((history.starts[2].at + MS, End::Ok));
    breaks(&history, &["once"]);
    let (from, to) = (history.starts[2].at, history.starts[2].at + SECOND);
    history.harms.push(Harm { kind: HarmKind::Cut, node: Some(0), from, to });
    breaks(&history, &[]);
    history.harms = vec![Harm { kind: HarmKind::Evicted, node: None, from: to, to }];
    breaks(&history, &[]);
    history.harms[0].kind = HarmKind::Store;
    breaks(&history, &["once"]);
}

#[test]
fn a_second_attempt_of_an_abandoned_tick_is_seen() {
    let mut history = taken_over(2 * SECOND);
    history.jobs[0].retry = false;
    breaks(&history, &["once"]);
}

#[test]
fn fences_that_do_not_increase_are_seen() {
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
fn an_overlap_is_found_and_excused_only_for_paused_nodes() {
    let mut history = good();
    let until = history.starts[1].at + 50 * MS;
    history.starts[0].end = Some((until, End::Ok));
    breaks(&history, &["overlap"]);
    let stall = |to| Harm { kind: HarmKind::Stall, node: Some(0), from: 500 * MS, to };
    history.starts[1].node = 1;
    history.harms = vec![stall(until - 20 * MS)];
    breaks(&history, &["overlap"]);
    history.harms = vec![Harm { from: 100 * MS, ..stall(until - 20 * MS) }];
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
fn a_late_takeover_is_seen_also_while_others_are_hurt() {
    let mut history = taken_over(4 * SECOND);
    breaks(&history, &["takeover"]);
    let from = history.starts[2].at;
    let others = Harm { kind: HarmKind::Stall, node: Some(2), from, to: from + 3 * SECOND };
    history.harms = vec![others];
    breaks(&history, &["takeover"]);
    for (kind, node) in [(HarmKind::Stall, Some(1)), (HarmKind::Store, None)] {
        history.harms = vec![Harm { kind, node, ..others }];
        breaks(&history, &[]);
    }
    // Attempt 2 is missing: a node claimed this attempt, but died before the start.
    history.harms = vec![others];
    history.starts[3].attempt = 3;
    breaks(&history, &[]);
}

#[test]
fn a_run_that_is_never_taken_over_is_seen() {
    let mut history = taken_over(2 * SECOND);
    history.starts.pop();
    history.terms.over = history.starts[2].at;
    history.tallies[0].ok = 2;
    let tally = history.tallies[0].clone();
    history.tallies[0] = Tally { queued: 1, ..tally.clone() };
    breaks(&history, &[]);
    history.tallies[0] = Tally { running: 1, ..tally.clone() };
    breaks(&history, &["takeover"]);
    history.tallies[0] = Tally { lost: 1, ..tally };
    breaks(&history, &["takeover"]);
    history.jobs[0].retry = false;
    breaks(&history, &[]);
}

#[test]
fn a_claim_under_a_session_that_has_ended_is_seen() {
    let mut history = good();
    history.orphans = vec![Orphan { job: 0, id: 2, claimed: 1000, ended: 1000 }];
    breaks(&history, &[]);
    history.orphans[0].ended = 999;
    breaks(&history, &["sessions"]);
}

#[test]
fn a_leftover_session_is_found() {
    breaks(&History { left: 1, ..good() }, &["sessions"]);
}

#[test]
fn a_session_that_was_taken_away_excuses_its_present_runs_and_no_later_ones() {
    let mut history = good();
    history.starts[0].end = Some((history.starts[1].at + 50 * MS, End::Ok));
    let from = history.starts[1].at - MS;
    let evicted = Harm { kind: HarmKind::Evicted, node: None, from, to: from + 300 * MS };
    history.harms = vec![evicted];
    breaks(&history, &[]);
    history.harms = vec![Harm { from: 5 * MS, ..evicted }];
    breaks(&history, &["overlap"]);
}
