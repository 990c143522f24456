//! What the operations on a work queue do to its rows.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, SystemTime},
};

use super::{
    Change, Delivered, Element, ElementId, ElementRow, Extend, Extended, Headers, NewElement, Outcome, Phase, Pushed,
    QueueSettings, QueueStatus, Rate, Rows, Settle, SettleEnd, Settled, Take, Taken, When, read_worker_rows,
    rows::{Position, micros},
    write_worker_row,
};
use crate::{Fence, PORTION, Portion, structures::Cursor};

/// The time for which a push is remembered.
pub const REMEMBER_PUSH: Duration = Duration::from_secs(300);
/// Maximum number of elements that one step wakes, gives up or forgets beside its own work.
pub const SIDE_WORK: usize = 100;
/// Maximum number of elements that one call of [`change`] changes.
pub const MAX_CHANGES: usize = 1000;

/// The present time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Now {
    /// The wall clock, in µs since 1970: for delays, windows and rates.
    pub wall: u64,
    /// The clock of leases, in µs.
    pub lease: u64,
}

/// A time in µs since 1970.
pub fn wall_micros(time: SystemTime) -> u64 {
    micros(time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default())
}

/// Adds elements.
///
/// # Errors
/// Those of the store, as in all functions of this module.
pub fn push<R: Rows>(rows: &mut R, elements: &[NewElement], now: Now) -> Result<Vec<Pushed>, R::Error> {
    let Some(first) = elements.first() else { return Ok(Vec::new()) };
    // More than the push adds: itself, ids and results.
    rows.forget(now.wall, SIDE_WORK.max(elements.len() * 3))?;
    let is_repeated = rows.was_pushed(first.id)?;
    let mut answers = Vec::with_capacity(elements.len());
    let mut is_ready = false;
    for element in elements {
        if let Some(once) = &element.once {
            let used = rows.once(&once.id)?;
            if let Some((id, until)) = used
                && (until > now.wall || is_repeated)
            {
                answers.push(Pushed { id, is_new: id == element.id });
                continue;
            }
            rows.set_once(&once.id, element.id, now.wall.saturating_add(micros(once.window)))?;
        }
        answers.push(Pushed { id: element.id, is_new: true });
        if !is_repeated {
            is_ready |= insert(rows, element, now)?;
        }
    }
    if !is_repeated {
        rows.set_pushed(first.id, now.wall.saturating_add(micros(REMEMBER_PUSH)))?;
    }
    if is_ready {
        rows.ring()?;
    }
    Ok(answers)
}

/// Adds an element. Returns whether it is ready.
fn insert<R: Rows>(rows: &mut R, new: &NewElement, now: Now) -> Result<bool, R::Error> {
    let due = match new.when {
        When::Now => now.wall,
        When::After(delay) => now.wall.saturating_add(micros(delay)),
        When::At(time) => wall_micros(time).max(now.wall),
    };
    let mut element = Element {
        id: new.id,
        phase: Phase::Blocked,
        at: now.wall,
        place: due,
        pushed: now.wall,
        priority: new.priority,
        order_key: new.order_key.clone(),
        attempt: 0,
        fence: Fence::new(0),
        taken_by: None,
        keep_result: new.keep_result,
        before: new.before,
        waits_for: new.waits_for,
        is_cancelled: false,
    };
    if new.waits_for == 0 {
        admit(rows, &mut element, now)?;
    }
    rows.insert(&element, &new.payload)?;
    Ok(element.phase == Phase::Ready)
}

/// Makes an element ready or delayed, unless its key of order blocks it.
fn admit<R: Rows>(rows: &mut R, element: &mut Element, now: Now) -> Result<(), R::Error> {
    if let Some(key) = element.order_key.clone()
        && (rows.has_head(&key)? || rows.blocked(&key)?.is_some_and(|first| first.id != element.id))
    {
        (element.phase, element.at) = (Phase::Blocked, now.wall);
        return Ok(());
    }
    admit_head(element, now);
    Ok(())
}

/// Makes an element that nothing blocks ready or delayed.
fn admit_head(element: &mut Element, now: Now) {
    let phase = if element.place > now.wall { Phase::Delayed } else { Phase::Ready };
    (element.phase, element.at) = (phase, element.place);
}

