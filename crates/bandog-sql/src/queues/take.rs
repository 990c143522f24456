//! Takes.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use async_trait::async_trait;
use bandog_core::{
    Key,
    queues::{ElementId, Phase, Settle, SettleEnd, Take, Taken, rules::SIDE_WORK},
};
use futures_util::future::join;

use super::{
    elements::{id_text, read_delivered, read_id, take_numbers},
    hints::{Found, Scan},
    locked::{self, Freed, ids_and_channels, lock},
    settle::Settlement,
    tables,
    time::{duration, micros},
};
use crate::{client::Statement, context::Context, fault::Fault, job::Query, session::Link, value::Parameter};

/// Maximum number of elements that one statement wakes of each phase.
const MAX_WOKEN: i64 = 100;
/// Maximum number of rounds of one take. Each further one does side work first, such as for elements that die.
const MAX_ROUNDS: usize = SIDE_WORK + 10;

/// Takes, one after another.
pub(super) struct Takes {
    takes: Vec<Take>,
    /// Whether an attempt has failed. It may have taken elements.
    was_tried: AtomicBool,
}

impl Takes {
    pub(super) fn new(takes: &[Take]) -> Self {
        Self { takes: takes.to_vec(), was_tried: AtomicBool::new(false) }
    }
}

#[async_trait]
impl Query for Takes {
    type Output = Vec<Taken>;

    async fn run(&self, link: &Link, context: &Context) -> Result<Vec<Taken>, Fault> {
        tables::ensure(link, context).await?;
        let mut all = Vec::new();
        let was_tried = self.was_tried.swap(true, Ordering::Relaxed);
        for take in &self.takes {
            // A request that was tried here goes on where it has ended.
            let (is_later, take) =
                (take.is_repeated, &Take { is_repeated: take.is_repeated || was_tried, ..take.clone() });
            #[cfg(feature = "mysql")]
            if context.options.dialect == crate::options::Dialect::MySql {
                all.push(super::mysql::take(link, context, take, is_later).await?);
                continue;
            }
            all.push(take_one(link, context, take, is_later).await?);
        }
        Ok(all)
    }
}

/// What one round of a take has found.
struct Round {
    /// Whether the row of the queue must be locked.
    must_lock: bool,
    is_paused: bool,
    /// Whether the settings have reduced the number of elements.
    is_reduced: bool,
    has_more: bool,
    /// Whether elements were left because of their bytes.
    is_cut: bool,
    /// Whether there are signals.
    has_signals: bool,
    /// When the next delayed element is due.
    next_delayed: Option<i64>,
    /// The time until the rate allows one.
    wait: Option<i64>,
    now: i64,
    /// The elements that were delivered too often.
    exhausted: Vec<ElementId>,
    /// The cancelled ones whose lease has ended.
    cancelled: Vec<ElementId>,
}

