//! Work queues on MySQL and MariaDB: a transaction reads and locks rows, the rules of [`bandog_core::queues::rules`] decide in
//! this program, and the last request writes all changes and commits.

mod statements;
mod transaction;
mod view;
mod written;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use bandog_core::{
    Key, Portion,
    queues::{
        Change, ElementId, Extend, Extended, Phase, Push, Pushed, Settle, Settled, Take, Taken,
        rules::{self, SIDE_WORK},
    },
};

pub(super) use self::statements::{push as push_statements, settle as settle_statements};
use self::transaction::Transaction;
use super::{
    elements::{id_bytes, read_id, take_numbers},
    time::micros,
};
use crate::{client::Statement, context::Context, fault::Fault, row::Row, session::Link, value::Parameter};

/// Number of attempts at a transaction whose queue has no row yet.
const ATTEMPTS: u32 = 3;

/// The value of a computation that cannot fail.
fn done<T>(result: Result<T, std::convert::Infallible>) -> T {
    match result {
        Ok(value) => value,
        Err(never) => match never {},
    }
}

/// Begins a transaction on a queue, and creates the row of the queue if it is missing.
async fn begin_or_create<'t, const N: usize>(
    link: &'t Link,
    context: &'t Context,
    queue: &'t Key,
    locks_queue: bool,
    first: [Statement<'_>; N],
) -> Result<(Transaction<'t>, [Vec<Row>; N]), Fault> {
    for _ in 0..ATTEMPTS {
        if let Some(begun) = Transaction::begin(link, context, queue, locks_queue, first).await? {
            return Ok(begun);
        }
        link.query(&context.work.of(link).shared.create, &[&queue.as_str()]).await?;
    }
    Err(Fault::Broken(None))
}

