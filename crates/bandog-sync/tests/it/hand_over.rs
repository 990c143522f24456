//! How a client gives a hold (what the store granted for a claim) from one of its calls to the next. The use of a hold
//! by one call is a *turn*.

use std::num::NonZeroU32;

use bandog_conformance::wrap::{Capped, Counting, Fate, Forgetful, Lossy, Stopped, Which};
use bandog_core::{ErrorKind, Fence};
use bandog_sync::{Client, Mutex};
use tokio::{task::JoinHandle, time};

use crate::kit::{client, held, key, kind, memory, ms, paused, soon, waiting};

/// Starts `count` tasks. Each task takes the lock, holds it for the time `hold_for`, and returns its fence.
fn turns(mutex: &Mutex, count: usize, hold_for: std::time::Duration) -> Vec<JoinHandle<Fence>> {
    let turn = |mutex: Mutex| async move {
        let guard = mutex.lock().await.unwrap();
        let fence = guard.fence();
        if !hold_for.is_zero() {
            time::sleep(hold_for).await;
        }
        guard.release().await.unwrap();
        fence
    };
    (0..count).map(|_| tokio::spawn(turn(mutex.clone()))).collect()
}

/// Awaits the tasks, and returns their fences.
async fn fences(turns: Vec<JoinHandle<Fence>>) -> Vec<u64> {
    let mut fences = Vec::new();
    for turn in turns {
        fences.push(soon(turn).await.unwrap().get());
    }
    fences
}

/// The hold goes from one call of the client to the next. Each turn gets the next of the fences that the grant has
/// reserved. The store gets only one claim and one release.
#[tokio::test(start_paused = true)]
async fn one_grant_serves_many_turns_with_the_fences_of_its_block() {
    let counts = Counting::new(memory());
    let client = client(counts.clone());
    let fences = fences(turns(&client.mutex("orders"), 60, ms(0))).await;
    client.idle().await;
    assert_eq!(fences, (1..=60).collect::<Vec<_>>());
    assert_eq!((counts.claims(), counts.passes(), counts.releases()), (1, 0, 1));
    let guard = client.mutex("orders").lock().await.unwrap();
    assert_eq!(guard.fence().get(), 65, "the other fences of the first block are not used");
}

/// A store may reserve fewer fences than the client requested. When these fences are used up, the client passes its
/// hold for a new one. So every call gets a turn, and the fences rise.
// Promise: L5
#[tokio::test(start_paused = true)]
async fn a_block_with_fewer_fences_than_requested_serves_as_many_turns() {
    for granted in [1, 2, 7] {
        let counts = Counting::new(Capped::few_fences(memory(), NonZeroU32::new(granted).unwrap()));
        let wire = Lossy::new(counts.clone());
        let client = client(wire.clone());
        let sixty = fences(turns(&client.mutex("orders"), 60, ms(0))).await;
        client.idle().await;
        assert_eq!(sixty, (1..=60).collect::<Vec<_>>());
        let passes = 60_usize.div_ceil(granted as usize) - 1;
        assert_eq!((counts.claims(), counts.passes(), counts.releases()), (1, passes, 1), "{granted} fences");

        // A claim or pass that is repeated after a lost answer gets the same fences again. Still no fence is used
        // twice.
        wire.next([Fate::ReplyLost, Fate::ReplyLost, Fate::Well, Fate::ReplyLost]);
        let other = crate::kit::client(wire.clone());
        let mut tasks = turns(&client.mutex("orders"), 20, ms(1));
        tasks.extend(turns(&other.mutex("orders"), 20, ms(1)));
        let mut more = fences(tasks).await;
        more.sort_unstable();
        more.dedup();
        assert_eq!((more.len(), wire.lost()), (40, 3));
        assert!(more[0] > 60, "{more:?}");
        client.idle().await;
        other.idle().await;
        assert_eq!(held(&counts).await, [""; 0]);
    }
}

