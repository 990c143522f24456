//! Laws about names that are not used any more.

use std::{
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    time::Duration,
};

use bandog_core::{Backend, Error, ErrorKind, Fence, IfUnused, Inspect, Key, Kind, Pattern, Usage};
use bandog_testkit::eventually_async;
use futures_util::future::try_join_all;
use tokio::time::sleep;

use crate::{
    Can, Law, Unkept, World,
    kind_kit::{attempt, each_kind, freed, granted, left_queue, needs, refused, row, waiting},
    kit::{MAX_WAIT, NAME, answered_in_time, claim, only_answer, release, renew, within},
};

/// A time that no law takes.
const HOURS: Duration = Duration::from_secs(10 * 3600);
/// Number of clients that claim a name at the same time, and number of grants of each of them.
const CLIENTS: usize = 4;
const GRANTS: usize = 15;

/// Law 97, for locks of every kind: a name is forgotten only if no claim holds it or has a place, and if its last grant is
/// old enough. Then the store keeps nothing for it, and its next fence is greater than each fence before. The names of
/// semaphores stay.
// Promise: L31
pub async fn unused_names_of_every_kind<W: World>(world: &W) -> Law {
    let (ours, theirs) = (world.backend(), world.backend());
    each_kind(world, async |kind| {
        let name = format!("{NAME} {}", kind.to_string().replace([':', '/'], " "));
        let exclusive = match kind {
            Kind::Read => Kind::Write,
            Kind::Permits { of, .. } => Kind::Permits { take: of, of },
            Kind::Mutex | Kind::Fair | Kind::Write => kind,
        };
        let (holder, next) = (attempt(exclusive, &name), waiting(exclusive, &name));
        let key = &holder.key;
        let last = granted(&ours, &holder).await?.last();
        can_forget(&theirs, key).await?;
        let before = row(&ours, &holder).await?;
        assert_eq!(forget(&theirs, key, Duration::ZERO).await?, Usage::Used, "{kind} is held");
        assert_eq!(row(&ours, &holder).await?, before, "{kind}");
        refused(&theirs, &next).await?;
        freed(&ours, &holder).await?;
        let usage = forget(&ours, key, Duration::ZERO).await?;
        let had_place = left_queue(&theirs, &next).await?;
        assert!(!had_place || usage == Usage::Used, "{kind} was forgotten while a claim had a place");
        if !had_place {
            granted(&ours, &holder).await?;
            freed(&ours, &holder).await?;
        }
        sleep(Duration::from_millis(5)).await; // So the last grant is older than no time at all.
        assert_eq!(forget(&theirs, key, HOURS).await?, Usage::Used, "{kind} was just used");
        if let Kind::Permits { take, of } = exclusive {
            assert_eq!(forget(&ours, key, Duration::ZERO).await?, Usage::Used, "{kind} has a limit");
            let other = attempt(Kind::Permits { take, of: of.saturating_add(2) }, &name);
            assert!(claim(&ours, &other).await.is_err(), "the limit is gone");
            return Ok(());
        }
        let is_unused = async || match usage_of(&theirs, key, IfUnused::Keep).await.expect("no answer") {
            Usage::Unused => true,
            Usage::Used => false,
            // The store has deleted what it kept, as ZooKeeper does.
            Usage::Absent => {
                granted(&ours, &holder).await.expect("no answer");
                freed(&ours, &holder).await.expect("no answer");
                false
            }
        };
        eventually_async(MAX_WAIT, is_unused).await;
        assert!(is_listed(&theirs, &name).await?, "{kind}: the name is not listed");
        assert_eq!(forget(&theirs, key, Duration::ZERO).await?, Usage::Unused, "{kind}");
        assert_eq!(usage_of(&ours, key, IfUnused::Keep).await?, Usage::Absent, "{kind}");
        assert!(!is_listed(&ours, &name).await?, "{kind}: the name is still listed");
        let again = attempt(exclusive, &name);
        assert!(granted(&ours, &again).await?.last() > last, "{kind}: the fence did not rise");
        freed(&ours, &again).await
    })
    .await
}

