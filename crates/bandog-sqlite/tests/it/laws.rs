//! The rules of claims, passes, renewals and releases.

use std::{
    pin::Pin,
    task::Poll,
    time::{Duration, Instant},
};

use bandog_core::{Answer, Inspect, Key, Leases, Pattern, Released, Renewal, Row, Step, Verdict};
use bandog_sqlite::Sqlite;

use crate::support::{
    TTL, TestDir, busy, claim, eventually, fences, pass, release, renew, take, take_eventually, try_take,
};

const SHORT: Duration = Duration::from_millis(150);

#[tokio::test]
async fn a_free_key_is_granted_and_a_held_key_is_busy() {
    let dir = TestDir::new();
    let (store, first, second) = (dir.open(), claim("k", TTL), claim("k", TTL));
    let granted = try_take(&store, &first).await.unwrap();
    let Verdict::Granted { mut fences, valid_for, .. } = granted else { panic!("{granted:?}") };
    assert_eq!((std::iter::from_fn(|| fences.take()).count(), valid_for), (4, TTL));
    let retry_after = busy(&store, &second).await;
    assert!(retry_after <= TTL && retry_after > TTL - Duration::from_secs(10), "{retry_after:?}");
}

#[tokio::test]
async fn a_repeated_claim_is_granted_again_with_the_same_fences_and_a_fresh_ttl() {
    let dir = TestDir::new();
    let (store, mut ours, theirs) = (dir.open(), claim("k", TTL), claim("k", TTL));
    let granted = take(&store, &ours).await;
    ours.ttl = TTL * 2;
    assert_eq!(take(&store, &ours).await, granted);
    assert!(busy(&store, &theirs).await > TTL);
}

#[tokio::test]
async fn an_expired_lease_frees_its_key_and_the_fence_rises() {
    let dir = TestDir::new();
    let (store, first, second) = (dir.open(), claim("k", SHORT), claim("k", TTL));
    let before = Instant::now();
    let old = take(&store, &first).await.unwrap().last();
    let (mut new, _) = take_eventually(&store, &second).await;
    assert!(before.elapsed() >= SHORT, "granted before the ttl had passed");
    assert!(new.take().unwrap() > old);
    assert_eq!(renew(&store, &first).await, Renewal::Gone);
    assert_eq!(release(&store, &first).await, Released::NotHeld);
    assert!(take(&store, &first).await.is_none());
}

#[tokio::test]
async fn an_expired_hold_is_gone_even_if_no_other_claim_took_it() {
    let dir = TestDir::new();
    let (store, ours) = (dir.open(), claim("k", SHORT));
    let mut first = take(&store, &ours).await.unwrap();
    eventually("the row has expired", async || !store.show(&ours.key).await.unwrap().is_held()).await;
    assert_eq!(renew(&store, &ours).await, Renewal::Gone);
    assert_eq!(release(&store, &ours).await, Released::NotHeld);
    let mut second = take(&store, &ours).await.unwrap();
    assert!(second.take() > first.take(), "the new grant has no new fences");
}

#[tokio::test]
async fn a_renewal_extends_a_hold() {
    let dir = TestDir::new();
    let (store, mut ours, theirs) = (dir.open(), claim("k", Duration::from_secs(5)), claim("k", TTL));
    take(&store, &ours).await.unwrap();
    ours.ttl = TTL;
    assert_eq!(renew(&store, &ours).await, Renewal::Extended { valid_for: TTL });
    assert!(busy(&store, &theirs).await > TTL / 3 * 2);
    assert_eq!(renew(&store, &theirs).await, Renewal::Gone);
    assert_eq!(renew(&store, &claim("never", TTL)).await, Renewal::Gone);
}

#[tokio::test]
async fn many_renewals_are_answered_in_order() {
    let dir = TestDir::new();
    let store = dir.open();
    let claims: Vec<_> = (0..100).map(|n| claim(&format!("k{n}"), TTL)).collect();
    for claim in claims.iter().step_by(2) {
        take(&store, claim).await.unwrap();
    }
    for (n, answer) in store.renew(&claims).await.into_iter().enumerate() {
        let expected = if n % 2 == 0 { Renewal::Extended { valid_for: TTL } } else { Renewal::Gone };
        assert_eq!(answer.unwrap(), expected, "{n}");
    }
}

#[tokio::test]
async fn a_release_of_a_claim_without_a_hold_changes_nothing() {
    let dir = TestDir::new();
    let (store, ours, theirs) = (dir.open(), claim("k", TTL), claim("k", TTL));
    take(&store, &ours).await.unwrap();
    assert_eq!(release(&store, &theirs).await, Released::NotHeld);
    assert_eq!(release(&store, &ours).await, Released::Freed { others: Some(0) });
    assert_eq!(release(&store, &ours).await, Released::NotHeld);
    assert_eq!(release(&store, &claim("never", TTL)).await, Released::NotHeld);
    take(&store, &theirs).await.unwrap();
    assert_eq!(release(&store, &ours).await, Released::NotHeld);
    assert!(take(&store, &ours).await.is_none());
}

#[tokio::test]
async fn a_pass_gives_the_key_to_the_next_claim_with_new_fences() {
    let dir = TestDir::new();
    let (store, from, to) = (dir.open(), claim("k", TTL), claim("k", TTL * 2));
    let old = take(&store, &from).await.unwrap().last();
    let new = pass(&store, &from, &to).await.unwrap();
    assert!(new.clone().take().unwrap() > old);
    assert!(busy(&store, &from).await > TTL);
    assert_eq!(pass(&store, &from, &to).await, Some(new), "the repeated pass was not granted with the same fences");
    assert_eq!(release(&store, &from).await, Released::NotHeld);
}