/// Takes elements.
pub fn take<R: Rows>(rows: &mut R, take: &Take, now: Now) -> Result<Taken, R::Error> {
    take_within(rows, take, &mut take.portion(), now)
}

/// Takes elements in one of several steps of a take, which share its portion.
pub fn take_within<R: Rows>(rows: &mut R, take: &Take, portion: &mut Portion, now: Now) -> Result<Taken, R::Error> {
    let mut taken = Taken::default();
    if take.is_repeated {
        let earlier = rows.taken_by(take.id)?;
        taken.has_more = take.at_most > 0 || !earlier.is_empty();
        for element in earlier {
            if portion.takes(rows.payload_len(element.id)?) {
                taken.elements.push(deliver(rows, &element, now)?);
            } else {
                hand_back(rows, element, take.rest_after, now)?;
            }
        }
        return Ok(taken);
    }
    wake(rows, now)?;
    let settings = rows.settings()?;
    let (mut budget, mut wait) = budget(rows, &settings, take.at_most, now)?;
    let (limit, interval) = (budget, settings.rate.map(Pace::of));
    let mut is_cut = false;
    while budget > 0 && !is_cut && (taken.died as usize) < SIDE_WORK {
        let ready = rows.first(Phase::Ready, budget as usize)?;
        if ready.is_empty() {
            break;
        }
        for mut element in ready {
            if element.attempt >= take.deliveries {
                let error = rows.body(element.id)?.error;
                let error =
                    error.unwrap_or_else(|| format!("no worker has completed it in {} deliveries", element.attempt));
                die(rows, &mut element, &error, now)?;
                taken.died += 1;
                continue;
            }
            is_cut = !portion.takes(rows.payload_len(element.id)?);
            if is_cut {
                break;
            }
            element.attempt += 1;
            element.fence = rows.next_fence()?;
            (element.phase, element.at) = (Phase::Taken, now.lease.saturating_add(micros(take.lease)));
            element.taken_by = Some(take.id);
            rows.update(&element)?;
            taken.elements.push(deliver(rows, &element, now)?);
            budget -= 1;
        }
    }
    if let Some(pace) = interval
        && limit > budget
    {
        let from = rows.next_delivery()?.max(now.wall);
        let next = from.saturating_add(pace.interval.saturating_mul(u64::from(limit - budget)));
        rows.set_next_delivery(next)?;
        wait = pace.allows(next.saturating_sub(now.wall)).1;
    }
    let is_full = limit == take.at_most && budget == 0;
    taken.has_more = is_cut || is_full && !rows.first(Phase::Ready, 1)?.is_empty();
    taken.next = next(rows, wait, now)?.filter(|_| !settings.is_paused);
    Ok(taken)
}

/// Makes elements ready whose delay or lease has ended.
fn wake<R: Rows>(rows: &mut R, now: Now) -> Result<(), R::Error> {
    for mut element in rows.first(Phase::Delayed, SIDE_WORK)?.into_iter().take_while(|element| element.at <= now.wall) {
        element.phase = Phase::Ready;
        rows.update(&element)?;
    }
    for mut element in rows.first(Phase::Taken, SIDE_WORK)?.into_iter().take_while(|element| element.at <= now.lease) {
        if element.is_cancelled {
            end(rows, &element, &Outcome::Cancelled, now)?;
            continue;
        }
        (element.phase, element.at, element.taken_by) = (Phase::Ready, element.place, None);
        rows.update(&element)?;
    }
    Ok(())
}

/// The number of elements that the settings allow, and the time until the rate allows one.
fn budget<R: Rows>(
    rows: &mut R,
    settings: &QueueSettings,
    at_most: u32,
    now: Now,
) -> Result<(u32, Option<u64>), R::Error> {
    if settings.is_paused {
        return Ok((0, None));
    }
    let mut budget = at_most;
    if let Some(limit) = settings.concurrency {
        let taken = rows.count(Phase::Taken)?;
        budget = budget.min(u32::try_from(u64::from(limit.get()).saturating_sub(taken)).unwrap_or(u32::MAX));
    }
    let Some(rate) = settings.rate else { return Ok((budget, None)) };
    let pace = Pace::of(rate);
    let ahead = rows.next_delivery()?.saturating_sub(now.wall);
    let (allowed, wait) = pace.allows(ahead);
    Ok((budget.min(u32::try_from(allowed).unwrap_or(u32::MAX)), wait))
}

