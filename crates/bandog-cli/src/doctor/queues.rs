//! The checks of work queues.

use std::time::Duration;

use bandog::{
    Client, Pattern,
    admin::Finding,
    work::{ClientWork, Phase},
};
use futures_util::{StreamExt, TryStreamExt};

/// Maximum number of queues that are checked.
const MOST: usize = 100;
/// The age from which on a dead element is a finding.
const DEAD: Duration = Duration::from_secs(86_400);
/// The time from which on a ready element without a worker is a finding.
const WAITING: Duration = Duration::from_secs(3600);

/// The findings about the first queues of a store. Empty if it has no queues, or this user may not read them.
pub(super) async fn findings(client: &Client) -> Vec<Finding> {
    check(client).await.unwrap_or_default()
}

async fn check(client: &Client) -> bandog::Result<Vec<Finding>> {
    let names: Vec<String> = client.work_queues(&Pattern::all())?.take(MOST).try_collect().await?;
    let (mut dead, mut waiting) = (Vec::new(), Vec::new());
    for name in &names {
        let queue = client.work_queue::<Vec<u8>>(name)?;
        let status = queue.status().await?;
        if status.workers.is_empty()
            && !status.settings.is_paused
            && status.oldest.is_some_and(|oldest| oldest >= WAITING)
        {
            waiting.push(name.as_str());
        }
        if status.count(Phase::Dead) > 0
            && let Some(first) = queue.elements(Phase::Dead).next().await
            && first?.age.is_some_and(|age| age >= DEAD)
        {
            dead.push(name.as_str());
        }
    }
    let mut findings = Vec::new();
    if !dead.is_empty() {
        findings.push(Finding::advice(
            "dead-elements",
            format!("elements that were pushed more than a day ago are dead in {}", listed(&dead)),
            "see `bandog queue NAME dead`; then `retry` or `remove` them",
        ));
    }
    if !waiting.is_empty() {
        findings.push(Finding::advice(
            "no-worker",
            format!("elements have waited for more than an hour, and no worker runs, in {}", listed(&waiting)),
            "start `bandog work NAME -- CMD`, or the program that works on it",
        ));
    }
    Ok(findings)
}

/// The first names.
fn listed(names: &[&str]) -> String {
    const SHOWN: usize = 5;
    let shown = names.iter().take(SHOWN).map(|name| format!("{name:?}")).collect::<Vec<_>>().join(", ");
    match names.len().checked_sub(SHOWN).filter(|more| *more > 0) {
        Some(more) => format!("{shown} and {more} more queues"),
        None => shown,
    }
}
