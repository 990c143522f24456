//! Elections: candidates, leaders and observers.

use std::time::Duration;

use bandog_conformance::wrap::{Fate, Lossy, Stopped, Which, WithoutSubscriptions};
use bandog_core::{ErrorKind, Key, Leases, Pattern, Records, Swap};
use bandog_sync::{Client, Election, Leader, Leadership, Observer};
use tokio::{task::JoinHandle, time};

use crate::kit::{client, held, kind, memory, ms, paused, soon};

fn candidate(client: &Client, text: &str) -> Election {
    client.election("billing").candidate(text)
}

/// Starts a task that campaigns. When this function returns, the candidate waits, or is the leader.
async fn campaigning(client: &Client, text: &str) -> JoinHandle<Leadership> {
    let election = candidate(client, text);
    let campaign = tokio::spawn(async move { election.campaign().await.unwrap() });
    time::sleep(ms(1)).await;
    campaign
}

/// The text of the next change, and the time until it.
async fn next(observer: &mut Observer) -> (Option<String>, Duration) {
    let start = time::Instant::now();
    let leader = soon(observer.changed()).await.unwrap();
    (leader.map(|leader| leader.text().to_owned()), start.elapsed())
}

fn text(leader: Option<&Leader>) -> Option<&str> {
    leader.map(Leader::text)
}

#[tokio::test(start_paused = true)]
async fn one_candidate_leads_and_observers_see_each_change_at_once() {
    let store = memory();
    let (one, two, elsewhere) = (client(store.clone()), client(store.clone()), client(store.clone()));
    let mut observer = elsewhere.election("billing").observe();
    assert_eq!(next(&mut observer).await.0, None, "the first value comes at once");

    let first = candidate(&one, "one").campaign().await.unwrap();
    let (leader, after) = next(&mut observer).await;
    assert_eq!(leader.as_deref(), Some("one"));
    assert!(after < ms(5), "the observer was not notified: {after:?}");
    let second = campaigning(&two, "two").await;
    assert!(time::timeout(Duration::from_secs(600), observer.changed()).await.is_err(), "nothing has changed");
    assert!(!second.is_finished());

    let fence = first.fence();
    first.resign().await.unwrap();
    let second = soon(second).await.unwrap();
    assert!(second.fence() > fence);
    loop {
        let (leader, after) = next(&mut observer).await;
        assert!(after < ms(5), "{after:?}");
        if leader.is_some() {
            assert_eq!(leader.as_deref(), Some("two"));
            break;
        }
    }
    let seen = elsewhere.election("billing").leader().await.unwrap();
    assert_eq!(seen.as_ref().map(Leader::fence), Some(second.fence()));
    drop(second);
    let (leader, after) = next(&mut observer).await;
    assert!(leader.is_none() && after < ms(5), "{leader:?} {after:?}");
    two.idle().await;
    assert_eq!(held(&store).await, [""; 0]);
    assert_eq!(store.names(&Pattern::all()).await.unwrap(), [], "the record is deleted when the leader has resigned");
}

#[tokio::test(start_paused = true)]
async fn a_late_observer_gets_the_leader_first() {
    let client = paused().program("biller").over(memory()).unwrap();
    let leadership = client.election("billing").campaign().await.unwrap();
    let mut observer = client.election("billing").observe();
    let start = time::Instant::now();
    let leader = observer.changed().await.unwrap().unwrap();
    assert_eq!(leader.fence(), leadership.fence());
    assert!(leader.text().starts_with("biller@") && leader.text().len() > 7, "{leader:?}");
    assert!(start.elapsed() < ms(5));
    assert_eq!(client.election("other").leader().await.unwrap(), None);
}