/// `is_later`: the taker has repeated the take.
async fn take_one(link: &Link, context: &Context, take: &Take, is_later: bool) -> Result<Taken, Fault> {
    let mut taken = Taken::default();
    if take.is_repeated {
        let [taker, number] = take_numbers(take.id);
        let (at_most, bytes) = (i64::from(take.at_most), i64::from(take.bytes));
        let of_take: [Parameter<'_>; 5] = [&take.queue.as_str(), &taker, &number, &at_most, &bytes];
        let rows = link.query(&context.work.of(link).postgres.taken, &of_take).await?;
        let mut others = Vec::new();
        for row in &rows {
            let delivered = read_delivered(row, 0)?;
            match row.try_get(6)? {
                true => taken.elements.push(delivered),
                false => {
                    others.push(Settle { delivery: delivered.delivery(), end: SettleEnd::HandBack(take.rest_after) })
                }
            }
        }
        if !others.is_empty() {
            // If one is locked, its lease ends.
            Settlement { queue: take.queue.clone(), settles: others }.run(link, context).await?;
        }
        taken.has_more = take.at_most > 0 || !rows.is_empty();
        if is_later || !rows.is_empty() {
            return Ok(taken);
        }
    }
    let (mut starts_anew, mut did_signals) = (false, false);
    for _ in 0..MAX_ROUNDS {
        let scan = context.work.hints.get(&take.queue).scan(starts_anew);
        let before = taken.elements.len();
        let round = round(link, context, take, &scan, &mut taken).await?;
        if round.must_lock {
            continue;
        }
        let mut has_changed = false;
        if !round.cancelled.is_empty() {
            remove_cancelled(link, context, &take.queue, &round.cancelled).await?;
            has_changed = true;
        }
        if round.has_signals && !did_signals {
            locked::apply_signals(link, context, &take.queue).await?;
            (has_changed, did_signals) = (true, true);
        }
        if !round.exhausted.is_empty() {
            taken.died += bury(link, context, take, &round.exhausted).await?;
            has_changed = true;
        }
        let is_full = round.is_cut || taken.elements.len() >= take.at_most as usize;
        taken.has_more = round.is_cut || is_full && !round.is_reduced && round.has_more;
        taken.next = next(context, &take.queue, &round).filter(|_| !round.is_paused);
        if is_full || taken.died as usize >= SIDE_WORK {
            break;
        }
        // Elements before the known places may be ready.
        let found_nothing = taken.elements.len() == before && !scan.is_full;
        if let Some(pause) = context.work.hints.get(&take.queue).pause().filter(|_| found_nothing && !has_changed) {
            taken.next = Some(taken.next.map_or(pause, |next| next.min(pause)));
            break;
        }
        if !has_changed && !found_nothing {
            break;
        }
        starts_anew = true;
    }
    Ok(taken)
}

/// Wakes elements and takes some, in one round trip.
async fn round(link: &Link, context: &Context, take: &Take, scan: &Scan, taken: &mut Taken) -> Result<Round, Fault> {
    let (texts, hints) = (&context.work.of(link).postgres, &context.work.hints);
    let queue = take.queue.as_str();
    let is_locked = hints.get(&take.queue).is_limited;
    let left = i64::from(take.at_most).saturating_sub(i64::try_from(taken.elements.len()).unwrap_or(i64::MAX));
    let (lease, deliveries) = (micros(take.lease), i64::from(take.deliveries));
    let ([taker, number], first) = (take_numbers(take.id), String::new());
    let (ats, ids): (Vec<i64>, Vec<String>) = scan.ready.iter().map(|(at, id)| (*at, id_text(*id))).unzip();
    let (ended, next_lease) = (scan.leases.map(|[ended, _]| ended), scan.leases.map_or(0, |[_, next]| next));
    let wake: [Parameter<'_>; 5] = [&queue, &scan.delayed, &ended, &first, &next_lease];
    let received = taken.elements.iter().map(|element| element.payload.len()).sum::<usize>();
    let bytes = i64::from(take.bytes).saturating_sub(i64::try_from(received).unwrap_or(i64::MAX));
    let is_begun = !taken.elements.is_empty();
    let parameters: [Parameter<'_>; 11] =
        [&queue, &left, &lease, &deliveries, &taker, &number, &ats, &ids, &is_locked, &bytes, &is_begun];
    let (woken, rows) = if is_locked {
        let lock: [Parameter<'_>; 1] = [&queue];
        let statements: [Statement<'_>; 3] =
            [(&texts.lock_queue, &lock), (&texts.wake, &wake), (&texts.take, &parameters)];
        let [locked, woken, rows] = link.whole(statements).await?;
        let is_limited = locked.first().map(|row| row.try_get(0)).transpose()?.unwrap_or(false);
        hints.change(&take.queue, |hints| hints.is_limited = is_limited);
        (woken, rows)
    } else {
        link.prepare(&texts.wake).await?;
        link.prepare(&texts.take).await?;
        let (woken, rows) = join(link.query(&texts.wake, &wake), link.query(&texts.take, &parameters)).await;
        (woken?, rows?)
    };
    let (woken, row) = (woken.first().ok_or(Fault::Broken(None))?, rows.first().ok_or(Fault::Broken(None))?);
    let ids = |texts: Vec<&str>| texts.into_iter().map(read_id).collect::<Result<Vec<_>, _>>();
    let cancelled = ids(woken.try_get(4)?)?;
    let ended = woken.try_get::<i64>(1)?.saturating_add(i64::try_from(cancelled.len()).unwrap_or(i64::MAX));
    let found = Found {
        now: woken.try_get(0)?,
        woke_all: ended < MAX_WOKEN,
        next_lease: woken.try_get(3)?,
        took: duration(row.try_get(16)?),
        woke_in: duration(woken.try_get(6)?),
    };
    let (must_lock, woke_some) = (row.try_get(0)?, woken.try_get::<i64>(1)? > 0);
    let mut places = Vec::new();
    for row in &rows {
        if row.try_get::<Option<i64>>(7)?.is_some() {
            let element = read_delivered(row, 8)?;
            let rank = usize::try_from(row.try_get::<i64>(14)?).unwrap_or(0);
            places.push((rank, row.try_get(15)?, element.id));
            taken.elements.push(element);
        }
    }
    hints.change(&take.queue, |hints| {
        hints.scanned(scan, &found);
        hints.took(scan, places, take);
        hints.is_limited |= must_lock;
        if woke_some && scan.leases.is_some() {
            hints.reset(); // They are ready at their former places.
        }
    });
    Ok(Round {
        must_lock,
        is_paused: row.try_get(1)?,
        is_reduced: row.try_get(2)?,
        has_more: row.try_get(5)?,
        is_cut: row.try_get(17)?,
        has_signals: woken.try_get(5)?,
        next_delayed: woken.try_get(2)?,
        wait: row.try_get(3)?,
        now: found.now,
        exhausted: ids(row.try_get(4)?)?,
        cancelled,
    })
}

/// The time until an element may become ready.
fn next(context: &Context, queue: &Key, round: &Round) -> Option<Duration> {
    let until = |time: i64| time.saturating_sub(round.now);
    let lease = context.work.hints.get(queue).next_lease().map(until);
    let next = [round.next_delayed.map(until), lease, round.wait].into_iter().flatten().min()?;
    Some(duration(next))
}

/// Removes cancelled elements whose lease has ended.
async fn remove_cancelled(link: &Link, context: &Context, queue: &Key, ids: &[ElementId]) -> Result<(), Fault> {
    let elements = lock(link, context, queue, ids).await?;
    let is_over = |element: &&locked::Locked| element.phase == Phase::Taken && element.is_cancelled && element.is_over;
    let over: Vec<_> = elements.iter().filter(is_over).collect();
    locked::remove(link, context, queue, &over).await
}

/// Makes elements dead that were delivered too often. Returns their number.
async fn bury(link: &Link, context: &Context, take: &Take, ids: &[ElementId]) -> Result<u32, Fault> {
    let ids = &ids[..ids.len().min(SIDE_WORK)];
    let elements = lock(link, context, &take.queue, ids).await?;
    let is_exhausted =
        |element: &&locked::Locked| element.phase == Phase::Ready && element.attempt >= i64::from(take.deliveries);
    let dead: Vec<_> = elements.iter().filter(is_exhausted).collect();
    let mut freed = Freed::default();
    dead.iter().for_each(|element| freed.add_ended(element));
    let error = |element: &&locked::Locked| {
        format!("no worker has completed it in {} deliveries", element.attempt).into_bytes()
    };
    let errors: Vec<Vec<u8>> = dead.iter().map(error).collect();
    let errors: Vec<&[u8]> = errors.iter().map(Vec::as_slice).collect();
    let (ids, channels) = ids_and_channels(&take.queue, &dead);
    let parameters: [Parameter<'_>; 4] = [&take.queue.as_str(), &ids, &errors, &channels];
    freed.end(link, context, &take.queue, &[(&context.work.of(link).postgres.bury, &parameters)]).await?;
    Ok(u32::try_from(dead.len()).unwrap_or(u32::MAX))
}
