//! The calls of the scripts of work queues.

use std::time::Duration;

use bandog_core::{
    Error, Key, Result,
    queues::{
        Change, ElementId, Extend, MAX_ORDER_KEY, NewElement, Phase, Push, Settle, SettleEnd, Take, When,
        envelope::is_envelope, rules, write_worker_row,
    },
};
use bandog_redis_net::Script;

use crate::{command::Command, names, scripts::SCRIPTS};

/// The latest time in a script, whose numbers have 53 bits: in the year 2255.
const LATEST: u64 = (1 << 53) - 1;

/// A call of a script of this queue. `tries`: see `rows.lua`.
fn call(script: &'static Script, queue: &Key, tries: u8) -> Command {
    Command::script(script, names::work(queue.as_str())).arg(tries)
}

/// # Errors
/// `Misused`: a text is too long.
pub(super) fn push(push: &Push, tries: u8) -> Result<Command> {
    let has_envelopes = push.elements.iter().any(|element| is_envelope(&element.payload));
    let mut command = call(&SCRIPTS.work_push, &push.queue, tries);
    if has_envelopes {
        command = command.with_keys(names::newer_work(push.queue.as_str()));
    }
    command = command.arg(micros(rules::REMEMBER_PUSH)).arg(u8::from(has_envelopes));
    for element in &push.elements {
        let texts = element.order_key.iter().chain(element.once.iter().map(|once| &once.id));
        if texts.into_iter().any(|text| text.len() > MAX_ORDER_KEY) {
            return Err(Error::misused(format!(
                "a key of order or an id of the user has more than {MAX_ORDER_KEY} bytes"
            )));
        }
        command = command.arg(id(element.id)).arg(&element.payload[..]).arg(options(element));
    }
    Ok(command)
}

/// The options of an element, in the form of `push.lua`.
fn options(element: &NewElement) -> Vec<u8> {
    let NewElement { id: _, payload: _, when, priority, order_key, once, keep_result, before, waits_for } = element;
    let is_plain = *when == When::Now
        && priority.get() == 0
        && order_key.is_none()
        && once.is_none()
        && keep_result.is_none()
        && before.is_none()
        && *waits_for == 0;
    if is_plain {
        return Vec::new();
    }
    let (sort, time) = match when {
        When::Now => (0, 0),
        When::After(delay) => (1, micros(*delay)),
        When::At(time) => (2, rules::wall_micros(*time).min(LATEST)),
    };
    let (once, window) = once.as_ref().map_or(("", 0), |once| (&*once.id, micros(once.window)));
    let before = before.map(id).unwrap_or_default();
    let mut bytes = vec![priority.get()];
    bytes.extend(keep_result.map_or(0, |time| micros(time).min(LATEST - 1) + 1).to_be_bytes());
    bytes.extend(waits_for.to_be_bytes());
    bytes.push(sort);
    bytes.extend(time.to_be_bytes());
    bytes.extend(window.to_be_bytes());
    bytes.extend([length(once), length(&before)]);
    bytes.extend([once, &before, order_key.as_deref().unwrap_or_default()].concat().into_bytes());
    bytes
}

/// The length of a text of at most 255 bytes.
fn length(text: &str) -> u8 {
    u8::try_from(text.len()).unwrap_or(u8::MAX)
}

pub(super) fn take(take: &Take, tries: u8) -> Command {
    let Take { queue, id, is_repeated, at_most, bytes: payloads, rest_after, lease, deliveries } = take;
    let bytes = [id.taker.to_be_bytes(), id.number.to_be_bytes()].concat();
    call(&SCRIPTS.work_take, queue, tries)
        .arg(format!("{:016x}", id.taker))
        .arg(bytes)
        .arg(u8::from(*is_repeated))
        .arg(*at_most)
        .arg(micros(*lease))
        .arg(*deliveries)
        .arg(*payloads)
        .arg(micros(*rest_after))
}

