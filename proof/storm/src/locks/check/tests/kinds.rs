//! Histories of locks that are not mutexes.

use super::*;

const OVERLAP: &str = "no two clients hold one lock at the same time";
const OVER_LIMIT: &str = "no more permits are held than the limit";
const FENCES: &str = "fences increase with every grant";
const ONE_HOLDER: &str = "a fence belongs to one holder";
const OVERTAKEN: &str = "no holder is overtaken while it believes that it holds the lock";
const QUEUE: &str = "a fair mutex is granted in the order of its queue";
const LATER: &str = "a fair mutex is granted to a waiting call before a call that began later";
const FREE: &str = "no client waits at a free lock";
const ANSWER: &str = "errors";

impl Story {
    /// The store reports this queue of claims.
    pub(super) fn queue(&mut self, at: Nanos, claims: &[u64]) {
        for (position, claim) in (0..).zip(claims) {
            let (task, from, at, name) = (0, at * MS - 1, at * MS, Name(0));
            self.note(9, Note::Queued { task, from, at, name, position, claim: *claim });
        }
    }

    /// A client changes the limit of the semaphore.
    pub(super) fn limit(&mut self, from: Nanos, to: Nanos, limit: u32, sure: bool) {
        let outcome = if sure { Outcome::Ok } else { Outcome::Unclear };
        self.calls(9, (from, to), 0, Op::Limit(limit), outcome);
    }

    /// A call that waits from the one time to the other, and then holds the lock for 10 ms.
    fn waits(&mut self, client: u32, call: CallId, from: Nanos, to: Nanos, fence: u64) {
        self.asks(client, call, from);
        self.granted(client, call, to, fence);
        self.releases(client, call, to + 10);
    }
}

#[test]
fn readers_hold_together_and_can_share_a_fence_in_one_client() {
    let mut story = Story::new();
    story.of(Share::Read);
    story.holds(1, 0, 10, 50, 5);
    story.holds(1, 1, 20, 40, 5);
    story.holds(2, 0, 15, 60, 4);
    story.of(Share::Write).holds(3, 0, 61, 70, 6);
    story.of(Share::Read).holds(2, 1, 70, 80, 7);
    is_broken(&story.ends(100), &[]);
}

#[test]
fn a_writer_beside_a_reader_is_found() {
    for (first, second) in [(Share::Read, Share::Write), (Share::Write, Share::Read), (Share::Write, Share::Write)] {
        let mut story = Story::new();
        story.of(first).holds(1, 0, 10, 30, 5);
        story.of(second).holds(2, 0, 25, 40, 6);
        is_broken(&story.ends(100), &[OVERLAP]);
    }
}

#[test]
fn a_writer_among_many_readers_is_found() {
    let mut story = Story::new();
    story.of(Share::Read).holds(1, 0, 10, 300, 5);
    story.holds(2, 0, 20, 30, 6);
    story.of(Share::Write).holds(3, 0, 200, 210, 7);
    is_broken(&story.ends(400), &[OVERLAP]);
}

#[test]
fn readers_of_two_clients_with_one_fence_are_found() {
    let mut story = Story::new();
    story.of(Share::Read);
    story.holds(1, 0, 10, 30, 5);
    story.holds(2, 0, 20, 40, 5);
    is_broken(&story.ends(100), &[ONE_HOLDER]);
}

#[test]
fn a_reader_with_an_old_fence_is_found() {
    let story = |fence| {
        let mut story = Story::new();
        story.of(Share::Write).holds(1, 0, 10, 30, 6);
        story.of(Share::Read).holds(2, 0, 30, 40, fence);
        story.ends(100)
    };
    is_broken(&story(7), &[]);
    is_broken(&story(5), &[FENCES, OVERTAKEN]);
}

#[test]
fn a_writer_between_a_writer_and_its_downgrade_is_found() {
    let story = |share, from, fence| {
        let mut story = Story::new();
        story.of(Share::Write).holds(1, 0, 10, 30, 5);
        story.of(Share::Read).asks_with(1, 1, 30, Verb::Downgrade, 600);
        story.granted(1, 1, 60, 6);
        story.releases(1, 1, 80);
        story.of(share).holds(2, 0, from, from + 5, fence);
        story.ends(200)
    };
    is_broken(&story(Share::Read, 65, 7), &[]);
    is_broken(&story(Share::Write, 80, 7), &[]);
    let findings = story(Share::Write, 40, 7);
    assert!(findings.laws().contains_key(OVERLAP), "{:?}", findings.violations);
}

#[test]
fn a_downgrade_of_a_paused_process_that_is_lost_at_its_grant_is_no_belief() {
    let mut story = Story::new();
    story.of(Share::Write).holds(1, 0, 10, 30, 5);
    story.of(Share::Read).asks_with(1, 1, 30, Verb::Downgrade, 600);
    story.fault(FaultKind::Stop, 31, 900, Some(1));
    story.of(Share::Write).holds(2, 0, 700, 710, 7);
    story.answers(1, 1, 901, Outcome::Granted { fence: 6, until: 901 * MS, claim: 6 });
    story.leaves(1, 1, 901, false, 1);
    is_broken(&story.ends(1_000), &[]);
}