/// If another call of the client waits, `release` gives the hold to that call. It sends no request, and reports
/// success.
#[tokio::test(start_paused = true)]
async fn a_release_to_a_waiting_call_sends_no_request() {
    let counts = Counting::new(memory());
    let client = client(counts.clone());
    let guard = client.mutex("orders").lock().await.unwrap();
    let next = waiting(&client, "orders").await;
    let calls = counts.calls();
    guard.release().await.unwrap();
    let next = next.await.unwrap().unwrap();
    assert_eq!(counts.calls(), calls);
    next.release().await.unwrap();
}

/// After 64 turns a client releases the lock and does not claim it for a short time. So another client that waits gets
/// the lock.
// Promise: L13
#[tokio::test(start_paused = true)]
async fn after_64_turns_a_client_lets_others_go_first() {
    let store = memory();
    let counts = Counting::new(store.clone());
    let (ours, theirs) = (client(counts.clone()), client(store));
    let guard = ours.mutex("orders").lock().await.unwrap();
    let other = waiting(&theirs, "orders").await;
    theirs.idle().await;
    let turns = turns(&ours.mutex("orders"), 200, ms(0));
    tokio::task::yield_now().await;
    guard.release().await.unwrap();
    let other = soon(other).await.unwrap().unwrap();
    assert_eq!(other.fence().get(), 65, "the fence must come after the first block");
    let done = turns.iter().filter(|turn| turn.is_finished()).count();
    assert!((60..=64).contains(&done), "{done} turns came before the other client's turn");
    other.release().await.unwrap();
    fences(turns).await;
}

/// If the turns are longer, a client lets others go first after 20 ms.
// Promise: L13
#[tokio::test(start_paused = true)]
async fn after_20_ms_a_client_lets_others_go_first() {
    let store = memory();
    let (ours, theirs) = (client(store.clone()), client(store));
    let guard = ours.mutex("orders").lock().await.unwrap();
    let other = waiting(&theirs, "orders").await;
    theirs.idle().await;
    let turns = turns(&ours.mutex("orders"), 50, ms(6));
    tokio::task::yield_now().await;
    let start = time::Instant::now();
    guard.release().await.unwrap();
    let other = soon(other).await.unwrap().unwrap();
    assert!(start.elapsed() >= ms(20) && start.elapsed() <= ms(30), "{:?}", start.elapsed());
    other.release().await.unwrap();
    fences(turns).await;
}

/// If no other client waits, letting others go first costs almost no time.
#[tokio::test(start_paused = true)]
async fn a_client_that_is_alone_hardly_rests() {
    let client = client(memory());
    let start = time::Instant::now();
    let all = fences(turns(&client.mutex("orders"), 1000, ms(0))).await;
    assert!(all.is_sorted());
    assert!(start.elapsed() <= ms(100), "{:?}", start.elapsed());
}

/// If the next call has other terms, the hold is passed to a new claim in one request. So no other client gets the
/// lock between the two holds.
#[tokio::test(start_paused = true)]
async fn other_terms_pass_the_hold() {
    let store = memory();
    let counts = Counting::new(store.clone());
    let (ours, theirs) = (client(counts.clone()), client(store));
    let guard = ours.mutex("orders").lock().await.unwrap();
    let other = waiting(&theirs, "orders").await;
    theirs.idle().await;
    let leased = tokio::spawn({
        let mutex = ours.mutex("orders").lease(ms(5000));
        async move { mutex.lock().await }
    });
    tokio::task::yield_now().await;
    guard.release().await.unwrap();
    let leased = soon(leased).await.unwrap().unwrap();
    assert_eq!((counts.claims(), counts.passes(), counts.releases()), (1, 1, 0));
    assert!(!other.is_finished());
    assert_eq!(leased.fence().get(), 65);
    assert!(leased.remaining() > ms(4900) && leased.remaining() < ms(5000));
    leased.release().await.unwrap();
    drop(soon(other).await.unwrap().unwrap());
}

/// A hold with a fixed lease is passed for each turn, so that each caller has the full lease.
#[tokio::test(start_paused = true)]
async fn each_turn_has_a_whole_fixed_lease() {
    let counts = Counting::new(memory());
    let client = client(counts.clone());
    let mutex = client.mutex("orders").lease(ms(1000));
    let turns: Vec<_> = (0..3)
        .map(|_| {
            let mutex = mutex.clone();
            tokio::spawn(async move {
                let guard = mutex.lock().await.unwrap();
                let remaining = guard.remaining();
                time::sleep(ms(5)).await;
                guard.release().await.unwrap();
                remaining
            })
        })
        .collect();
    for turn in turns {
        assert_eq!(soon(turn).await.unwrap(), ms(990));
    }
    assert_eq!((counts.claims(), counts.passes()), (1, 2));
}