#[tokio::test]
async fn a_pass_from_a_claim_without_a_hold_is_an_ordinary_claim() {
    let dir = TestDir::new();
    let (store, from, to, third) = (dir.open(), claim("k", TTL), claim("k", TTL), claim("k", TTL));
    assert!(pass(&store, &from, &to).await.is_some(), "the pass of a free lock was refused");
    assert!(pass(&store, &from, &third).await.is_none(), "the pass of a lock with another holder was granted");
    assert_eq!(renew(&store, &to).await, Renewal::Extended { valid_for: TTL });
}

#[tokio::test]
async fn steps_of_all_kinds_are_applied_in_their_order() {
    let dir = TestDir::new();
    let (store, a, b, c) = (dir.open(), claim("k", TTL), claim("k", TTL), claim("other", TTL));
    let steps = [
        Step::Claim(a.clone()),
        Step::Claim(b.clone()),
        Step::Claim(c.clone()),
        Step::Release(a.clone()),
        Step::Claim(b.clone()),
        Step::Pass { from: Box::new(b.clone()), to: a.clone() },
        Step::Release(b.clone()),
        Step::Release(a.clone()),
    ];
    let answers: Vec<_> = store.apply(&steps).await.into_iter().map(Result::unwrap).collect();
    let granted = |n: usize| matches!(answers[n], Answer::Claimed(Verdict::Granted { .. }));
    assert!(granted(0) && !granted(1) && granted(2) && granted(4) && granted(5), "{answers:?}");
    assert_eq!(answers[3], Answer::Released(Released::Freed { others: Some(0) }));
    assert_eq!(answers[6], Answer::Released(Released::NotHeld));
    assert_eq!(answers[7], Answer::Released(Released::Freed { others: Some(0) }));
}

#[tokio::test]
async fn calls_are_applied_in_the_order_of_their_first_poll() {
    let dir = TestDir::new();
    let store = Sqlite::new(dir.options().timeout(Duration::from_secs(60))).unwrap();
    // There are more calls than the queue can contain, so some of them wait for room.
    let claims: Vec<_> = (0..1400).map(|_| claim("k", TTL)).collect();
    let steps: Vec<_> = claims.iter().map(|claim| [Step::Claim(claim.clone()), Step::Release(claim.clone())]).collect();
    let mut calls: Vec<_> = steps.iter().map(|steps| store.apply(steps)).collect();
    let mut last = 0;
    for (n, answers) in poll_all(&mut calls).await.into_iter().enumerate() {
        let Ok(Answer::Claimed(verdict)) = answers[0].clone() else { panic!("{n}: {answers:?}") };
        let fence = fences(verdict).unwrap().last().get();
        assert!(fence > last, "call {n} overtook an earlier call");
        last = fence;
    }
}

/// Polls the calls once in their order, and then in the reverse order, which must not change the order of execution.
async fn poll_all<F: Future + Unpin>(calls: &mut [F]) -> Vec<F::Output> {
    let mut outputs: Vec<Option<F::Output>> = calls.iter().map(|_| None).collect();
    let mut first = true;
    std::future::poll_fn(|context| {
        let mut order: Vec<usize> = (0..calls.len()).filter(|&n| outputs[n].is_none()).collect();
        if !std::mem::take(&mut first) {
            order.reverse();
        }
        for n in order {
            if let Poll::Ready(answer) = Pin::new(&mut calls[n]).poll(context) {
                outputs[n] = Some(answer);
            }
        }
        if outputs.iter().all(Option::is_some) { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    outputs.into_iter().map(Option::unwrap).collect()
}

#[tokio::test]
async fn operators_see_the_held_locks() {
    let dir = TestDir::new();
    let store = dir.open();
    let (b, a, free) = (claim("order-b", TTL), claim("order-a", TTL), claim("order-free", TTL));
    let fence = take(&store, &a).await.unwrap().last();
    for claim in [&b, &free, &claim("other", TTL)] {
        take(&store, claim).await.unwrap();
    }
    release(&store, &free).await;
    let rows = store.list(&Pattern::new("order-*")).await.unwrap();
    let names: Vec<_> = rows.iter().map(|row| row.name.as_str()).collect();
    assert_eq!(names, ["order-a", "order-b"]);
    let row = dir.open().show(&a.key).await.unwrap();
    let [holder] = &row.holders[..] else { panic!("{row:?}") };
    assert!(holder.owner == Some(a.id.to_string()) && holder.last_fence == Some(fence), "{row:?}");
    assert!(holder.ttl.is_some_and(|ttl| ttl <= TTL), "{row:?}");
    for name in ["order-free", "never"] {
        let key = Key::new(name).unwrap();
        assert_eq!(store.show(&key).await.unwrap(), Row::free(&key));
    }
}

// Promise: SQ1
#[tokio::test]
async fn two_handles_on_one_file_exclude_each_other() {
    let dir = TestDir::new();
    let (one, two) = (dir.open(), dir.open());
    let (a, b) = (claim("k", TTL), claim("k", TTL));
    take(&one, &a).await.unwrap();
    busy(&two, &b).await;
    release(&one, &a).await;
    take(&two, &b).await.unwrap();
    assert_eq!(renew(&one, &a).await, Renewal::Gone);
}