/// A leader's process stops without a word: its connection is cut. Another candidate leads within the ttl, and the old
/// leader is lost before that.
#[tokio::test(start_paused = true)]
async fn a_dead_leader_is_followed_within_the_ttl() {
    let store = memory();
    let wire = Stopped::new(store.clone());
    let (dies, lives) = (client(wire.clone()), client(store.clone()));
    let mut observer = lives.election("billing").observe();
    let first = candidate(&dies, "dies").watchdog(ms(5000)).campaign().await.unwrap();
    let second = campaigning(&lives, "lives").await;
    assert_eq!(next(&mut observer).await.0.as_deref(), Some("dies"));
    let start = time::Instant::now();
    wire.stop(Which::Requests);
    let second = soon(second).await.unwrap();
    assert!(start.elapsed() <= ms(5200), "{:?}", start.elapsed());
    assert!(first.is_lost() && second.fence() > first.fence());
    assert_eq!(next(&mut observer).await.0.as_deref(), Some("lives"));
    wire.go_on();
    assert_eq!(kind(first.resign().await), Some(ErrorKind::Lost));
    dies.idle().await;
    let present = lives.election("billing").leader().await.unwrap();
    assert_eq!(
        text(present.as_ref()),
        Some("lives"),
        "a late resignation must not delete the record of the next leader"
    );
}

/// No other candidate exists. The record of the dead leader stays, but observers see that nobody leads.
#[tokio::test(start_paused = true)]
async fn observers_see_that_a_dead_leader_does_not_lead() {
    let store = memory();
    let wire = Stopped::new(store.clone());
    let (dies, lives) = (client(wire.clone()), client(store.clone()));
    let mut observer = lives.election("billing").observe();
    let leadership = candidate(&dies, "dies").watchdog(ms(5000)).campaign().await.unwrap();
    assert_eq!(next(&mut observer).await.0.as_deref(), Some("dies"));
    wire.stop(Which::Requests);
    let (leader, after) = next(&mut observer).await;
    assert!(leader.is_none() && after <= ms(6100), "{leader:?} {after:?}");
    assert_eq!(
        store.names(&Pattern::all()).await.unwrap().len(),
        1,
        "the record must exist, or this test shows nothing"
    );
    assert_eq!(lives.election("billing").leader().await.unwrap(), None);
    drop(leadership);
}

/// The claim of the leader is a condition of the swap. So if the swap of a candidate comes late, after its mutex was lost
/// and the next leader has resigned, the swap does not write the record.
#[tokio::test(start_paused = true)]
async fn a_deposed_leader_cannot_write_the_record() {
    let store = memory();
    let wire = Lossy::new(store.clone());
    let (slow, fast) = (client(wire.clone()), client(store.clone()));
    // The claim of the slow candidate is answered. Its swap arrives after ten seconds, when its mutex has expired.
    wire.next([Fate::Well, Fate::Late(ms(10_000))]);
    let election = candidate(&slow, "slow").watchdog(ms(2000));
    let campaign = tokio::spawn(async move { election.campaign().await });
    time::sleep(ms(1)).await;
    assert_eq!(wire.pending(), 0);
    wire.always(Fate::Refused); // No renewal, and no second swap.
    let leadership = soon(candidate(&fast, "fast").campaign()).await.unwrap();
    time::sleep(ms(5000)).await;
    let leader = fast.election("billing").leader().await.unwrap();
    assert_eq!(text(leader.as_ref()), Some("fast"));
    assert!(!leadership.is_lost());
    leadership.resign().await.unwrap();
    time::sleep(ms(10_000)).await;
    assert_eq!(store.names(&Pattern::all()).await.unwrap(), [], "the late swap was applied");
    assert!(!campaign.is_finished());
    wire.heal();
    let second = soon(campaign).await.unwrap().unwrap();
    let leader = fast.election("billing").leader().await.unwrap();
    assert_eq!(leader.map(|leader| leader.fence()), Some(second.fence()));
}