/// If less than half of the ttl is left, the hold is passed for the next turn. In this test, the answer to the claim
/// takes so long that only little of the ttl is left.
#[tokio::test(start_paused = true)]
async fn a_hold_that_is_half_over_is_passed() {
    for (answered_after, passes) in [(1200, 0), (1800, 1)] {
        let lossy = Lossy::new(memory());
        let wire = Stopped::new(lossy.clone());
        let counts = Counting::new(wire.clone());
        let client = paused().watchdog(ms(3000)).over(counts.clone()).unwrap();
        lossy.next([Fate::Well; 3]);
        lossy.always(Fate::Refused); // No renewal succeeds.
        wire.stop(Which::Answers);
        let (first, next) = (waiting(&client, "orders").await, waiting(&client, "orders").await);
        time::sleep(ms(answered_after)).await;
        wire.go_on();
        drop(soon(first).await.unwrap().unwrap());
        let next = soon(next).await.unwrap().unwrap();
        assert_eq!((counts.claims(), counts.passes()), (1, passes), "answered after {answered_after} ms");
        let left = if passes > 0 { 2970 } else { 2970 - answered_after };
        assert_eq!(next.remaining(), ms(left));
    }
}

/// With the option `local_turns(1)`, each turn needs a request, and the fences have no gaps.
#[tokio::test(start_paused = true)]
async fn with_one_local_turn_each_turn_asks_the_store() {
    let counts = Counting::new(memory());
    let client = paused().local_turns(1).over(counts.clone()).unwrap();
    let fences = fences(turns(&client.mutex("orders"), 20, ms(0))).await;
    assert_eq!(fences, (1..=20).collect::<Vec<_>>());
    assert_eq!(counts.claims() + counts.passes(), 20);
}

/// A grant reserves at most 64 fences, even if `local_turns` is larger. A client uses at most 64 fences before it lets
/// others go first. The number is limited because a store that has lost its data continues the fences from its clock.
/// If too many fences were reserved in advance, they could be larger than the fences from the clock.
#[tokio::test(start_paused = true)]
async fn a_grant_reserves_no_more_fences_than_are_used() {
    let client = paused().local_turns(u32::MAX).over(memory()).unwrap();
    let first = client.mutex("orders").lock().await.unwrap().fence();
    client.idle().await;
    let second = client.mutex("orders").lock().await.unwrap().fence();
    assert_eq!(second.get() - first.get(), 64);
}

/// The first request of a claim has no answer and may still be applied. The hold serves several turns nevertheless.
/// Then the hold is released twice, with an interval of one request timeout.
#[tokio::test(start_paused = true)]
async fn an_unsure_hold_is_passed_on_and_released_twice() {
    let store = memory();
    let wire = Lossy::new(store.clone());
    let counts = Counting::new(wire.clone());
    let client = client(counts.clone());
    client.ready().await.unwrap();
    wire.next([Fate::Late(ms(2000))]);
    let turns = turns(&client.mutex("orders"), 3, ms(0));
    fences(turns).await;
    assert_eq!(held(&store).await, [""; 0]);
    time::sleep(ms(2100)).await;
    assert_eq!(held(&store).await, ["orders"], "the late claim was applied");
    soon(client.idle()).await;
    assert_eq!(held(&store).await, [""; 0]);
    assert_eq!(counts.releases(), 2);
}

