//! The search for names that are not used any more.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use bandog_core::{
    Answer, Claim, Error, IfUnused, Inspect, Key, Leases, Memory, NamesPage, Notifier, Pattern, Profile, Renewal,
    Result, Row, Step, Subscription, Usage,
};
use tokio::time;

use crate::kit::{client, key, memory, ms};

/// Number of parts of all names in [`Slow`].
const PARTS: u32 = 10;
/// Duration of each request to [`Slow`].
const REQUEST: Duration = ms(100);
/// Minimum age of a name.
const OLD: Duration = Duration::from_secs(3600);

/// A store with many old names, of which only the last part has the pattern's. Each request takes some time.
#[derive(Debug, Clone)]
struct Slow {
    memory: Memory,
    /// The names that are checked, request by request.
    checked: Arc<Mutex<Vec<Vec<Key>>>>,
}

#[async_trait]
impl Leases for Slow {
    async fn ping(&self) -> Result<()> {
        Ok(())
    }

    async fn apply(&self, steps: &[Step]) -> Vec<Result<Answer>> {
        self.memory.apply(steps).await
    }

    async fn renew(&self, claims: &[Claim]) -> Vec<Result<Renewal>> {
        self.memory.renew(claims).await
    }

    async fn subscribe(&self, claim: &Claim, notifier: Notifier) -> Result<Subscription> {
        self.memory.subscribe(claim, notifier).await
    }

    fn profile(&self) -> Profile {
        self.memory.profile()
    }
}

#[async_trait]
impl Inspect for Slow {
    async fn list(&self, pattern: &Pattern) -> Result<Vec<Row>> {
        self.memory.list(pattern).await
    }

    async fn show(&self, key: &Key) -> Result<Row> {
        self.memory.show(key).await
    }

    async fn names_page(&self, _: &Pattern, _: Duration, after: Option<&str>) -> Result<NamesPage> {
        time::sleep(REQUEST).await;
        let part = after.map_or(1, |after| after.parse::<u32>().unwrap() + 1);
        if part < PARTS {
            return Ok(NamesPage { keys: Vec::new(), seen: 1000, next: Some(part.to_string()) });
        }
        let keys = (0..300).map(|number| key(&format!("old-{number:03}"))).collect();
        Ok(NamesPage { keys, seen: 1000, next: None })
    }

    async fn usage(&self, keys: &[Key], _: Duration, _: IfUnused) -> Result<Vec<Usage>> {
        time::sleep(REQUEST).await;
        let mut checked = self.checked.lock().unwrap();
        checked.push(keys.to_vec());
        if checked.len() == 2 {
            return Err(Error::unavailable("the second check fails"));
        }
        Ok(vec![Usage::Unused; keys.len()])
    }
}

impl bandog_core::Records for Slow {}

impl bandog_core::Latches for Slow {}

impl bandog_core::Backend for Slow {}

#[tokio::test(start_paused = true)]
async fn a_search_uses_at_most_half_of_the_time_of_the_store_and_repeats_what_failed() {
    let store = Slow { memory: memory(), checked: Arc::default() };
    let client = client(store.clone());
    let mut sweep = client.sweep(Pattern::new("old-*"), OLD, IfUnused::Forget).unwrap();
    let (mut seen, mut unused) = (0, Vec::new());
    let began = time::Instant::now();
    for _ in 1..PARTS {
        seen += sweep.next().await.unwrap().unwrap().seen;
    }
    assert!(
        began.elapsed() >= 2 * (PARTS - 1) * REQUEST,
        "no pause between parts without names: {:?}",
        began.elapsed()
    );
    let first = sweep.next().await.unwrap().unwrap();
    seen += first.seen;
    unused.extend(first.unused);
    assert!(sweep.next().await.is_err());
    while let Some(step) = sweep.next().await.unwrap() {
        seen += step.seen;
        unused.extend(step.unused);
    }
    let requests = u32::try_from(store.checked.lock().unwrap().len()).unwrap() + PARTS;
    assert!(
        began.elapsed() >= (2 * requests - 1) * REQUEST,
        "the request that failed has no pause: {:?}",
        began.elapsed()
    );
    let expected: Vec<_> = (0..300).map(|number| format!("old-{number:03}")).collect();
    assert_eq!((seen, unused), (u64::from(PARTS) * 1000, expected), "each name is counted once");
}
