//! A ticket office: a reservation holds a seat for a quarter of an hour, and a job counts the sold seats each minute.

use std::{
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use bandog::{
    Client, Fence, Guard,
    schedule::{Run, Shared},
};

/// Time for which a seat is reserved.
pub const RESERVED: Duration = Duration::from_secs(15 * 60);

/// The values that the job shares with the program.
#[derive(Debug, Default)]
pub struct Office {
    /// Number of reports that were sent.
    pub reports: AtomicU32,
}

/// Reserves a seat. `None`: another customer has it.
///
/// # Errors
/// The store does not answer.
pub async fn reserve(client: &Client, seat: u32) -> bandog::Result<Option<Guard>> {
    client.mutex(format!("seat-{seat}")).lease(RESERVED).try_lock().await
}

/// Waits for a seat that another customer has reserved, for at most this time. The answer is the fence of the
/// reservation, which is greater than that of each one before.
///
/// # Errors
/// The store does not answer.
pub async fn reserve_within(client: &Client, seat: u32, time: Duration) -> bandog::Result<Option<Fence>> {
    let guard = client.mutex(format!("seat-{seat}")).lease(RESERVED).try_lock_for(time).await?;
    Ok(guard.map(|guard| guard.fence()))
}

/// Sends a report each minute, in one replica. It takes ten seconds, and after a crash another replica repeats it.
#[bandog::scheduled(cron = "0 * * * * ?", on_crash = "retry", lease = "30s")]
pub async fn report(run: Run, office: Shared<Office>) {
    tokio::time::sleep(Duration::from_secs(10)).await;
    office.reports.fetch_add(1, Ordering::SeqCst);
    run.note("the report is sent");
}
