//! Barriers: parties of several clients wait for each other.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use bandog_conformance::wrap::{Counting, Delayed, Fate, Lossy, Stopped, Which, WithoutSubscriptions};
use bandog_core::{ErrorKind, Memory, Result};
use bandog_sync::{Arrival, Client};
use tokio::{task::JoinHandle, time};

use crate::kit::{client, held, kind, memory, ms, paused, soon};

/// Starts a party. When this function returns, the party waits in the store, if the store answers.
async fn arriving(client: &Client, parties: u32) -> JoinHandle<Result<Arrival>> {
    let barrier = client.barrier("phase", parties);
    let arriving = tokio::spawn(async move { barrier.wait().await });
    time::sleep(ms(5)).await;
    arriving
}

fn clients(store: &Memory) -> [Client; 3] {
    [(); 3].map(|()| client(store.clone()))
}

/// Waits for these parties, and returns how many of them are leaders.
async fn leaders(parties: impl IntoIterator<Item = JoinHandle<Result<Arrival>>>) -> usize {
    let mut leaders = 0;
    for party in parties {
        leaders += usize::from(soon(party).await.unwrap().unwrap().is_leader());
    }
    leaders
}

#[tokio::test(start_paused = true)]
async fn the_barrier_opens_when_the_last_party_arrives() {
    let store = memory();
    let clients = clients(&store);
    for round in 0..3 {
        let first = arriving(&clients[0], 3).await;
        let second = arriving(&clients[1], 3).await;
        time::sleep(Duration::from_secs(600)).await;
        assert!(!first.is_finished() && !second.is_finished(), "round {round}");
        let start = time::Instant::now();
        let third = soon(clients[2].barrier("phase", 3).wait()).await.unwrap();
        assert!(third.is_leader());
        assert_eq!(leaders([first, second]).await, 0);
        assert!(start.elapsed() < ms(10), "the parties were not notified: {:?}", start.elapsed());
    }
    for client in &clients {
        client.idle().await;
    }
    assert_eq!(held(&store).await, [""; 0]);
    assert!(soon(clients[0].barrier("alone", 1).wait()).await.unwrap().is_leader());
}

/// Each party counts its phases. No party begins a phase before all have ended the phase before it.
#[tokio::test(start_paused = true)]
async fn the_barrier_is_cyclic() {
    const PARTIES: usize = 12;
    const PHASES: usize = 30;
    let store = memory();
    let clients: Vec<_> = (0..4).map(|number| client(Delayed::new(store.clone(), number, ms(0), ms(20)))).collect();
    let (done, leaders): (Arc<[AtomicUsize; PHASES]>, Arc<[AtomicUsize; PHASES]>) = Default::default();
    let parties: Vec<_> = (0..PARTIES)
        .map(|party| {
            let barrier = clients[party % 4].barrier("phase", u32::try_from(PARTIES).unwrap());
            let (done, leaders) = (Arc::clone(&done), Arc::clone(&leaders));
            tokio::spawn(async move {
                for phase in 0..PHASES {
                    done[phase].fetch_add(1, SeqCst);
                    let arrival = barrier.wait().await.unwrap();
                    leaders[phase].fetch_add(usize::from(arrival.is_leader()), SeqCst);
                    assert_eq!(done[phase].load(SeqCst), PARTIES, "phase {phase} had not ended");
                }
            })
        })
        .collect();
    for party in parties {
        soon(party).await.unwrap();
    }
    assert!(leaders.iter().all(|leaders| leaders.load(SeqCst) == 1), "{leaders:?}");
    for client in clients {
        client.idle().await;
    }
    assert_eq!(held(&store).await, [""; 0]);
}