/// The request of a pass has no answer. Even if the next call is dropped, no lock stays held.
#[tokio::test(start_paused = true)]
async fn an_unsure_pass_leaves_nothing() {
    for fate in [Fate::RequestLost, Fate::ReplyLost, Fate::Refused, Fate::Late(ms(500)), Fate::Late(ms(2900))] {
        for call_is_dropped in [false, true] {
            let store = memory();
            let wire = Lossy::new(store.clone());
            let ours: Client = client(wire.clone());
            let guard = ours.mutex("orders").lock().await.unwrap();
            let next = tokio::spawn({
                let mutex = ours.mutex("orders").lease(ms(60_000));
                async move { mutex.lock().await }
            });
            tokio::task::yield_now().await;
            wire.next([fate, Fate::Refused]);
            guard.release().await.unwrap();
            if call_is_dropped {
                tokio::task::yield_now().await;
                next.abort();
            } else {
                soon(next).await.unwrap().unwrap().release().await.unwrap();
            }
            soon(ours.idle()).await;
            assert_eq!(held(&store).await, [""; 0], "{fate:?}, call_is_dropped: {call_is_dropped}");
        }
    }
}

/// A lost hold is not given to the next call. The next call gets the lock through a new claim.
#[tokio::test(start_paused = true)]
async fn a_lost_hold_is_not_passed_on() {
    let store = Forgetful::new(memory());
    let counts = Counting::new(store.clone());
    let client = client(counts.clone());
    let guard = client.mutex("orders").lock().await.unwrap();
    let next = waiting(&client, "orders").await;
    store.forget(&key("orders")).await.unwrap();
    let next = soon(next).await.unwrap().unwrap(); // The next renewal reports the loss; the engine claims again.
    assert!(guard.is_lost());
    assert_eq!((counts.claims(), counts.passes()), (2, 0));
    assert_eq!(next.fence().get(), 65);
    assert_eq!(kind(guard.release().await), Some(ErrorKind::Lost));
    client.idle().await;
    assert!(!next.is_lost());
    assert_eq!(held(&store).await, ["orders"]);
}

/// A hold goes from one call to the next, and is lost after that. The guard of the second call reports the loss. The
/// guard of the first call was released before, so it reports no loss.
#[tokio::test(start_paused = true)]
async fn a_turn_that_was_passed_on_can_be_lost() {
    let store = Forgetful::new(memory());
    let client = client(store.clone());
    let first = client.mutex("orders").lock().await.unwrap();
    let early = first.lost();
    let next = waiting(&client, "orders").await;
    first.release().await.unwrap();
    let next = next.await.unwrap().unwrap();
    assert_eq!(next.remaining(), ms(29_700));
    store.forget(&key("orders")).await.unwrap();
    time::timeout(ms(10_001), next.lost()).await.expect("the guard must be lost at the next renewal");
    assert!(next.is_lost());
    assert!(time::timeout(ms(60_000), early).await.is_err(), "the first guard was released");
    assert_eq!(kind(next.release().await), Some(ErrorKind::Lost));
}

/// A query returns the range of fences that the holder may have, because the store does not know which of its fences
/// the present turn uses. `fence` is the smallest fence of the range, so a resource that compares fences with it
/// refuses no holder. The log contains the fence of the turn.
#[tokio::test(start_paused = true)]
async fn queries_and_logs_have_the_fence_of_the_turn() {
    let (log, _guard) = bandog_testkit::LogCapture::of_thread("bandog");
    let wire = Lossy::new(memory());
    let client = paused().watchdog(ms(3000)).over(wire.clone()).unwrap();
    let first = client.mutex("orders").lock().await.unwrap();
    let row = client.show("orders").await.unwrap();
    let holder = &row.holders[0];
    assert_eq!((holder.fence, holder.last_fence.unwrap().get()), (Some(first.fence()), first.fence().get() + 63));
    let next = crate::kit::waiting(&client, "orders").await;
    first.release().await.unwrap();
    let second = next.await.unwrap().unwrap();
    let row = client.show("orders").await.unwrap();
    let holder = &row.holders[0];
    assert!(holder.fence.unwrap() < second.fence() && second.fence() <= holder.last_fence.unwrap(), "{row:?}");
    wire.always(Fate::Refused);
    second.lost().await;
    let lines = log.take("WARN");
    let lost: Vec<_> = lines.iter().filter(|line| line.contains("a lock was lost")).collect();
    assert!(lost.len() == 1 && lost[0].contains(&format!("fence={}", second.fence())), "{lines:?}");
}
