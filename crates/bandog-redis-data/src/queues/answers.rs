//! Reads the replies of the scripts of work queues.

use std::time::Duration;

use bandog_core::{
    Fence, Result,
    queues::{
        Delivered, ElementId, ElementRow, Extended, Headers, MAX_COUNT, Outcome, Phase, Priority, Push, Pushed,
        QueueSettings, QueueStatus, Rate, Settled, Taken, read_worker_rows,
    },
    structures::{Bytes, Cursor},
};
use redis::Value;

use crate::read::{bytes, each, int, optional, unexpected, unsigned};

/// The number of parts of a row.
const COLUMNS: usize = 7;

/// The state of an element, as `rows.lua` writes it.
struct State {
    phase: Phase,
    is_cancelled: bool,
    at: u64,
    attempt: u32,
    fence: u64,
    taker: u64,
    priority: u8,
    pushed: u64,
    order_key: Option<String>,
}

/// Reads numbers from the beginning of bytes.
struct Reader<'b>(&'b [u8]);

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N]> {
        let (first, rest) = self.0.split_first_chunk().ok_or_else(unexpected)?;
        self.0 = rest;
        Ok(*first)
    }

    fn u8(&mut self) -> Result<u8> {
        self.take().map(u8::from_be_bytes)
    }

    fn u32(&mut self) -> Result<u32> {
        self.take().map(u32::from_be_bytes)
    }

    fn u64(&mut self) -> Result<u64> {
        self.take().map(u64::from_be_bytes)
    }
}

impl State {
    fn read(state: &[u8]) -> Result<Self> {
        let mut from = Reader(state);
        let phase = match from.u8()? {
            b'r' => Phase::Ready,
            b'd' => Phase::Delayed,
            b'b' => Phase::Blocked,
            b't' => Phase::Taken,
            b'x' => Phase::Dead,
            _ => return Err(unexpected()),
        };
        let is_cancelled = from.u8()? & 1 != 0;
        let (at, _place, attempt, fence) = (from.u64()?, from.u64()?, from.u32()?, from.u64()?);
        let (taker, _take, _waits_for) = (from.u64()?, from.u64()?, from.u32()?);
        let (priority, pushed, _keep, has_next) = (from.u8()?, from.u64()?, from.u64()?, from.u8()? != 0);
        if has_next {
            from.take::<33>()?;
        }
        let order_key = (!from.0.is_empty()).then(|| String::from_utf8_lossy(from.0).into_owned());
        Ok(Self { phase, is_cancelled, at, attempt, fence, taker, priority, pushed, order_key })
    }
}

pub(super) fn pushed(push: &Push, reply: Value) -> Result<Vec<Pushed>> {
    let answer = |(element, answer): (&bandog_core::queues::NewElement, Value)| match answer {
        Value::Int(_) => Ok(Pushed { id: element.id, is_new: true }),
        answer => Ok(Pushed { id: id(answer)?, is_new: false }),
    };
    let answers = each(reply)?;
    if answers.len() != push.elements.len() {
        return Err(unexpected());
    }
    push.elements.iter().zip(answers).map(answer).collect()
}

pub(super) fn taken(reply: Value) -> Result<Taken> {
    let Ok([has_more, next, died, now, ids, states, payloads, errors]) = <[Value; 8]>::try_from(each(reply)?) else {
        return Err(unexpected());
    };
    let (now, next) = (unsigned(&now)?, u64::try_from(int(&next)?).ok().map(Duration::from_micros));
    let (ids, states, payloads) = (each(ids)?, each(states)?, each(payloads)?);
    if states.len() != ids.len() || payloads.len() != ids.len() {
        return Err(unexpected());
    }
    let mut elements = Vec::with_capacity(ids.len());
    for ((first, state), payload) in ids.into_iter().zip(states).zip(payloads) {
        let State { fence, attempt, pushed, .. } = State::read(&bytes(state)?)?;
        let payload = optional(payload)?.unwrap_or_default();
        let age = since(pushed, now);
        elements.push(Delivered { id: id(first)?, fence: Fence::new(fence), attempt, payload, age, error: None });
    }
    let mut errors = each(errors)?.into_iter();
    while let (Some(at), Some(error)) = (errors.next(), errors.next()) {
        let at = usize::try_from(int(&at)?).ok().and_then(|at| at.checked_sub(1));
        let element = at.and_then(|at| elements.get_mut(at)).ok_or_else(unexpected)?;
        element.error = text(error)?;
    }
    Ok(Taken { elements, has_more: int(&has_more)? == 1, next, died: u32::try_from(int(&died)?).unwrap_or(u32::MAX) })
}