#[test]
fn too_many_permits_are_found() {
    let story = |take| {
        let mut story = Story::new();
        story.of(Share::Permits(1)).holds(1, 0, 10, 50, 5);
        story.holds(2, 0, 20, 60, 7);
        story.of(Share::Permits(take)).holds(3, 0, 30, 40, 6);
        story.ends(100)
    };
    is_broken(&story(1), &[]);
    is_broken(&story(2), &[OVER_LIMIT]);
}

#[test]
fn permits_above_the_limit_of_their_time_are_found() {
    let story = |from| {
        let mut story = Story::new();
        story.of(Share::Permits(1)).holds(4, 0, 1, 2, 1);
        story.limit(10, 11, GREATER_LIMIT, true);
        story.limit(1_000, 1_001, LIMIT, true);
        story.of(Share::Permits(2)).holds(1, 0, from, from + 50, 5);
        story.holds(2, 0, from + 10, from + 60, 6);
        story.ends(3_000)
    };
    is_broken(&story(5), &[]);
    is_broken(&story(500), &[]);
    is_broken(&story(995), &[]);
    is_broken(&story(2_000), &[OVER_LIMIT]);
}

#[test]
fn a_change_of_the_limit_that_is_not_sure_resets_nothing() {
    let mut story = Story::new();
    story.of(Share::Permits(1)).holds(4, 0, 1, 2, 1);
    story.limit(10, 11, GREATER_LIMIT, false);
    story.limit(100, 101, LIMIT, false);
    story.of(Share::Permits(2)).holds(1, 0, 2_000, 2_050, 5);
    story.holds(2, 0, 2_010, 2_060, 6);
    is_broken(&story.ends(3_000), &[]);
}

#[test]
fn lost_permits_excuse_more_permits_than_the_limit() {
    let story = |kind| {
        let mut story = Story::new();
        story.of(Share::Permits(2)).holds(1, 0, 10, 50, 5);
        story.fault(kind, 15, 16, None);
        story.holds(2, 0, 20, 60, 6);
        story.ends(100)
    };
    let findings = story(FaultKind::ServerEmpty);
    is_broken(&findings, &[]);
    assert_eq!(findings.excused["server-empty"].cases, 1);
    is_broken(&story(FaultKind::ServerStop), &[OVER_LIMIT]);
}

#[test]
fn permits_that_exclude_each_other_have_fences_in_their_order() {
    let story = |take, fence| {
        let mut story = Story::new();
        story.of(Share::Permits(take)).holds(1, 0, 10, 20, 6);
        story.holds(2, 0, 20, 30, fence);
        story.ends(100)
    };
    is_broken(&story(1, 5), &[]);
    is_broken(&story(1, 6), &[ONE_HOLDER]);
    is_broken(&story(3, 7), &[]);
    is_broken(&story(3, 5), &[FENCES, OVERTAKEN]);
}

#[test]
fn another_limit_is_documented_only_after_a_change_at_an_empty_store() {
    let story = |first_use: bool, kind: Option<FaultKind>| {
        let mut story = Story::new();
        story.of(Share::Permits(1));
        if first_use {
            story.holds(1, 0, 10, 20, 5);
        }
        if let Some(kind) = kind {
            story.fault(kind, 25, 26, None);
        }
        story.limit(30, 31, GREATER_LIMIT, true);
        story.asks(2, 0, 40);
        story.answers(2, 0, 41, Outcome::OtherLimit);
        story.ends(100)
    };
    is_broken(&story(false, None), &[]);
    is_broken(&story(true, Some(FaultKind::ServerEmpty)), &[]);
    is_broken(&story(true, Some(FaultKind::Cut)), &[ANSWER]);
    is_broken(&story(true, None), &[ANSWER]);
}

#[test]
fn a_call_without_an_answer_of_the_store_is_no_first_use_of_a_semaphore() {
    let mut story = Story::new();
    story.of(Share::Permits(1));
    story.asks(1, 0, 10);
    story.answers(1, 0, 20, Outcome::Refused);
    story.limit(30, 31, GREATER_LIMIT, true);
    story.asks(2, 0, 40);
    story.answers(2, 0, 41, Outcome::OtherLimit);
    is_broken(&story.ends(100), &[]);
}

#[test]
fn a_fair_mutex_against_the_order_of_its_queue_is_found() {
    let story = |first: u64, second: u64, kind: Option<FaultKind>| {
        let mut story = Story::new();
        story.of(Share::Fair);
        story.holds(1, 0, 1, 100, 1);
        story.asks(2, 0, 10);
        story.asks(3, 0, 11);
        story.queue(50, &[first, second]);
        if let Some(kind) = kind {
            story.fault(kind, 60, 70, None);
        }
        story.granted(2, 0, 100, 2);
        story.releases(2, 0, 110);
        story.granted(3, 0, 110, 3);
        story.releases(3, 0, 120);
        story.ends(200)
    };
    is_broken(&story(2, 3, None), &[]);
    is_broken(&story(3, 2, None), &[QUEUE]);
    is_broken(&story(3, 2, Some(FaultKind::Slow)), &[QUEUE]); // The fault is too short.
    is_broken(&story(3, 2, Some(FaultKind::Evict)), &[QUEUE]);
    is_broken(&story(3, 2, Some(FaultKind::ServerEmpty)), &[]);
    // A claim that was never granted, such as a cancelled one, is ignored.
    is_broken(&story(77, 3, None), &[]);
}