/// How a rate is kept: in no period are more elements delivered than it says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pace {
    /// The number of elements that can be delivered at once.
    pub burst: u32,
    /// The time, in µs, after which one more can be delivered.
    pub interval: u64,
}

impl Pace {
    /// A fiftieth of the deliveries, at least one, may come at once; the others are spread over the period.
    pub fn of(rate: Rate) -> Self {
        let deliveries = rate.deliveries.get();
        let burst = (deliveries / 50).max(1);
        let spread = u64::from(deliveries - burst) + 1;
        Self { burst, interval: micros(rate.per).div_ceil(spread).max(1) }
    }

    /// The number of elements that can be delivered now, and if it is 0, the time in µs until one can be. `ahead`: the time in µs
    /// until the next delivery, if they were spread evenly.
    fn allows(self, ahead: u64) -> (u64, Option<u64>) {
        let allowed = u64::from(self.burst).saturating_sub(ahead.div_ceil(self.interval));
        let wait =
            ahead.saturating_add(self.interval).saturating_sub(self.interval.saturating_mul(u64::from(self.burst)));
        (allowed, (allowed == 0).then_some(wait))
    }
}

/// The time until an element may become ready. `wait`: until the rate allows one.
fn next<R: Rows>(rows: &mut R, wait: Option<u64>, now: Now) -> Result<Option<Duration>, R::Error> {
    let delayed = rows.first(Phase::Delayed, 1)?.first().map(|element| element.at.saturating_sub(now.wall));
    let taken = rows.first(Phase::Taken, 1)?.first().map(|element| element.at.saturating_sub(now.lease));
    Ok([delayed, taken, wait].into_iter().flatten().min().map(Duration::from_micros))
}

/// What the taker gets of an element.
fn deliver<R: Rows>(rows: &mut R, element: &Element, now: Now) -> Result<Delivered, R::Error> {
    let body = rows.body(element.id)?;
    Ok(Delivered {
        id: element.id,
        fence: element.fence,
        attempt: element.attempt,
        payload: body.payload,
        age: since(element.pushed, now),
        error: body.error,
    })
}

fn since(time: u64, now: Now) -> Duration {
    Duration::from_micros(now.wall.saturating_sub(time))
}

/// Makes an element dead.
fn die<R: Rows>(rows: &mut R, element: &mut Element, error: &str, now: Now) -> Result<(), R::Error> {
    (element.phase, element.at, element.taken_by) = (Phase::Dead, now.wall, None);
    rows.update(element)?;
    rows.set_texts(element.id, Some(error), None)?;
    keep(rows, element, &Outcome::Failed(error.to_owned()), now)?;
    let key = element.order_key.clone();
    key.map_or(Ok(()), |key| unblock(rows, &key, now))
}

/// Removes an element that has ended.
fn end<R: Rows>(rows: &mut R, element: &Element, outcome: &Outcome, now: Now) -> Result<(), R::Error> {
    rows.remove(element.id)?;
    keep(rows, element, outcome, now)?;
    if let (Some(next), Outcome::Done(_)) = (element.before, outcome)
        && let Some(mut next) = rows.element(next)?
        && next.waits_for > 0
    {
        next.waits_for -= 1;
        if next.waits_for == 0 {
            admit(rows, &mut next, now)?;
        }
        rows.update(&next)?;
        if next.phase == Phase::Ready {
            rows.ring()?;
        }
    }
    match &element.order_key {
        Some(key) if element.phase != Phase::Dead => unblock(rows, key, now),
        _ => Ok(()),
    }
}

/// Keeps the result of an element, if its pusher has asked for it.
fn keep<R: Rows>(rows: &mut R, element: &Element, outcome: &Outcome, now: Now) -> Result<(), R::Error> {
    let Some(time) = element.keep_result else { return Ok(()) };
    rows.set_result(element.id, outcome, now.wall.saturating_add(micros(time)))?;
    rows.ring_result(element.id.client)
}

