//! What clients have counted of their caches, for operators: one map of the store, which expires.
//!
//! A field is the id of a client, a blank and the name of the cache. Its value is the time of the report in milliseconds since
//! 1970 by the clock of the client, a blank, and JSON.

use std::time::{Duration, UNIX_EPOCH};

use super::{Action, Cursor, MapOp, ObjectOp, Op, Part, Structure, Structures, millis};
use crate::{ClientId, Clock, Key, PORTION, Portion, Result};

/// The name of the map.
const NAME: &str = "bandog:caches";
/// A report is removed when it is older than this, and the map expires after it.
const LASTING: Duration = Duration::from_secs(3600);
/// A report that is older than this is not shown.
const SHOWN: Duration = Duration::from_secs(300);
/// Number of fields that are read together.
const PAGE: usize = 500;

/// What a client has counted of a cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CacheReport {
    /// The cache, with the prefix.
    pub cache: Key,
    /// The client.
    pub client: ClientId,
    /// The age of the report, by the clocks of both clients.
    pub age: Duration,
    /// The client and its counts: JSON.
    pub json: String,
}

/// The operations that write these reports of a client.
///
/// # Errors
/// None: the name of the map is allowed.
pub fn write_cache_reports(client: ClientId, clock: Clock, reports: &[(Key, String)]) -> Result<Vec<Op>> {
    let now = since_1970(clock);
    let key = Key::new(NAME)?;
    let entry = |(cache, json): &(Key, String)| {
        (format!("{client} {cache}").into_bytes(), format!("{} {json}", millis(now)).into_bytes())
    };
    let put = MapOp::Put(reports.iter().map(entry).collect());
    Ok(vec![Op::new(&key, put), Op::new(&key, Action::Object(Structure::Map, ObjectOp::Expire(LASTING)))])
}

/// The reports that are shown, and the operation that removes the old ones.
///
/// # Errors
/// As [`Structures::run`].
pub async fn read_cache_reports(structures: &dyn Structures, clock: Clock) -> Result<(Vec<CacheReport>, Option<Op>)> {
    let now = since_1970(clock);
    let (key, mut from) = (Key::new(NAME)?, Cursor::default());
    let (mut reports, mut old) = (Vec::new(), Vec::new());
    loop {
        let page = structures.page(&key, Part::Entries, &from, Portion::new(PAGE, PORTION)).await?;
        for [field, value] in page.items.as_chunks().0 {
            match read(field, value, now) {
                Some(report) if report.age <= SHOWN => reports.push(report),
                Some(report) if report.age <= LASTING => {}
                Some(_) | None => old.push(field.clone()),
            }
        }
        let Some(next) = page.next else { break };
        from = next;
    }
    reports.sort_by(|a: &CacheReport, b| (a.cache.as_str(), a.client).cmp(&(b.cache.as_str(), b.client)));
    reports.dedup_by(|a, b| (&a.cache, a.client) == (&b.cache, b.client));
    Ok((reports, (!old.is_empty()).then(|| Op::new(&key, MapOp::Remove(old)))))
}

fn since_1970(clock: Clock) -> Duration {
    clock.wall().duration_since(UNIX_EPOCH).unwrap_or_default()
}

fn read(field: &[u8], value: &[u8], now: Duration) -> Option<CacheReport> {
    let (client, cache) = str::from_utf8(field).ok()?.split_once(' ')?;
    let (written, json) = str::from_utf8(value).ok()?.split_once(' ')?;
    let age = now.saturating_sub(Duration::from_millis(written.parse().ok()?));
    Some(CacheReport { cache: Key::new(cache).ok()?, client: client.parse().ok()?, age, json: json.to_owned() })
}