pub(super) fn extend(extend: &Extend) -> Command {
    let command = call(&SCRIPTS.work_extend, &extend.queue, 0).arg(micros(extend.lease));
    extend.deliveries.iter().fold(command, |command, (delivery, progress)| {
        let progress = progress.as_ref().map_or(String::new(), |text| format!("={text}"));
        command.arg(id(delivery.id)).arg(delivery.fence.get()).arg(progress)
    })
}

pub(super) fn settle(queue: &Key, settles: &[Settle], tries: u8) -> Command {
    let command = call(&SCRIPTS.work_settle, queue, tries);
    settles.iter().fold(command, |command, Settle { delivery, end }| {
        let (kind, text) = match end {
            SettleEnd::Done(result) => ('d', result.clone()),
            SettleEnd::Retry(after, error) => ('r', format!("{:016}{error}", micros(*after)).into_bytes()),
            SettleEnd::Fail(error) => ('f', error.clone().into_bytes()),
            SettleEnd::HandBack(after) => ('h', format!("{:016}", micros(*after)).into_bytes()),
        };
        command.arg(id(delivery.id)).arg(format!("{kind}{}", delivery.fence.get())).arg(text)
    })
}

pub(super) fn find(queue: &Key, ids: &[ElementId], payload: usize) -> Command {
    call(&SCRIPTS.work_show, queue, 0).arg("find").arg(payload).args(ids.iter().map(|each| id(*each)))
}

pub(super) fn status(queue: &Key) -> Command {
    call(&SCRIPTS.work_show, queue, 0).arg("status").arg(0)
}

/// None: no element of a queue is in this phase.
pub(super) fn page(queue: &Key, phase: Phase, from: &str, about: usize, payload: usize) -> Option<Command> {
    Some(call(&SCRIPTS.work_show, queue, 0).arg("page").arg(payload).arg(letter(phase)?).arg(about).arg(from))
}

/// The letter of a phase in the scripts.
pub(super) fn letter(phase: Phase) -> Option<&'static str> {
    match phase {
        Phase::Ready => Some("r"),
        Phase::Delayed => Some("d"),
        Phase::Blocked => Some("b"),
        Phase::Taken => Some("t"),
        Phase::Dead => Some("x"),
        Phase::Ended => None,
    }
}

/// None: nothing is to be changed.
pub(super) fn change(queue: &Key, change: &Change, tries: u8) -> Option<Command> {
    let command = call(&SCRIPTS.work_change, queue, tries);
    Some(match change {
        Change::Pause(is_paused) => command.arg("set").arg("paused").arg(if *is_paused { "1" } else { "" }),
        Change::Concurrency(limit) => command.arg("set").arg("concurrency").arg(text(limit.as_ref())),
        Change::Rate(limit) => {
            let deliveries = text(limit.map(|limit| limit.deliveries).as_ref());
            let per = text(limit.map(|limit| micros(limit.per)).as_ref());
            command.arg("set").arg("deliveries").arg(deliveries).arg("per").arg(per)
        }
        Change::Retry(ids) => command.arg("retry").args(ids.iter().map(|each| id(*each))),
        Change::Remove(ids) => command.arg("remove").args(ids.iter().map(|each| id(*each))),
        Change::Withdraw(ids) => command.arg("withdraw").args(ids.iter().map(|each| id(*each))),
        Change::Purge(Phase::Taken) => return None,
        Change::Purge(phase) => command.arg("purge").arg(letter(*phase)?),
        Change::Worker(worker, keep) => {
            command.arg("worker").arg(format!("{:016x}", worker.id)).arg(write_worker_row(worker)).arg(micros(*keep))
        }
    })
}

/// The value of a setting. None: an empty text.
fn text(value: Option<&impl ToString>) -> String {
    value.map(ToString::to_string).unwrap_or_default()
}

/// An id in the scripts: texts sort as the ids do.
fn id(ElementId { client, number }: ElementId) -> String {
    format!("{client:016x}-{number:016x}")
}

/// A time in µs, rounded up.
fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_nanos().div_ceil(1000)).unwrap_or(LATEST).min(LATEST)
}
