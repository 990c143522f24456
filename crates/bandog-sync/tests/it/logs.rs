//! Log lines: there is one line for each change of state, and no line for a retry.

use std::time::Duration;

use bandog_conformance::wrap::{Fate, Lossy, Stopped, Which};
use bandog_testkit::LogCapture;
use tokio::time;

use crate::kit::{memory, ms, paused};

#[tokio::test(start_paused = true)]
async fn one_line_for_each_change_of_state() {
    let (log, _guard) = LogCapture::of_thread("bandog");
    let wire = Lossy::new(memory());
    let client = paused().watchdog(ms(60_000)).over(wire.clone()).unwrap();
    let guard = client.mutex("orders").lock().await.unwrap();
    let taken = log.take("DEBUG");
    assert!(taken.iter().any(|line| line.contains("a lock was taken") && line.contains("key=orders")), "{taken:?}");
    let spans = log.take("SPAN");
    assert!(spans.iter().any(|line| line.contains("bandog.lock") && line.contains("key=orders")), "{spans:?}");
    assert_eq!(log.take("WARN"), [""; 0]);

    wire.always(Fate::Refused);
    let waiting = client.mutex("other");
    let waiting = tokio::spawn(async move { waiting.lock().await });
    time::sleep(Duration::from_secs(25)).await;
    assert!(wire.lost() > 20, "{} attempts", wire.lost());
    let warned = log.take("WARN");
    assert!(warned.len() == 1 && warned[0].contains("does not answer"), "{warned:?}");
    assert_eq!(log.take("INFO"), [""; 0]);

    wire.heal();
    drop(waiting.await.unwrap().unwrap());
    let informed = log.take("INFO");
    assert!(informed.len() == 1 && informed[0].contains("answers again"), "{informed:?}");
    assert!(!guard.is_lost());

    wire.always(Fate::RequestLost);
    guard.lost().await;
    let warned = log.take("WARN");
    assert_eq!(warned.iter().filter(|line| line.contains("a lock was lost")).count(), 1, "{warned:?}");
    assert_eq!(warned.len(), 2, "{warned:?}");
}

/// A store that alternates between answers and silence must not fill the log.
#[tokio::test(start_paused = true)]
async fn a_store_that_fails_again_and_again_is_logged_once_in_ten_seconds() {
    let (log, _guard) = LogCapture::of_thread("bandog");
    let wire = Lossy::new(memory());
    let client = paused().over(wire.clone()).unwrap();
    drop(client.mutex("orders").lock().await.unwrap());
    let begun = time::Instant::now();
    while begun.elapsed() < Duration::from_secs(150) {
        wire.next([Fate::Refused]);
        drop(client.mutex("orders").lock().await.unwrap());
        client.idle().await;
    }
    // An outage that begins shortly after a logged outage is also logged, if it lasts long enough.
    wire.always(Fate::Refused);
    client.mutex("orders").try_lock_for(Duration::from_secs(30)).await.unwrap_err();
    wire.heal();
    drop(client.mutex("orders").lock().await.unwrap());
    assert!(wire.lost() > 1000, "{}", wire.lost());
    assert_eq!((log.take("WARN").len(), log.take("INFO").len()), (16, 16));
}

/// The renewal of a lock that has been released meanwhile may fail for this reason alone, so it is no outage.
#[tokio::test(start_paused = true)]
async fn a_renewal_that_fails_after_the_release_is_not_logged() {
    let (log, _guard) = LogCapture::of_thread("bandog");
    let wire = Lossy::new(memory());
    let store = Stopped::new(wire.clone());
    let client = paused().watchdog(ms(60_000)).over(store.clone()).unwrap();
    let guard = client.mutex("orders").lock().await.unwrap();
    // After a third of the ttl, the renewal fails, and this answer is late.
    time::sleep(ms(19_900)).await;
    wire.always(Fate::Refused);
    store.stop(Which::Answers);
    time::sleep(ms(1_000)).await;
    assert!(wire.lost() > 0 && store.held() > 0);
    wire.heal();
    store.keep_back();
    guard.release().await.unwrap();
    store.go_on();
    time::sleep(Duration::from_secs(10)).await;
    assert_eq!(log.take("WARN"), [""; 0]);
}

/// The renewal ends after the deadline of the lock, because the ttl is shorter than the timeout of a request.
#[tokio::test(start_paused = true)]
async fn an_outage_that_loses_a_lock_is_logged_also_if_the_renewal_ends_later() {
    let (log, _guard) = LogCapture::of_thread("bandog");
    let wire = Lossy::new(memory());
    let store = Stopped::new(wire.clone());
    let client = paused().watchdog(ms(3_000)).over(store.clone()).unwrap();
    let guard = client.mutex("orders").lock().await.unwrap();
    wire.always(Fate::Refused);
    store.stop(Which::Answers);
    guard.lost().await;
    store.go_on();
    time::sleep(Duration::from_secs(1)).await;
    let warned = log.take("WARN");
    assert!(warned.iter().any(|line| line.contains("the store does not answer")), "{warned:?}");
    drop(guard);
}