#[test]
fn the_place_of_a_claim_that_was_granted_before_shows_no_order() {
    let story = |asked: Nanos| {
        let mut story = Story::new();
        story.of(Share::Fair).holds(1, 0, 1, 10, 1);
        story.waits(2, 0, 5, 11, 2);
        story.asks(3, 0, 6);
        story.granted(3, 0, 100, 3);
        story.releases(3, 0, 110);
        // The queue has client 2 behind client 3.
        story.queue(asked, &[3, 2]);
        story.ends(200)
    };
    is_broken(&story(13), &[]);
    is_broken(&story(9), &[QUEUE]);
}

#[test]
fn a_later_call_that_is_granted_before_a_waiting_one_is_found() {
    let story = |asked: u64, away: bool| {
        let mut story = Story::new();
        story.of(Share::Fair);
        story.holds(1, 0, 1, 6_000, 1);
        story.asks(2, 0, 10);
        story.queue(50, &[3]);
        if away {
            story.fault(FaultKind::Stop, 100, 5_500, Some(2));
        }
        story.asks(3, 0, asked);
        story.granted(3, 0, 6_000, 2);
        story.releases(3, 0, 6_010);
        story.granted(2, 0, 6_010, 3);
        story.releases(2, 0, 6_020);
        story.ends(6_100)
    };
    is_broken(&story(40, false), &[]);
    is_broken(&story(60, false), &[LATER]);
    is_broken(&story(60, true), &[]);
}

/// On ZooKeeper, a place ends with the session of its client.
#[test]
fn a_place_can_expire_before_and_after_the_queue_was_read() {
    let story = |place: u64, fault: u64| {
        let mut story = Story::new();
        story.terms.place = place * MS;
        story.of(Share::Fair).holds(1, 0, 1, 2_000, 1);
        story.asks(2, 0, 10);
        story.asks(3, 0, 20);
        // Client 2 is first. The number of a claim is that of its fence.
        story.queue(1_000, &[3, 2]);
        story.fault(FaultKind::Refuse, fault, fault + 840, Some(2));
        story.granted(3, 0, 2_000, 2);
        story.releases(3, 0, 2_010);
        story.granted(2, 0, 2_010, 3);
        story.releases(2, 0, 2_020);
        story.ends(2_100)
    };
    is_broken(&story(800, 150), &[]);
    is_broken(&story(5_000, 150), &[QUEUE]);
    // Long before the question.
    is_broken(&story(200, 20), &[QUEUE]);
}

#[test]
fn a_waiter_at_free_permits_is_found() {
    let story = |take| {
        let mut story = Story::new();
        story.of(Share::Permits(2)).holds(1, 0, 10, 9_000, 5);
        story.of(Share::Permits(take)).waits(2, 0, 20, 9_000, 6);
        story.ends(9_100)
    };
    is_broken(&story(2), &[]);
    is_broken(&story(1), &[FREE]);
}

#[test]
fn a_waiter_for_few_permits_waits_for_one_that_starves() {
    let story = |take| {
        let mut story = Story::new();
        story.of(Share::Permits(2)).holds(1, 0, 10, 9_000, 5);
        story.of(Share::Permits(take)).waits(3, 0, 15, 9_000, 6);
        story.of(Share::Permits(1)).waits(2, 0, 2_000, 9_010, 7);
        story.ends(9_100)
    };
    is_broken(&story(3), &[]);
    is_broken(&story(1), &[FREE]);
}

#[test]
fn a_reader_that_waits_without_a_reason_is_found() {
    let story = |other: Share, waiting: Share| {
        let mut story = Story::new();
        story.of(other).holds(1, 0, 10, 9_000, 5);
        story.of(waiting).waits(3, 0, 15, 9_000, 6);
        story.of(Share::Read).waits(2, 0, 20, 9_010, 7);
        story.ends(9_100)
    };
    is_broken(&story(Share::Write, Share::Write), &[]);
    is_broken(&story(Share::Read, Share::Write), &[]);
    is_broken(&story(Share::Read, Share::Read), &[FREE]);
}

#[test]
fn a_dead_reader_that_keeps_a_writer_out_is_found() {
    let story = |granted| {
        let mut story = Story::new();
        story.killed(1, 100);
        story.of(Share::Read).asks(1, 0, 10);
        story.granted(1, 0, 10, 5);
        story.fault(FaultKind::Kill, 100, 100, Some(1));
        story.of(Share::Write).waits(2, 0, 50, granted, 6);
        story.ends(granted + 100)
    };
    is_broken(&story(8_000), &[]);
    is_broken(&story(9_000), &[FREE]);
}