/// Pushes.
pub(super) async fn push(link: &Link, context: &Context, push: &Push) -> Result<Vec<Pushed>, Fault> {
    let Some(first) = push.elements.first() else { return Ok(Vec::new()) };
    let id = id_bytes(first.id);
    let id = id.as_slice();
    let remember: [Parameter<'_>; 1] = [&id];
    let first: [Statement<'_>; 1] = [(&context.work.of(link).mysql.remember, &remember)];
    let (mut transaction, [rows]) = begin_or_create(link, context, &push.queue, false, first).await?;
    transaction.view.known_push = !rows.first().ok_or(Fault::Broken(None))?.try_get::<bool>(0)?;
    transaction.find_old(context, super::kept::rows_of(push)).await?;
    let mut once = BTreeMap::new();
    for element in &push.elements {
        if let Some(id) = &element.once {
            once.entry(&*id.id).or_insert(id_bytes(element.id));
        }
    }
    if !once.is_empty() {
        let (ids, elements): (Vec<&str>, Vec<&[u8]>) = once.iter().map(|(id, by)| (*id, by.as_slice())).unzip();
        let (zeros, numbers) = (vec![0_i64; ids.len()], vec![transaction.number; ids.len()]);
        let rows = transaction.query(&transaction.texts.once, &[&ids, &zeros, &numbers, &elements]).await?;
        for row in &rows {
            let until = u64::try_from(row.try_get::<i64>(2)?).unwrap_or(0);
            transaction.view.once.insert(row.try_get(0)?, (read_id(row.try_get(1)?)?, until));
        }
    }
    let keys: BTreeSet<Arc<str>> = push.elements.iter().filter_map(|element| element.order_key.clone()).collect();
    if !transaction.view.known_push {
        transaction.lock_keys(&keys, 0).await?;
    }
    let now = transaction.view.times();
    let pushed = done(rules::push(&mut transaction.view, &push.elements, now));
    transaction.commit().await?;
    Ok(pushed)
}

/// Takes. `is_later`: the taker has repeated the take.
pub(super) async fn take(link: &Link, context: &Context, take: &Take, is_later: bool) -> Result<Taken, Fault> {
    let mut taken = Taken::default();
    if take.is_repeated {
        let ([taker, number], inline) = (take_numbers(take.id), inline_bytes(take));
        let of_take: [Parameter<'_>; 3] = [&taker, &number, &inline];
        let first: [Statement<'_>; 1] = [(&context.work.of(link).mysql.taken, &of_take)];
        let begun = Transaction::begin(link, context, &take.queue, false, first).await?;
        taken.has_more = is_later && take.at_most > 0;
        let Some((mut transaction, [rows])) = begun else { return Ok(taken) };
        let found = transaction.load(&rows)?;
        if found.is_empty() {
            transaction.abandon().await?;
            if is_later {
                return Ok(taken);
            }
        } else {
            let is_cancelled = |id: &&ElementId| transaction.view.get(**id).is_some_and(|element| element.is_cancelled);
            let cancelled: Vec<_> = found.iter().filter(is_cancelled).copied().collect();
            transaction.lock_around(&cancelled).await?;
            let now = transaction.view.times();
            taken = done(rules::take(&mut transaction.view, take, now));
            return end_take(transaction, taken).await;
        }
    }
    // Each round buries at most 100 elements.
    let mut portion = take.portion();
    for _ in 0..=SIDE_WORK {
        let left = take.at_most.saturating_sub(u32::try_from(taken.elements.len()).unwrap_or(u32::MAX));
        if left == 0 {
            break;
        }
        let round = Take { at_most: left, is_repeated: false, ..take.clone() };
        let round = take_some(link, context, &round, &mut portion).await?;
        let Some((round, has_signals)) = round else { return Ok(taken) };
        if has_signals {
            apply_signals(link, context, &take.queue).await?;
        }
        let died = round.died;
        taken.elements.extend(round.elements);
        (taken.has_more, taken.next, taken.died) = (round.has_more, round.next, taken.died + died);
        if portion.is_full() || taken.died as usize >= SIDE_WORK || died == 0 && !has_signals {
            break;
        }
    }
    Ok(taken)
}

/// Takes elements in one transaction. Returns also whether there are signals. None: there is no such queue.
async fn take_some(
    link: &Link,
    context: &Context,
    take: &Take,
    portion: &mut Portion,
) -> Result<Option<(Taken, bool)>, Fault> {
    let (hints, texts) = (&context.work.hints, &context.work.of(link).mysql);
    let is_locked = hints.get(&take.queue).is_limited;
    let (at_most, [delayed, leased]) = (i64::from(take.at_most), [1_i64, 3]);
    // The rules subtract the elements that are woken.
    let most_taken = i64::from(u32::MAX);
    let inline = inline_bytes(take);
    let of_delayed: [Parameter<'_>; 2] = [&delayed, &inline];
    let of_leased: [Parameter<'_>; 2] = [&leased, &inline];
    let around: [Parameter<'_>; 2] = [&at_most, if is_locked { &most_taken } else { &0_i64 }];
    let of_ready: [Parameter<'_>; 2] = [&at_most, &inline];
    let first: [Statement<'_>; 4] = [
        (&texts.due, &of_delayed),
        (&texts.due, &of_leased),
        (&texts.around, &around),
        (&texts.ready_to_take, &of_ready),
    ];
    let mut begun = Transaction::begin(link, context, &take.queue, is_locked, first).await?;
    let is_limited = begun.as_ref().is_some_and(|(transaction, _)| {
        let settings = transaction.view.settings;
        settings.concurrency.is_some() || settings.rate.is_some()
    });
    hints.change(&take.queue, |hints| hints.is_limited = is_limited);
    if let Some((transaction, _)) = begun.take_if(|_| is_limited && !is_locked) {
        transaction.abandon().await?;
        let around: [Parameter<'_>; 2] = [&at_most, &most_taken];
        let [delayed, leased, _, ready] = first;
        let first = [delayed, leased, (texts.around.as_str(), &around[..]), ready];
        begun = Transaction::begin(link, context, &take.queue, true, first).await?;
    }
    let Some((mut transaction, [due, over, around, ready])) = begun else { return Ok(None) };
    let due = transaction.load(&due)?;
    let over = transaction.load(&over)?;
    let row = around.first().ok_or(Fault::Broken(None))?;
    transaction.view.load_next(Phase::Delayed, row.try_get(0)?);
    transaction.view.load_next(Phase::Taken, row.try_get(1)?);
    let (has_more, has_signals) = (row.try_get::<bool>(2)?, row.try_get::<bool>(4)?);
    transaction.view.taken = u64::try_from(row.try_get::<i64>(3)?).unwrap_or(0);
    let ready = transaction.load(&ready)?;
    let of = |id: &ElementId| transaction.view.get(*id);
    let cancelled = over.iter().filter(|id| of(id).is_some_and(|element| element.is_cancelled));
    // Those that are woken now are ready, too.
    let ready = due.iter().chain(&over).chain(&ready);
    let exhausted = ready.filter(|id| of(id).is_some_and(|element| element.attempt >= take.deliveries));
    let ended: Vec<ElementId> = cancelled.chain(exhausted).copied().collect();
    transaction.lock_around(&ended).await?;
    let now = transaction.view.times();
    let mut taken = done(rules::take_within(&mut transaction.view, take, portion, now));
    // The rules see the elements only that were read.
    let is_full = taken.elements.len() == take.at_most as usize;
    taken.has_more = taken.has_more || is_full && has_more;
    Ok(Some((end_take(transaction, taken).await?, has_signals)))
}

/// The length of a payload that is read before it is known which elements the take gets. All of them together do not exceed the
/// bytes of the take.
fn inline_bytes(take: &Take) -> i64 {
    i64::from(take.bytes) / (i64::from(take.at_most) + 2 * i64::try_from(SIDE_WORK).unwrap_or(i64::MAX / 2))
}

/// Reads the long payloads of a take, and ends its transaction.
async fn end_take(transaction: Transaction<'_>, mut taken: Taken) -> Result<Taken, Fault> {
    let ids: Vec<_> = taken.elements.iter().map(|element| element.id).collect();
    let mut payloads = transaction.payloads(&ids).await?;
    for element in &mut taken.elements {
        if let Some(payload) = payloads.remove(&element.id) {
            element.payload = payload;
        }
    }
    if transaction.view.changes.is_empty() {
        transaction.abandon().await?;
    } else {
        transaction.commit().await?;
    }
    Ok(taken)
}

/// Decides about the elements for which there are signals.
async fn apply_signals(link: &Link, context: &Context, queue: &Key) -> Result<(), Fault> {
    let first: [Statement<'_>; 1] = [(&context.work.of(link).mysql.signals, &[])];
    let begun = Transaction::begin(link, context, queue, false, first).await?;
    let Some((mut transaction, [rows])) = begun else { return Ok(()) };
    let (mut keys, mut befores) = (BTreeSet::<Arc<str>>::new(), Vec::new());
    for row in &rows {
        let name: &str = row.try_get(0)?;
        let fence = name.rsplit_once(' ').and_then(|(_, fence)| fence.parse().ok()).unwrap_or(0);
        if let Some(key) = row.try_get::<Option<&str>>(1)? {
            transaction.view.raise(key, fence);
            keys.insert(key.into());
        }
        befores.extend(row.try_get::<Option<&str>>(2)?.map(read_id).transpose()?);
        transaction.drop_later(4, name.as_bytes());
    }
    transaction.lock(&befores).await?;
    transaction.lock_keys(&keys, 0).await?;
    for before in befores {
        keys.extend(transaction.view.get(before).and_then(|element| element.order_key.clone()));
        done(transaction.view.count_done(before));
    }
    for key in keys {
        done(transaction.view.decide(&key));
    }
    transaction.commit().await.map(drop)
}

/// Extends leases, except those of elements that another transaction has locked.
pub(super) async fn extend(link: &Link, context: &Context, extend: &Extend) -> Result<Vec<Extended>, Fault> {
    let Extend { queue, deliveries, lease } = extend;
    let lost = vec![Extended::Lost; deliveries.len()];
    let ids: Vec<_> = deliveries.iter().map(|(delivery, _)| id_bytes(delivery.id)).collect();
    let ids: Vec<&[u8]> = ids.iter().map(<[u8; 16]>::as_slice).collect();
    let of_ids: [Parameter<'_>; 1] = [&ids];
    let texts = &context.work.of(link).mysql;
    let first: [Statement<'_>; 2] = [(&texts.free_by_id, &of_ids), (&texts.seen_by_id, &of_ids)];
    let begun = Transaction::begin(link, context, queue, false, first).await?;
    let Some((mut transaction, [free, seen])) = begun else { return Ok(lost) };
    let free: BTreeSet<_> = transaction.load(&free)?.into_iter().collect();
    transaction.load(&seen)?;
    let answer =
        |(delivery, _): &(bandog_core::queues::DeliveryId, Option<String>)| match transaction.view.get(delivery.id) {
            Some(element) if element.phase != Phase::Taken || element.fence != delivery.fence => Extended::Lost,
            Some(element) if element.is_cancelled => Extended::Cancelled,
            Some(_) if !free.contains(&delivery.id) => Extended::Busy,
            Some(_) => Extended::Held,
            None => Extended::Lost,
        };
    let answers: Vec<_> = deliveries.iter().map(answer).collect();
    let held = || {
        let all = deliveries.iter().zip(&answers).filter(|(_, answer)| **answer != Extended::Lost);
        all.map(|(held, _)| held).filter(|(delivery, _)| free.contains(&delivery.id))
    };
    let held_ids: Vec<_> = held().map(|(delivery, _)| id_bytes(delivery.id)).collect();
    let held_ids: Vec<&[u8]> = held_ids.iter().map(<[u8; 16]>::as_slice).collect();
    if held_ids.is_empty() {
        transaction.abandon().await?;
        return Ok(answers);
    }
    let lease = micros(*lease);
    let extension: [Parameter<'_>; 2] = [&held_ids, &lease];
    let progress: Vec<Option<Option<&[u8]>>> = held()
        .map(|(_, progress)| progress.as_ref().map(|text| Some(text.as_bytes()).filter(|text| !text.is_empty())))
        .collect();
    let mut parameters: Vec<[Parameter<'_>; 2]> = Vec::new();
    for (id, progress) in held_ids.iter().zip(&progress) {
        if let Some(progress) = progress {
            parameters.push([id, progress]);
        }
    }
    let mut all: Vec<Statement<'_>> = vec![(&transaction.texts.extend, &extension)];
    all.extend(parameters.iter().map(|parameters| (transaction.texts.progress.as_str(), &parameters[..])));
    link.end(&all).await?;
    Ok(answers)
}

/// Settles, except the elements that another transaction has locked.
pub(super) async fn settle(
    link: &Link,
    context: &Context,
    queue: &Key,
    settles: &[Settle],
) -> Result<Vec<Settled>, Fault> {
    let absent = vec![Settled::Absent; settles.len()];
    let ids: Vec<_> = settles.iter().map(|settle| id_bytes(settle.delivery.id)).collect();
    let ids: Vec<&[u8]> = ids.iter().map(<[u8; 16]>::as_slice).collect();
    let of_ids: [Parameter<'_>; 1] = [&ids];
    let first: [Statement<'_>; 2] =
        [(&context.work.of(link).mysql.free_by_id, &of_ids), (&context.work.of(link).mysql.seen_by_id, &of_ids)];
    let begun = Transaction::begin(link, context, queue, false, first).await?;
    let Some((mut transaction, [free, seen])) = begun else { return Ok(absent) };
    let seen = seen.iter().map(|row| read_id(row.try_get(0)?)).collect::<Result<BTreeSet<_>, _>>()?;
    let found = transaction.load(&free)?;
    let is_busy = |settle: &Settle| seen.contains(&settle.delivery.id) && !found.contains(&settle.delivery.id);
    transaction.lock_around(&found).await?;
    transaction.find_old(context, settles.len()).await?;
    let now = transaction.view.times();
    let mut settled = done(rules::settle(&mut transaction.view, settles, now));
    transaction.commit().await?;
    for (settle, answer) in settles.iter().zip(&mut settled) {
        if is_busy(settle) {
            *answer = Settled::Busy;
        }
    }
    Ok(settled)
}

/// Changes a queue.
pub(super) async fn change(link: &Link, context: &Context, queue: &Key, change: &Change) -> Result<u64, Fault> {
    let locks_queue = matches!(change, Change::Pause(_) | Change::Concurrency(_) | Change::Rate(_));
    let (mut transaction, []) = begin_or_create(link, context, queue, locks_queue, []).await?;
    let first = match change {
        Change::Retry(ids) if ids.is_empty() => Some(Phase::Dead),
        Change::Purge(phase) if !matches!(phase, Phase::Taken | Phase::Ended) => Some(*phase),
        Change::Pause(_)
        | Change::Concurrency(_)
        | Change::Rate(_)
        | Change::Retry(_)
        | Change::Remove(_)
        | Change::Withdraw(_)
        | Change::Purge(_)
        | Change::Worker(..) => None,
    };
    if let Some(phase) = first {
        let ids = transaction.first(phase).await?;
        transaction.lock(&ids).await?;
    }
    if let Change::Worker(..) = change {
        transaction.find_old(context, usize::MAX).await?;
    }
    if let Change::Retry(ids) | Change::Remove(ids) | Change::Withdraw(ids) = change {
        transaction.lock(ids).await?;
    }
    let now = transaction.view.times();
    let changed = done(rules::change(&mut transaction.view, change, now));
    transaction.commit().await?;
    match change {
        Change::Worker(..) => super::read::count_workers(link, context, queue).await,
        _ => Ok(changed),
    }
}
