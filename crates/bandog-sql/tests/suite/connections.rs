//! A user whose number of connections is limited.

use bandog_core::{Inspect, Key, Leases, Level, Notifier, Pattern, Records, Renewal, Swap, Swapped};
use bandog_sql::Sql;
use bandog_testkit::eventually_async;

use super::{SOON, claim, open, release, renew, take, try_take};

/// Calls everything with a user that may have one connection. Each purpose is the first one of a client once.
///
/// `sessions` counts the sessions of this user.
pub(crate) async fn use_one(url: &str, sessions: impl Fn() -> String + Send + Sync) {
    for first in 0..5 {
        eventually_async(SOON, async || sessions() == "0").await;
        let store = open(url);
        for purpose in (0..5).cycle().skip(first).take(5) {
            use_for(&store, purpose, &format!("{first}")).await;
        }
        // A session that the limit refuses may be listed until its thread has ended.
        eventually_async(SOON, async || sessions() == "1").await;
        let findings = store.check().await.unwrap();
        let limit = findings.iter().find(|finding| finding.subject == "connections of the user").unwrap();
        assert_eq!(limit.level, Level::Advice, "{limit:?}");
        assert!(
            limit.says.contains("may have 1") && !limit.cure.as_ref().unwrap().contains("connections="),
            "{limit:?}"
        );
    }
    eventually_async(SOON, async || sessions() == "0").await;
    take_beside_a_subscription(url).await;
    eventually_async(SOON, async || sessions() == "0").await;
    let holder = open(url);
    holder.ping().await.unwrap();
    check_without_one(url).await;
}

/// Calls what one connection of a client is for.
async fn use_for(store: &Sql, purpose: usize, name: &str) {
    let (ours, key) = (claim(name), Key::new(name).unwrap());
    match purpose {
        0 => {
            take(store, &ours).await;
            assert!(matches!(renew(store, &ours).await.unwrap(), Renewal::Extended { .. }));
            release(store, &ours).await;
        }
        1 => assert!(matches!(renew(store, &ours).await.unwrap(), Renewal::Gone)),
        2 => {
            let swapped = store.swap(&[Swap::new(key.clone(), None, "text")]).await.unwrap().each.remove(0);
            assert!(matches!(swapped, Ok(Swapped::Done(_))), "{swapped:?}");
            assert!(store.read(&[key], &[]).await.unwrap().records[0].as_ref().unwrap().is_some());
        }
        3 => {
            store.list(&Pattern::all()).await.unwrap();
            store.members().await.unwrap();
        }
        _ => {
            store.show(&key).await.unwrap();
            store.check().await.unwrap();
        }
    }
}

/// The connection for notifications is the only one of the user, when a call needs it.
async fn take_beside_a_subscription(url: &str) {
    let store = open(url);
    let subscription = store.subscribe_record(&Key::new("record").unwrap(), Notifier::new(|| ())).await.unwrap();
    let grant = eventually_async(SOON, async || try_take(&store, &claim("k")).await).await;
    assert!(grant.is_some());
    drop(subscription);
}

/// A user that gets no connection at all.
async fn check_without_one(url: &str) {
    let findings = open(url).check().await.unwrap();
    let [finding] = &findings[..] else { panic!("{findings:?}") };
    assert_eq!((finding.level, finding.subject.as_str()), (Level::Danger, "connections of the user"));
    assert!(finding.says.contains("at least one and uses up to 4"), "{finding:?}");
}