/// The store does not answer while a candidate writes the record. When it answers again, the candidate is soon the
/// leader, because it holds the mutex and no other candidate can be elected.
#[tokio::test(start_paused = true)]
async fn a_candidate_writes_the_record_soon_after_an_outage() {
    let wire = Lossy::new(memory());
    let client = client(wire.clone());
    wire.next([Fate::Well]);
    wire.always(Fate::Refused);
    let election = candidate(&client, "one").watchdog(Duration::from_secs(3600));
    let campaign = tokio::spawn(async move { election.campaign().await });
    time::sleep(Duration::from_secs(600)).await;
    assert!(wire.pending() == 0 && !campaign.is_finished());
    wire.heal();
    let start = time::Instant::now();
    let leadership = soon(campaign).await.unwrap().unwrap();
    assert!(start.elapsed() < ms(1100) && !leadership.is_lost(), "{:?}", start.elapsed());
}

/// The answer to the swap is lost. The candidate detects its own text, and leads.
#[tokio::test(start_paused = true)]
async fn a_lost_answer_does_not_end_a_campaign() {
    let wire = Lossy::new(memory());
    let client = client(wire.clone());
    for fate in [Fate::ReplyLost, Fate::RequestLost, Fate::Refused, Fate::Late(ms(50))] {
        wire.next([Fate::Well, fate]);
        let leadership = soon(candidate(&client, "one").campaign()).await.unwrap();
        let leader = client.election("billing").leader().await.unwrap();
        assert_eq!(leader.map(|leader| leader.fence()), Some(leadership.fence()), "{fate:?}");
        leadership.resign().await.unwrap();
        assert_eq!(client.election("billing").leader().await.unwrap(), None, "{fate:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn candidates_of_one_client_follow_each_other() {
    let client = client(memory());
    let mut observer = client.election("billing").observe();
    assert_eq!(next(&mut observer).await.0, None);
    let mut leaders = Vec::new();
    let first = candidate(&client, "0").campaign().await.unwrap();
    for text in ["1", "2", "3"] {
        leaders.push(campaigning(&client, text).await);
    }
    let (mut present, mut fence) = (first, None);
    for (number, leader) in leaders.into_iter().enumerate() {
        assert!(Some(present.fence()) > fence);
        fence = Some(present.fence());
        drop(present);
        present = soon(leader).await.unwrap();
        let leader = client.election("billing").leader().await.unwrap();
        assert_eq!(text(leader.as_ref()), Some(&*(number + 1).to_string()));
    }
    drop(present);
    client.idle().await;
    assert_eq!(client.election("billing").leader().await.unwrap(), None);
}

/// Campaigns that are dropped at every point leave the election and no record.
#[tokio::test(start_paused = true)]
async fn a_dropped_campaign_leaves_the_election() {
    let store = memory();
    let (ours, theirs) = (client(store.clone()), client(store.clone()));
    for polls in 0..20 {
        let election = candidate(&ours, "dropped");
        {
            let mut campaign = std::pin::pin!(election.campaign());
            for _ in 0..polls {
                let polled =
                    std::future::poll_fn(|context| std::task::Poll::Ready(campaign.as_mut().poll(context))).await;
                if polled.is_ready() {
                    break;
                }
                tokio::task::yield_now().await;
            }
        }
        ours.idle().await;
        assert_eq!(held(&store).await, [""; 0], "after {polls} polls");
        assert_eq!(store.names(&Pattern::all()).await.unwrap(), [], "after {polls} polls");
        assert_eq!(theirs.election("billing").leader().await.unwrap(), None);
    }
    let leadership = soon(candidate(&theirs, "next").campaign()).await.unwrap();
    leadership.resign().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_evicted_leader_is_lost_and_observers_see_it() {
    let client = client(memory());
    let mut observer = client.election("billing").observe();
    let leadership = client.election("billing").campaign().await.unwrap();
    assert!(soon(observer.changed()).await.unwrap().is_some());
    client.evict("election/billing").await.unwrap().unwrap();
    soon(leadership.lost()).await;
    let (leader, after) = next(&mut observer).await;
    assert!(leader.is_none() && after <= ms(1100), "{leader:?} {after:?}");
}

/// The observer waits when each change happens. It reports the change long before its next poll.
#[tokio::test(start_paused = true)]
async fn waiting_observers_are_notified() {
    let store = memory();
    let (ours, theirs) = (client(store.clone()), client(store));
    let mut observer = theirs.election("billing").observe();
    assert_eq!(next(&mut observer).await.0, None);
    let mut leadership = None;
    for round in 0..6 {
        let change = async {
            time::sleep(ms(10_400)).await; // The next poll is 600 ms later.
            match leadership.take() {
                None => leadership = Some(candidate(&ours, "one").campaign().await.unwrap()),
                Some(resigns) if round % 4 == 1 => Leadership::resign(resigns).await.unwrap(),
                Some(dropped) => drop(dropped),
            }
            leadership.is_some()
        };
        let ((leader, after), is_led) = tokio::join!(next(&mut observer), change);
        assert_eq!(leader.is_some(), is_led);
        assert!(after < ms(10_410), "round {round}: {after:?}");
    }
}

/// The backend has no notifications. Observers poll once a second.
#[tokio::test(start_paused = true)]
async fn observers_without_notifications_poll() {
    let client = client(WithoutSubscriptions::new(memory()));
    let mut observer = client.election("billing").observe();
    assert_eq!(next(&mut observer).await.0, None);
    let leadership = candidate(&client, "one").campaign().await.unwrap();
    let (leader, after) = next(&mut observer).await;
    assert!(leader.as_deref() == Some("one") && after <= ms(1100), "{leader:?} {after:?}");
    leadership.resign().await.unwrap();
    assert_eq!(next(&mut observer).await.0, None);
}

#[tokio::test(start_paused = true)]
async fn an_outage_is_waited_for_and_a_closed_client_ends_the_calls() {
    let wire = Lossy::new(memory());
    let client = client(wire.clone());
    wire.always(Fate::Refused);
    let campaign = campaigning(&client, "one").await;
    let mut observer = client.election("billing").observe();
    assert!(time::timeout(Duration::from_secs(60), observer.changed()).await.is_err());
    assert!(!campaign.is_finished());
    wire.heal();
    let leadership = soon(campaign).await.unwrap();
    assert_eq!(next(&mut observer).await.0.as_deref(), Some("one"));
    let election = client.election("billing");
    let waits = tokio::spawn(async move { election.campaign().await });
    let observes = tokio::spawn(async move { observer.changed().await });
    time::sleep(ms(10)).await;
    client.close().await.unwrap();
    assert_eq!(kind(soon(waits).await.unwrap()), Some(ErrorKind::Closed));
    assert_eq!(kind(soon(observes).await.unwrap()), Some(ErrorKind::Closed));
    assert_eq!(kind(leadership.resign().await), Some(ErrorKind::Closed));
    assert_eq!(kind(client.election("billing").observe().changed().await), Some(ErrorKind::Closed));
}

#[tokio::test(start_paused = true)]
async fn wrong_input_is_an_error() {
    let store = memory();
    let client = paused().prefix("shop:").over(store.clone()).unwrap();
    assert_eq!(kind(client.election("").campaign().await), Some(ErrorKind::Misused));
    assert_eq!(kind(client.election("").observe().changed().await), Some(ErrorKind::Misused));
    assert_eq!(kind(client.election("x").watchdog(ms(1)).campaign().await), Some(ErrorKind::Misused));
    assert_eq!(kind(client.election("x").candidate("x".repeat(4097)).campaign().await), Some(ErrorKind::Misused));
    let leadership = client.election("x").candidate("y\nz\n".repeat(1024)).campaign().await.unwrap();
    let leader = client.election("x").leader().await.unwrap().unwrap();
    assert_eq!(leader.text(), "y\nz\n".repeat(1024));
    assert_eq!(store.names(&Pattern::all()).await.unwrap(), [Key::new("shop:election/x").unwrap()]);
    leadership.resign().await.unwrap();
    let foreign = Swap::new(Key::new("shop:election/x").unwrap(), None, "not a leader");
    assert!(store.swap(&[foreign]).await.unwrap().each.remove(0).is_ok());
    assert_eq!(kind(client.election("x").leader().await), Some(ErrorKind::Corrupt));
    assert!(store.ping().await.is_ok());
}
