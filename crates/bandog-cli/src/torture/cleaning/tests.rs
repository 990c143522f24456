use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;

const LIMIT: Duration = Duration::from_secs(3600);

/// Removes the names of a cluster: `gone` is free, `held` stays held, and the node of `dead` does not answer.
async fn removed(names: &[&str], patience: Duration) -> (Cleaning, Duration, usize) {
    let (since, calls) = (Instant::now(), AtomicUsize::new(0));
    let forget = async |name: &str| {
        calls.fetch_add(usize::from(name == "held"), Ordering::Relaxed);
        match name {
            "gone" => Ok(true),
            "held" => Ok(false),
            _ => Err(Error::unavailable("no node has the slot")),
        }
    };
    let names = names.iter().map(ToString::to_string).collect();
    let cleaning = tokio::time::timeout(LIMIT, remove(forget, names, Instant::now() + patience)).await;
    (cleaning.expect("it never ends"), since.elapsed(), calls.into_inner())
}

#[tokio::test(start_paused = true)]
async fn a_dead_node_and_a_name_that_stays_held_end_the_cleaning() {
    let patience = Duration::from_secs(20);
    let (cleaning, took, calls) = removed(&["held", "dead", "gone"], patience).await;
    assert_eq!(cleaning.held, ["held"]);
    assert_eq!(cleaning.not_removed.unwrap().0, ["dead"]);
    assert!((patience..=patience + OUT_OF_REACH + 2 * INTERVAL).contains(&took), "{took:?}");
    assert!(calls > 100, "the held name was tried {calls} times");
}

#[tokio::test(start_paused = true)]
async fn each_name_has_its_limit() {
    let (cleaning, took, _) = removed(&["gone"], Duration::ZERO).await;
    assert!(cleaning.left_behind().is_empty() && took < INTERVAL, "{took:?}");
    let (cleaning, took, _) = removed(&["held"], 2 * OUT_OF_REACH).await;
    assert_eq!(cleaning.left_behind(), ["held"]);
    assert!((2 * OUT_OF_REACH..=2 * OUT_OF_REACH + 2 * INTERVAL).contains(&took), "{took:?}");
    // A fault may be temporary, even if there is no time to wait for held names.
    let (cleaning, took, _) = removed(&["dead"], Duration::ZERO).await;
    assert_eq!(cleaning.left_behind(), ["dead"]);
    assert!((OUT_OF_REACH..=OUT_OF_REACH + 2 * INTERVAL).contains(&took), "{took:?}");
}