/// The next element with this key of order can be taken, if no other one is ready, delayed or taken.
fn unblock<R: Rows>(rows: &mut R, key: &str, now: Now) -> Result<(), R::Error> {
    if !rows.has_head(key)?
        && let Some(mut next) = rows.blocked(key)?
    {
        admit_head(&mut next, now);
        rows.update(&next)?;
        rows.ring()?;
    }
    Ok(())
}

/// Extends leases.
pub fn extend<R: Rows>(rows: &mut R, extend: &Extend, now: Now) -> Result<Vec<Extended>, R::Error> {
    let mut answers = Vec::with_capacity(extend.deliveries.len());
    for (delivery, progress) in &extend.deliveries {
        let element = rows.element(delivery.id)?;
        let held = element.filter(|element| element.phase == Phase::Taken && element.fence == delivery.fence);
        let Some(mut element) = held else {
            answers.push(Extended::Lost);
            continue;
        };
        element.at = now.lease.saturating_add(micros(extend.lease));
        rows.update(&element)?;
        if let Some(progress) = progress {
            let error = rows.body(delivery.id)?.error;
            rows.set_texts(
                delivery.id,
                error.as_deref(),
                Some(progress).filter(|text| !text.is_empty()).map(|text| &**text),
            )?;
        }
        answers.push(if element.is_cancelled { Extended::Cancelled } else { Extended::Held });
    }
    Ok(answers)
}

/// Ends deliveries.
pub fn settle<R: Rows>(rows: &mut R, settles: &[Settle], now: Now) -> Result<Vec<Settled>, R::Error> {
    let settled = settles.iter().map(|settle| settle_one(rows, settle, now)).collect::<Result<_, _>>()?;
    // The takers that the limit has kept out.
    if rows.settings()?.concurrency.is_some() && !rows.first(Phase::Ready, 1)?.is_empty() {
        rows.ring()?;
    }
    Ok(settled)
}

fn settle_one<R: Rows>(rows: &mut R, settle: &Settle, now: Now) -> Result<Settled, R::Error> {
    let Some(mut element) = rows.element(settle.delivery.id)? else { return Ok(Settled::Absent) };
    if element.fence != settle.delivery.fence {
        return Ok(Settled::Lost);
    }
    let is_taken = element.phase == Phase::Taken;
    match &settle.end {
        // Also after the end of the lease, because no later delivery has begun.
        SettleEnd::Done(result) => end(rows, &element, &Outcome::Done(result.clone()), now)?,
        SettleEnd::Fail(_) if element.phase == Phase::Dead => {}
        SettleEnd::Fail(_) if element.is_cancelled => end(rows, &element, &Outcome::Cancelled, now)?,
        SettleEnd::Fail(error) => die(rows, &mut element, error, now)?,
        SettleEnd::Retry(..) | SettleEnd::HandBack(_) if element.phase == Phase::Dead => return Ok(Settled::Lost),
        // It was settled before, or its lease has ended.
        SettleEnd::Retry(..) | SettleEnd::HandBack(_) if !is_taken => {}
        SettleEnd::HandBack(after) => hand_back(rows, element, *after, now)?,
        SettleEnd::Retry(..) if element.is_cancelled => end(rows, &element, &Outcome::Cancelled, now)?,
        SettleEnd::Retry(after, error) => {
            element.place = now.wall.saturating_add(micros(*after));
            element.taken_by = None;
            admit_head(&mut element, now);
            rows.update(&element)?;
            rows.set_texts(element.id, Some(error), None)?;
            rows.ring()?;
        }
    }
    Ok(Settled::Applied)
}

/// Makes a taken element ready at its place, as if it had not been delivered, or delayed by this time.
fn hand_back<R: Rows>(rows: &mut R, mut element: Element, after: Duration, now: Now) -> Result<(), R::Error> {
    if element.is_cancelled {
        return end(rows, &element, &Outcome::Cancelled, now);
    }
    element.attempt = element.attempt.saturating_sub(1);
    (element.phase, element.taken_by) = (Phase::Ready, None);
    if !after.is_zero() {
        (element.phase, element.place) = (Phase::Delayed, now.wall.saturating_add(micros(after)));
    }
    element.at = element.place;
    rows.update(&element)?;
    rows.ring()
}