/// Law 97: clients claim a name again and again, while another client forgets it whenever it is free. At each time one
/// claim holds the name, and the fences rise.
// Promise: L31
pub async fn forget_beside_claims<W: World>(world: &W) -> Law {
    let backend = world.backend();
    needs(&backend, &[Kind::Mutex])?;
    let first = attempt(Kind::Mutex, NAME);
    granted(&backend, &first).await?;
    can_forget(&backend, &first.key).await?;
    freed(&backend, &first).await?;
    let key = first.key;
    let (fences, is_done) = (Mutex::new(Vec::new()), AtomicBool::new(false));
    let clients: Vec<_> = (0..CLIENTS).map(|_| world.backend()).collect();
    let claims = async {
        // The first error ends the law: the other clients would wait for the lock of that client.
        let done = try_join_all(clients.iter().map(|client| take_turns(client, &fences))).await;
        is_done.store(true, SeqCst);
        done.map(drop)
    };
    let forgets = async {
        while !is_done.load(SeqCst) {
            forget(&backend, &key, Duration::ZERO).await?;
            sleep(Duration::from_millis(10)).await;
        }
        Ok::<_, Error>(())
    };
    let (claimed, forgotten) = within(MAX_WAIT * 4, "the claims", async { tokio::join!(claims, forgets) }).await;
    claimed?;
    forgotten?;
    let fences = fences.into_inner().unwrap_or_else(PoisonError::into_inner);
    assert_eq!(fences.len(), CLIENTS * GRANTS);
    assert!(fences.is_sorted_by(|before, after| before < after), "the fences do not rise: {fences:?}");
    Ok(())
}

/// Takes and releases the mutex again and again. Each fence is added while the mutex is held.
async fn take_turns(backend: &impl Backend, fences: &Mutex<Vec<Fence>>) -> Result<(), Error> {
    for _ in 0..GRANTS {
        let asked = attempt(Kind::Mutex, NAME);
        let granted = loop {
            match answered_in_time(async || claim(backend, &asked).await).await? {
                Some(granted) => break granted,
                None => sleep(Duration::from_millis(2)).await,
            }
        };
        fences.lock().unwrap_or_else(PoisonError::into_inner).extend([granted.last()]);
        sleep(Duration::from_millis(1)).await;
        // The claims of the others keep the rows of the lock locked on MySQL, so a call can end without an answer.
        let is_held = answered_in_time(async || renew(backend, &asked).await).await?;
        assert!(is_held, "a held name was forgotten");
        answered_in_time(async || release(backend, &asked).await).await?;
    }
    Ok(())
}

/// Whether the backend can forget names. A held name is asked about.
async fn can_forget(backend: &impl Backend, key: &Key) -> Can {
    match usage_of(backend, key, IfUnused::Keep).await {
        Err(error) if error.kind() == ErrorKind::Unsupported => Err(Unkept::Cannot("it cannot forget unused names")),
        Err(error) => Err(error.into()),
        Ok(_) => Ok(()),
    }
}

async fn usage_of(backend: &impl Inspect, key: &Key, then: IfUnused) -> Result<Usage, Error> {
    Ok(only_answer(backend.usage(std::slice::from_ref(key), Duration::ZERO, then).await?))
}

async fn forget(backend: &impl Inspect, key: &Key, unused_for: Duration) -> Result<Usage, Error> {
    Ok(only_answer(backend.usage(std::slice::from_ref(key), unused_for, IfUnused::Forget).await?))
}

/// Whether a search for unused names finds this name.
async fn is_listed(backend: &impl Inspect, name: &str) -> Result<bool, Error> {
    let (pattern, mut after) = (Pattern::new(format!("{NAME}*")), None);
    loop {
        let page = backend.names_page(&pattern, Duration::ZERO, after.as_deref()).await?;
        if page.keys.iter().any(|key| key.as_str() == name) {
            return Ok(true);
        }
        after = page.next;
        if after.is_none() {
            return Ok(false);
        }
    }
}
