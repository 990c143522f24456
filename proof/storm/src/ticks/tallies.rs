//! The records of the jobs in the store at the end of a run.

use std::io;

use bandog::{
    Client, Key, Result,
    backend::{Record, Records},
};

use super::{
    history::{Ms, Tally},
    jobs,
    schedule::Jobs,
};

/// Maximum number of records of one request.
const RECORDS: usize = 16;

/// Reads the records of the jobs, and the number of sessions.
///
/// # Errors
/// If the store does not answer, or a job has no record.
pub(super) async fn read(client: &Client, jobs: usize) -> io::Result<(Vec<Tally>, usize)> {
    let (records, left) = read_all(client, jobs).await.map_err(io::Error::other)?;
    let tallies = records.into_iter().zip(0..).map(|(record, job)| {
        let record = record.map_err(io::Error::other)?.ok_or_else(|| io::Error::other("a job has no record"))?;
        Ok(tally(&serde_json::from_str(&record.value)?, jobs::declared(job).period))
    });
    Ok((tallies.collect::<io::Result<_>>()?, left))
}

async fn read_all(client: &Client, jobs: usize) -> Result<(Vec<Result<Option<Record>>>, usize)> {
    let names = (0..jobs).map(|job| Key::new(format!("job/{}", jobs::declared(job).name)));
    let names = names.collect::<Result<Vec<_>>>()?;
    let mut records = Vec::new();
    for names in names.chunks(RECORDS) {
        records.extend(client.records().read(names, &[]).await?.records);
    }
    Ok((records, Jobs::over(client).nodes().await?.len()))
}

/// The counters in the record of a job.
fn tally(record: &serde_json::Value, period: Ms) -> Tally {
    let ms = |key: &str| record[key].as_i64().unwrap_or_default();
    let count = |key: &str| record["counts"][key].as_u64().unwrap_or_default();
    let len = |key: &str| record[key].as_array().map_or(0, |all| all.len() as u64);
    // The anchor is a time in the record of the job. The first tick of a job with a fixed rate is at the anchor. The
    // first tick of a job with a cron expression is at the next whole second.
    let first = if period == 1000 { (ms("anchor") + 999) / 1000 * 1000 } else { ms("anchor") };
    Tally {
        first,
        watermark: ms("watermark"),
        ok: count("ok"),
        failed: count("failed") + count("cancelled"),
        skipped: count("skipped"),
        missed: count("missed"),
        lost: count("lost"),
        running: len("running"),
        queued: len("queue"),
    }
}