/// Only one of the parties that arrive at the same time can change the record. The others pause before they try again, so
/// the number of their requests grows with the number of parties, and not with its square.
#[tokio::test(start_paused = true)]
async fn parties_that_arrive_at_the_same_time_do_not_try_again_at_the_same_time() {
    const PARTIES: u32 = 128;
    let store = Counting::new(memory());
    let clients: Vec<_> =
        (0..u64::from(PARTIES)).map(|number| client(Delayed::new(store.clone(), number, ms(2), ms(2)))).collect();
    let start = time::Instant::now();
    let parties: Vec<_> = clients
        .iter()
        .map(|client| {
            let barrier = client.barrier("phase", PARTIES);
            tokio::spawn(async move { barrier.wait().await })
        })
        .collect();
    assert_eq!(leaders(parties).await, 1);
    let (swaps, parties) = (store.swaps(), usize::try_from(PARTIES).unwrap());
    assert!(swaps <= parties * 10, "{swaps} swaps of {parties} parties");
    assert!(start.elapsed() < ms(100) * PARTIES, "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_party_leaves_the_barrier() {
    let store = memory();
    let clients = clients(&store);
    let leaves = arriving(&clients[0], 3).await;
    let first = arriving(&clients[1], 3).await;
    leaves.abort();
    assert!(leaves.await.is_err());
    clients[0].idle().await;
    let second = arriving(&clients[2], 3).await;
    time::sleep(Duration::from_secs(600)).await;
    assert!(!first.is_finished() && !second.is_finished(), "the cancelled party was counted");
    let third = arriving(&clients[0], 3).await;
    assert_eq!(leaders([first, second, third]).await, 1);
}

/// The process of a party dies: its connection is cut. It counts until its ttl has passed.
#[tokio::test(start_paused = true)]
async fn a_dead_party_leaves_the_barrier_after_its_ttl() {
    let store = memory();
    let wire = Stopped::new(store.clone());
    let (dies, clients) = (client(wire.clone()), clients(&store));
    let mortal = dies.barrier("phase", 3).watchdog(ms(5000));
    let mortal = tokio::spawn(async move { mortal.wait().await });
    time::sleep(ms(5)).await;
    wire.stop(Which::Requests);
    time::sleep(ms(5100)).await;
    let first = arriving(&clients[0], 3).await;
    let second = arriving(&clients[1], 3).await;
    time::sleep(Duration::from_secs(60)).await;
    assert!(!first.is_finished() && !second.is_finished(), "the dead party was counted");
    // The party was only cut off. It has lost its mutex, but the barrier has not opened since then. So it arrives again.
    wire.go_on();
    assert_eq!(leaders([first, second, mortal]).await, 1);
}

/// A party that is cut off for longer than its ttl, while the barrier opens without it, does not count for the next
/// opening. It gets an error, because it cannot know that.
#[tokio::test(start_paused = true)]
async fn a_party_that_misses_the_opening_gets_an_error() {
    let store = memory();
    let wire = Stopped::new(store.clone());
    let (slow, clients) = (client(wire.clone()), clients(&store));
    let slow = slow.barrier("phase", 2).watchdog(ms(5000));
    let slow = tokio::spawn(async move { slow.wait().await });
    time::sleep(ms(5)).await;
    wire.stop(Which::Requests);
    time::sleep(ms(6000)).await;
    let first = arriving(&clients[0], 2).await;
    let second = arriving(&clients[1], 2).await;
    assert_eq!(leaders([first, second]).await, 1);
    wire.go_on();
    assert_eq!(kind(soon(slow).await.unwrap()), Some(ErrorKind::Lost));
    let first = arriving(&clients[0], 2).await;
    time::sleep(Duration::from_secs(60)).await;
    assert!(!first.is_finished());
}

/// The notification of the opening does not reach a party for longer than its ttl. The party was counted, and its entry
/// says so until the barrier opens again.
#[tokio::test(start_paused = true)]
async fn a_party_that_learns_late_of_the_opening_passes() {
    let store = memory();
    let wire = Stopped::new(store.clone());
    let (slow, other) = (client(wire.clone()), client(store.clone()));
    let slow = slow.barrier("phase", 2).watchdog(ms(5000));
    let slow = tokio::spawn(async move { slow.wait().await });
    time::sleep(ms(5)).await;
    wire.stop(Which::Answers);
    assert!(soon(other.barrier("phase", 2).wait()).await.unwrap().is_leader());
    time::sleep(ms(6000)).await;
    assert!(!slow.is_finished());
    wire.go_on();
    assert!(!soon(slow).await.unwrap().unwrap().is_leader());
}

#[tokio::test(start_paused = true)]
async fn another_number_of_parties_is_an_error_that_names_both() {
    let store = memory();
    let clients = clients(&store);
    let first = arriving(&clients[0], 3).await;
    let error = soon(clients[1].barrier("phase", 4).wait()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misused);
    assert!(error.to_string().contains("barrier/phase"), "{error}");
    assert!(error.to_string().contains("3 parties") && error.to_string().contains("names 4"), "{error}");
    clients[1].idle().await;
    let second = arriving(&clients[1], 3).await;
    let third = arriving(&clients[2], 3).await;
    assert_eq!(leaders([first, second, third]).await, 1);
    // Nobody waits, so the next parties may use another number.
    let first = arriving(&clients[0], 2).await;
    let second = arriving(&clients[1], 2).await;
    assert_eq!(leaders([first, second]).await, 1);
    for parties in [0, 1001] {
        assert_eq!(kind(clients[0].barrier("phase", parties).wait().await), Some(ErrorKind::Misused));
    }
    assert_eq!(kind(clients[0].barrier("", 2).wait().await), Some(ErrorKind::Misused));
    assert_eq!(kind(clients[0].barrier("x", 2).watchdog(ms(1)).wait().await), Some(ErrorKind::Misused));
}

/// A third of all requests fail, and some are applied late. All parties pass, phase by phase, and each opening has one
/// leader.
#[tokio::test(start_paused = true)]
async fn a_lossy_connection_counts_no_party_twice() {
    const PHASES: usize = 10;
    for seed in 0..10 {
        let store = memory();
        let wires: Vec<_> = (0..3).map(|_| Lossy::new(store.clone())).collect();
        let (done, leaders): (Arc<[AtomicUsize; PHASES]>, Arc<[AtomicUsize; PHASES]>) = Default::default();
        let parties: Vec<_> = wires
            .iter()
            .zip(0..)
            .map(|(wire, number)| {
                let client = client(wire.clone());
                wire.at_random(seed * 3 + number, 0.3, ms(3000));
                let (done, leaders) = (Arc::clone(&done), Arc::clone(&leaders));
                tokio::spawn(async move {
                    let barrier = client.barrier("phase", 3);
                    for phase in 0..PHASES {
                        done[phase].fetch_add(1, SeqCst);
                        let arrival = barrier.wait().await.unwrap();
                        leaders[phase].fetch_add(usize::from(arrival.is_leader()), SeqCst);
                        assert_eq!(done[phase].load(SeqCst), 3, "phase {phase} of world {seed} had not ended");
                    }
                })
            })
            .collect();
        for party in parties {
            soon(party).await.unwrap();
        }
        assert!(leaders.iter().all(|leaders| leaders.load(SeqCst) == 1), "world {seed}: {leaders:?}");
        assert!(wires.iter().all(|wire| wire.lost() > 0));
    }
}

/// The answer to the opening swap is lost, and other parties use the barrier before the leader repeats the swap. The
/// leader is still the leader of its opening.
#[tokio::test(start_paused = true)]
async fn a_leader_whose_answer_is_lost_is_the_leader() {
    let store = memory();
    let wire = Lossy::new(store.clone());
    let (leader, clients) = (client(wire.clone()), clients(&store));
    let mut late = 0;
    for _ in 0..20 {
        let first = arriving(&clients[0], 2).await;
        // The claim of a mutex, and the swap. If the party first claims the mutex of the other party, the lost answer is
        // that of its second claim. Then the round shows nothing.
        wire.next([Fate::Well, Fate::ReplyLost]);
        let last = leader.barrier("phase", 2);
        let last = tokio::spawn(async move { last.wait().await });
        assert_eq!(leaders([first]).await, 0);
        assert_eq!(wire.pending(), 0);
        let others = [arriving(&clients[1], 2).await, arriving(&clients[2], 2).await];
        late += usize::from(!last.is_finished());
        assert_eq!(leaders(others).await, 1);
        assert!(soon(last).await.unwrap().unwrap().is_leader());
    }
    assert!(late > 5, "the leader was late in {late} rounds only");
}

/// The swap that opens the barrier is applied late, when its party has lost its mutex. Then the party does not count, so
/// the barrier stays closed until the party has arrived again.
#[tokio::test(start_paused = true)]
async fn a_late_arrival_of_a_lost_party_does_not_open_the_barrier() {
    let store = memory();
    let wire = Lossy::new(store.clone());
    let (late, other) = (client(wire.clone()), client(store));
    for _ in 0..10 {
        let first = arriving(&other, 2).await;
        wire.next([Fate::Well, Fate::Late(ms(10_000))]);
        let last = late.barrier("phase", 2).watchdog(ms(2000));
        let last = tokio::spawn(async move { last.wait().await });
        time::sleep(ms(1)).await;
        assert_eq!(wire.pending(), 0);
        wire.always(Fate::Refused); // No renewal, and no second swap.
        time::sleep(ms(20_000)).await;
        assert!(!first.is_finished() && !last.is_finished());
        wire.heal();
        assert_eq!(leaders([first, last]).await, 1);
    }
}

/// A call may be dropped after each number of polls. Then it leaves the barrier, and leaves no mutex behind.
#[tokio::test(start_paused = true)]
async fn a_call_may_be_dropped_at_every_await() {
    let store = memory();
    let clients = clients(&store);
    for polls in 0..25 {
        {
            let barrier = clients[0].barrier("phase", 2);
            let mut call = std::pin::pin!(barrier.wait());
            for _ in 0..polls {
                let polled = std::future::poll_fn(|context| std::task::Poll::Ready(call.as_mut().poll(context))).await;
                assert!(polled.is_pending());
                tokio::task::yield_now().await;
            }
        }
        clients[0].idle().await;
        assert_eq!(held(&store).await, [""; 0], "after {polls} polls");
        let first = arriving(&clients[1], 2).await;
        time::sleep(ms(2000)).await;
        assert!(!first.is_finished(), "the dropped party was counted after {polls} polls");
        let second = arriving(&clients[2], 2).await;
        assert_eq!(leaders([first, second]).await, 1);
    }
}

#[tokio::test(start_paused = true)]
async fn parties_without_notifications_poll() {
    let client = client(WithoutSubscriptions::new(memory()));
    let first = arriving(&client, 2).await;
    let start = time::Instant::now();
    assert!(client.barrier("phase", 2).wait().await.unwrap().is_leader());
    assert_eq!(leaders([first]).await, 0);
    assert!(start.elapsed() <= ms(1100), "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_closed_client_ends_its_waits_and_an_outage_does_not() {
    let wire = Lossy::new(memory());
    let client = client(wire.clone());
    wire.always(Fate::Refused);
    let first = arriving(&client, 2).await;
    time::sleep(Duration::from_secs(60)).await;
    assert!(!first.is_finished());
    wire.heal();
    let start = time::Instant::now();
    let second = arriving(&client, 2).await;
    assert_eq!(leaders([first, second]).await, 1);
    assert!(start.elapsed() < ms(2100), "a retry came late: {:?}", start.elapsed());
    let waits = arriving(&client, 2).await;
    client.close().await.unwrap();
    assert_eq!(kind(soon(waits).await.unwrap()), Some(ErrorKind::Closed));
    assert_eq!(kind(client.barrier("phase", 2).wait().await), Some(ErrorKind::Closed));
}

/// A hundred parties of one client use few names of mutexes, because the numbers are reused.
#[tokio::test(start_paused = true)]
async fn many_parties_reuse_the_numbers_of_their_mutexes() {
    let store = memory();
    let client = paused().over(store.clone()).unwrap();
    for _ in 0..3 {
        let parties: Vec<_> = (0..100)
            .map(|_| {
                let barrier = client.barrier("crowd", 100);
                tokio::spawn(async move { barrier.wait().await })
            })
            .collect();
        time::sleep(ms(1)).await;
        assert_eq!(leaders(parties).await, 1);
    }
    client.idle().await;
    assert_eq!(held(&store).await, [""; 0]);
}
