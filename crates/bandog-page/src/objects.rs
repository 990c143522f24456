//! The steps in which the page reads some of the objects of a store. Most names of the store may be those of other programs.

use std::time::Duration;

use bandog_core::structures::{Cursor, ObjectRow, Structure};
use tokio::time::{Instant, sleep};

use crate::{
    query::WantedObjects,
    source::{ObjectsPage, Trouble},
};

/// Approximate number of names that the store examines in one step.
pub(crate) const STEP: usize = 200;
/// A request ends after the step in which it has found this number of objects.
const ENOUGH: usize = 50;
/// Maximum number of steps of a request.
pub(crate) const STEPS: usize = 50;
/// Time after which a request begins no further step.
const LIMIT: Duration = Duration::from_secs(2);
/// Duration of the pause after a step, as a multiple of the duration of the step.
const PAUSE: u32 = 4;

/// The objects from the requested cursor on, and the cursor of the next ones. `step` reads a page of the store.
///
/// # Errors
/// The first error of a step.
pub(crate) async fn part<F>(wanted: &WantedObjects, step: impl Fn(Cursor) -> F) -> Result<ObjectsPage, Trouble>
where
    F: Future<Output = Result<ObjectsPage, Trouble>>,
{
    let (begun, mut found, mut from) = (Instant::now(), Vec::new(), wanted.from.clone());
    for _ in 0..STEPS {
        let asked = Instant::now();
        let (rows, next) = step(from).await?;
        for row in rows {
            // Each page has a part of a cache.
            let known = found.iter_mut().find(|found: &&mut ObjectRow| {
                row.structure == Structure::Cache && (found.structure, &found.key) == (row.structure, &row.key)
            });
            match known {
                Some(known) => known.size += row.size,
                None => found.push(row),
            }
        }
        let Some(next) = next else { return Ok((found, None)) };
        from = next;
        if found.len() >= ENOUGH || begun.elapsed() >= LIMIT {
            break;
        }
        sleep(asked.elapsed() * PAUSE).await;
    }
    Ok((found, Some(from)))
}