pub(super) fn extended(reply: Value) -> Result<Vec<Extended>> {
    let answer = |value: Value| match int(&value)? {
        0 => Ok(Extended::Held),
        1 => Ok(Extended::Cancelled),
        2 => Ok(Extended::Lost),
        _ => Err(unexpected()),
    };
    each(reply)?.into_iter().map(answer).collect()
}

pub(super) fn settled(reply: Value) -> Result<Vec<Settled>> {
    let answer = |value: Value| match int(&value)? {
        0 => Ok(Settled::Applied),
        1 => Ok(Settled::Absent),
        2 => Ok(Settled::Lost),
        _ => Err(unexpected()),
    };
    each(reply)?.into_iter().map(answer).collect()
}

/// The rows of elements, or of their results.
pub(super) fn rows(reply: Value) -> Result<Vec<Option<ElementRow>>> {
    let mut parts = each(reply)?.into_iter();
    let now = parts.next().ok_or_else(unexpected).and_then(|value| unsigned(&value))?;
    let mut rows = Vec::with_capacity(parts.len() / COLUMNS);
    while let Some(first) = parts.next() {
        let mut next = || parts.next().ok_or_else(unexpected);
        let (state, payload, length) = (optional(next()?)?, optional(next()?)?, unsigned(&next()?)?);
        let (error, progress, result) = (text(next()?)?, text(next()?)?, optional(next()?)?);
        let payload = (payload.unwrap_or_default(), usize::try_from(length).unwrap_or(usize::MAX));
        let id = id(first)?;
        rows.push(match (state, result) {
            (Some(state), _) => Some(row(id, State::read(&state)?, payload, error, progress, now)),
            (None, Some(result)) => ended(id, &result, now)?,
            (None, None) => None,
        });
    }
    Ok(rows)
}

fn row(
    id: ElementId,
    state: State,
    (payload, payload_len): (Bytes, usize),
    error: Option<String>,
    progress: Option<String>,
    now: u64,
) -> ElementRow {
    let left = matches!(state.phase, Phase::Delayed | Phase::Taken)
        .then(|| Duration::from_micros(state.at.saturating_sub(now)));
    let outcome = error.clone().filter(|_| state.phase == Phase::Dead);
    ElementRow {
        id,
        phase: state.phase,
        age: Some(since(state.pushed, now)),
        left,
        priority: Priority::new(state.priority).unwrap_or_default(),
        order_key: state.order_key.map(Into::into),
        attempt: state.attempt,
        fence: Fence::new(state.fence),
        taker: (state.phase == Phase::Taken).then_some(state.taker),
        headers: Headers::default(),
        payload,
        payload_len,
        error,
        progress,
        is_cancelled: state.is_cancelled,
        outcome: outcome.map(Outcome::Failed),
    }
}

/// The row of a result, if it is still kept.
fn ended(id: ElementId, result: &[u8], now: u64) -> Result<Option<ElementRow>> {
    let (until, outcome) = result.split_first_chunk::<16>().ok_or_else(unexpected)?;
    let until: u64 = std::str::from_utf8(until).ok().and_then(|text| text.parse().ok()).ok_or_else(unexpected)?;
    let outcome = match outcome.split_first() {
        Some((b'd', result)) => Some(Outcome::Done(result.to_vec())),
        Some((b'f', error)) => Some(Outcome::Failed(String::from_utf8_lossy(error).into_owned())),
        Some((b'c', _)) => Some(Outcome::Cancelled),
        Some(_) => return Err(unexpected()),
        None => None, // The answer had no room for it.
    };
    Ok((until > now).then(|| ElementRow {
        id,
        phase: Phase::Ended,
        age: None,
        left: None,
        priority: Priority::default(),
        order_key: None,
        attempt: 0,
        fence: Fence::new(0),
        taker: None,
        headers: Headers::default(),
        payload: Bytes::new(),
        payload_len: 0,
        error: None,
        progress: None,
        is_cancelled: false,
        outcome,
    }))
}