/// The elements with these ids, or their results.
pub fn find<R: Rows>(
    rows: &mut R,
    ids: &[ElementId],
    payload: usize,
    now: Now,
) -> Result<Vec<Option<ElementRow>>, R::Error> {
    let mut portions = [Portion::new(usize::MAX, PORTION); 2];
    ids.iter().map(|id| find_one(rows, *id, payload, &mut portions, now)).collect()
}

/// `portions`: of payloads and of results.
fn find_one<R: Rows>(
    rows: &mut R,
    id: ElementId,
    payload: usize,
    [payloads, results]: &mut [Portion; 2],
    now: Now,
) -> Result<Option<ElementRow>, R::Error> {
    if let Some(element) = rows.element(id)? {
        let mut row = row(rows, element, payload, now)?;
        if !payloads.takes(row.payload.len()) {
            row.payload.clear();
        }
        return Ok(Some(row));
    }
    let result = rows.result(id)?.filter(|(_, until)| *until > now.wall);
    let length = |outcome: &Outcome| match outcome {
        Outcome::Done(bytes) => bytes.len(),
        Outcome::Failed(error) => error.len(),
        Outcome::Cancelled => 0,
    };
    Ok(result.map(|(outcome, _)| ElementRow {
        id,
        phase: Phase::Ended,
        age: None,
        left: None,
        priority: super::Priority::default(),
        order_key: None,
        attempt: 0,
        fence: Fence::new(0),
        taker: None,
        headers: Headers::default(),
        payload: Vec::new(),
        payload_len: 0,
        error: None,
        progress: None,
        is_cancelled: false,
        outcome: Some(outcome).filter(|outcome| results.takes(length(outcome))),
    }))
}

/// `payload`: the maximum number of its bytes in the row.
fn row<R: Rows>(rows: &mut R, element: Element, payload: usize, now: Now) -> Result<ElementRow, R::Error> {
    let mut body = rows.body(element.id)?;
    let payload_len = body.payload.len();
    body.payload.truncate(payload);
    let left = match element.phase {
        Phase::Delayed => Some(element.at.saturating_sub(now.wall)),
        Phase::Taken => Some(element.at.saturating_sub(now.lease)),
        _ => None,
    };
    let outcome = body.error.as_ref().filter(|_| element.phase == Phase::Dead);
    Ok(ElementRow {
        id: element.id,
        phase: element.phase,
        age: Some(since(element.pushed, now)),
        left: left.map(Duration::from_micros),
        priority: element.priority,
        order_key: element.order_key,
        attempt: element.attempt,
        fence: element.fence,
        taker: element.taken_by.map(|take| take.taker),
        outcome: outcome.map(|error| Outcome::Failed(error.clone())),
        headers: Headers::default(),
        payload: body.payload,
        payload_len,
        error: body.error,
        progress: body.progress,
        is_cancelled: element.is_cancelled,
    })
}

/// The state of the queue.
pub fn status<R: Rows>(rows: &mut R, now: Now) -> Result<QueueStatus, R::Error> {
    let mut counts = BTreeMap::new();
    for phase in Phase::IN_QUEUE {
        counts.insert(phase, rows.count(phase)?);
    }
    let oldest = rows.first(Phase::Ready, 1)?.first().map(|element| since(element.place, now));
    let texts = rows.workers(now.wall)?;
    // A text of a newer program is left out.
    let workers = texts.iter().filter_map(|text| read_worker_rows([text.as_str()]).ok()).flatten().collect();
    Ok(QueueStatus { settings: rows.settings()?, counts, oldest, workers })
}

/// A page of elements.
pub fn page<R: Rows>(
    rows: &mut R,
    phase: Phase,
    from: &Cursor,
    about: usize,
    payload: usize,
    now: Now,
) -> Result<(Vec<ElementRow>, Option<Cursor>), R::Error> {
    let elements = match read_cursor(from) {
        Some(last) => rows.after(phase, &last, about)?,
        None => rows.first(phase, about)?,
    };
    let (mut found, mut last, number) = (Vec::new(), None, elements.len());
    let mut portion = Portion::new(usize::MAX, PORTION);
    for element in elements {
        let cursor = write_cursor(&element);
        let row = row(rows, element, payload, now)?;
        if !portion.takes(row.payload.len()) {
            return Ok((found, last));
        }
        found.push(row);
        last = Some(cursor);
    }
    Ok((found, last.filter(|_| number == about)))
}

fn write_cursor(element: &Element) -> Cursor {
    Cursor(format!("{} {} {}", element.priority.get(), element.at, element.id))
}

/// The position in a cursor. None: the beginning.
fn read_cursor(cursor: &Cursor) -> Option<Position> {
    let mut parts = cursor.0.split(' ');
    let priority = super::Priority::new(parts.next()?.parse().ok()?).ok()?;
    Some(Position { priority, at: parts.next()?.parse().ok()?, id: parts.next()?.parse().ok()? })
}

/// Changes the queue.
pub fn change<R: Rows>(rows: &mut R, change: &Change, now: Now) -> Result<u64, R::Error> {
    match change {
        Change::Pause(is_paused) => set(rows, |settings| settings.is_paused = *is_paused),
        Change::Concurrency(limit) => set(rows, |settings| settings.concurrency = *limit),
        Change::Rate(limit) => set(rows, |settings| settings.rate = *limit),
        Change::Retry(ids) => {
            let dead = chosen(rows, ids, Phase::Dead)?;
            for mut element in dead.iter().cloned() {
                (element.attempt, element.place, element.is_cancelled) = (0, now.wall, false);
                admit(rows, &mut element, now)?;
                rows.update(&element)?;
                rows.forget_result(element.id)?;
            }
            rows.ring()?;
            Ok(dead.len() as u64)
        }
        Change::Remove(ids) => {
            let mut removed = 0;
            for id in ids {
                let Some(mut element) = rows.element(*id)? else { continue };
                removed += 1;
                if element.phase == Phase::Taken {
                    element.is_cancelled = true;
                    rows.update(&element)?;
                } else {
                    end(rows, &element, &Outcome::Cancelled, now)?;
                }
            }
            Ok(removed)
        }
        Change::Withdraw(ids) => {
            let mut withdrawn = 0;
            for id in ids {
                let element =
                    rows.element(*id)?.filter(|element| element.attempt == 0 && element.phase != Phase::Taken);
                let Some(element) = element else { continue };
                end(rows, &element, &Outcome::Cancelled, now)?;
                withdrawn += 1;
            }
            Ok(withdrawn)
        }
        Change::Purge(phase) => {
            let elements = if *phase == Phase::Taken { Vec::new() } else { rows.first(*phase, MAX_CHANGES)? };
            for element in &elements {
                end(rows, element, &Outcome::Cancelled, now)?;
            }
            Ok(elements.len() as u64)
        }
        Change::Worker(worker, keep) => {
            rows.forget(now.wall, SIDE_WORK)?;
            rows.set_worker(worker.id, &write_worker_row(worker), now.wall.saturating_add(micros(*keep)))?;
            Ok(0)
        }
    }
}

/// Changes one of the settings.
fn set<R: Rows>(rows: &mut R, set: impl FnOnce(&mut QueueSettings)) -> Result<u64, R::Error> {
    let mut settings = rows.settings()?;
    set(&mut settings);
    rows.set_settings(&settings)?;
    rows.ring()?;
    Ok(0)
}

/// The elements with these ids that are in this phase. No ids: the first ones.
fn chosen<R: Rows>(rows: &mut R, ids: &[ElementId], phase: Phase) -> Result<Vec<Element>, R::Error> {
    if ids.is_empty() {
        return rows.first(phase, MAX_CHANGES);
    }
    let each: BTreeSet<ElementId> = ids.iter().copied().collect();
    let mut elements = Vec::new();
    for id in each {
        elements.extend(rows.element(id)?.filter(|element| element.phase == phase));
    }
    Ok(elements)
}