/// A page of elements, and where the next one begins, if further ones may follow.
pub(super) fn page(phase: Phase, reply: Value) -> Result<(Vec<ElementRow>, Option<Cursor>)> {
    let mut parts = each(reply)?;
    let has_more = int(&parts.pop().ok_or_else(unexpected)?)? == 1;
    let last = parts.len().checked_sub(COLUMNS).filter(|from| has_more && *from > 0);
    let last = last.map(|from| position(phase, &parts[from..])).transpose()?.flatten();
    Ok((rows(Value::Array(parts))?.into_iter().flatten().collect(), last))
}

/// The cursor behind the element of these parts. None: its state is missing, so it is the last one that is shown.
fn position(phase: Phase, parts: &[Value]) -> Result<Option<Cursor>> {
    let [id, state, ..] = parts else { return Err(unexpected()) };
    let (id, Some(state)) = (text(id.clone())?.ok_or_else(unexpected)?, optional(state.clone())?) else {
        return Ok(None);
    };
    let State { priority, at, .. } = State::read(&state)?;
    Ok(Some(Cursor(match phase {
        Phase::Ready => format!("{}{at:016}{id}", 9_u8.saturating_sub(priority)),
        _ => format!("{at:016}{id}"),
    })))
}

pub(super) fn status(reply: Value) -> Result<QueueStatus> {
    let Ok([now, limits, counts, oldest, workers]) = <[Value; 5]>::try_from(each(reply)?) else {
        return Err(unexpected());
    };
    let now = unsigned(&now)?;
    let limits = each(limits)?.into_iter().map(text).collect::<Result<Vec<_>>>()?;
    let [paused, concurrency, deliveries, per] = limits.as_slice() else { return Err(unexpected()) };
    let number = |text: &Option<String>| text.as_ref().and_then(|text| text.parse().ok());
    let per = per.as_ref().and_then(|text| text.parse().ok()).map(Duration::from_micros);
    let settings = QueueSettings {
        is_paused: paused.is_some(),
        concurrency: number(concurrency),
        rate: number(deliveries).zip(per).map(|(deliveries, per)| Rate { deliveries, per }),
    };
    let phases = [Phase::Ready, Phase::Delayed, Phase::Blocked, Phase::Taken, Phase::Dead];
    let counts = phases.into_iter().zip(each(counts)?);
    let counts = counts.map(|(phase, count)| Ok((phase, unsigned(&count)?.min(MAX_COUNT)))).collect::<Result<_>>()?;
    let oldest = text(oldest)?.map(|text| text.parse().map_err(|_| unexpected())).transpose()?;
    let workers = each(workers)?.into_iter().map(text).collect::<Result<Vec<_>>>()?;
    // A text of a newer program is left out.
    let workers = workers.iter().flatten().filter_map(|text| read_worker_rows([text.as_str()]).ok()).flatten();
    Ok(QueueStatus { settings, counts, oldest: oldest.map(|time| since(time, now)), workers: workers.collect() })
}

fn since(time: u64, now: u64) -> Duration {
    Duration::from_micros(now.saturating_sub(time))
}

fn id(value: Value) -> Result<ElementId> {
    let text = text(value)?.ok_or_else(unexpected)?;
    text.parse().map_err(|_| unexpected())
}

/// A text, in which another program may have written bytes that are none.
fn text(value: Value) -> Result<Option<String>> {
    Ok(optional(value)?.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
}
