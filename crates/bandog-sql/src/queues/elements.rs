//! Elements as parameters and rows of statements.

use std::{collections::HashSet, fmt::Write as _, time::Duration};

use bandog_core::{
    Error, Fence, Result,
    queues::{
        Delivered, ElementId, ElementRow, Headers, MAX_PRIORITY, NewElement, Outcome, Phase, Priority, TakeId, When,
    },
};

use super::time::micros;
use crate::{fault::Fault, row::Row};

/// An id as a number of 32 hexadecimal digits.
pub(crate) fn id_text(id: ElementId) -> String {
    format!("{:016x}{:016x}", id.client, id.number)
}

/// An id as bytes.
#[cfg(feature = "mysql")]
pub(crate) fn id_bytes(id: ElementId) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&id.client.to_be_bytes());
    bytes[8..].copy_from_slice(&id.number.to_be_bytes());
    bytes
}

/// A result as it is stored.
#[cfg(feature = "mysql")]
pub(crate) fn write_outcome(outcome: &Outcome) -> Vec<u8> {
    match outcome {
        Outcome::Done(result) => [b"d", result.as_slice()].concat(),
        Outcome::Failed(error) => [b"f", error.as_bytes()].concat(),
        Outcome::Cancelled => b"c".to_vec(),
    }
}

/// Reads an id of 32 hexadecimal digits, with `-` or without.
pub(crate) fn read_id(text: &str) -> Result<ElementId, Fault> {
    let digits: String = text.chars().filter(|c| *c != '-').collect();
    let parse = |part: Option<&str>| u64::from_str_radix(part?, 16).ok();
    match (parse(digits.get(..16)), parse(digits.get(16..))) {
        (Some(client), Some(number)) => Ok(ElementId { client, number }),
        _ => Err(Fault::Broken(None)),
    }
}

/// The two numbers of a take. The server has no unsigned numbers.
pub(crate) fn take_numbers(id: TakeId) -> [i64; 2] {
    [id.taker, id.number].map(u64::cast_signed)
}

pub(crate) fn read_fence(number: i64) -> Fence {
    Fence::new(u64::try_from(number).unwrap_or(0))
}

pub(crate) fn fence_number(fence: Fence) -> i64 {
    i64::try_from(fence.get()).unwrap_or(i64::MAX)
}

/// The phase as a number.
pub(crate) fn phase_number(phase: Phase) -> i64 {
    match phase {
        Phase::Ready => 0,
        Phase::Delayed => 1,
        Phase::Blocked => 2,
        Phase::Taken => 3,
        Phase::Dead => 4,
        Phase::Ended => 5,
    }
}

/// The phase with this number.
pub(crate) fn phase_of(number: i64) -> Phase {
    match number {
        0 => Phase::Ready,
        1 => Phase::Delayed,
        2 => Phase::Blocked,
        3 => Phase::Taken,
        4 => Phase::Dead,
        _ => Phase::Ended,
    }
}

/// Elements as a JSON array. All texts are hexadecimal, so no text needs an escape. The payloads are left out unless
/// `has_payload`.
pub(crate) fn to_json(elements: &[&NewElement], has_payload: bool) -> String {
    let mut json = String::from("[");
    for (element, number) in elements.iter().zip(1..) {
        if number > 1 {
            json.push(',');
        }
        let NewElement { id, payload, when, priority, order_key, once, keep_result, before, waits_for } = element;
        let _ = write!(
            json,
            r#"{{"ord":{number},"id":"{}","priority":{},"waits_for":{waits_for}"#,
            id_text(*id),
            priority.get()
        );
        let _ = match when {
            When::Now => write!(json, r#","delay":0"#),
            When::After(delay) => write!(json, r#","delay":{}"#, micros(*delay)),
            When::At(time) => {
                let due = micros(time.duration_since(std::time::UNIX_EPOCH).unwrap_or_default());
                write!(json, r#","delay":0,"due":{due}"#)
            }
        };
        if let Some(key) = order_key {
            let _ = write!(json, r#","key":"{}""#, hexadecimal(key.as_bytes()));
        }
        // An id without a window makes no pushes one.
        if let Some(once) = once.as_ref().filter(|once| !once.window.is_zero()) {
            let _ = write!(json, r#","once_id":"{}","span":{}"#, hexadecimal(once.id.as_bytes()), micros(once.window));
        }
        if let Some(keep) = keep_result {
            let _ = write!(json, r#","keep":{}"#, micros(*keep));
        }
        if let Some(before) = before {
            let _ = write!(json, r#","before":"{}""#, id_text(*before));
        }
        if has_payload {
            let _ = write!(json, r#","body":"{}""#, hexadecimal(payload));
        }
        json.push('}');
    }
    json.push(']');
    json
}

/// The elements without those whose id of [`NewElement::once`] an earlier one has.
pub(crate) fn distinct(elements: &[NewElement]) -> Vec<&NewElement> {
    let mut known = HashSet::new();
    let mut distinct = Vec::with_capacity(elements.len());
    for element in elements {
        let once = element.once.as_ref().filter(|once| !once.window.is_zero());
        if once.is_none_or(|once| known.insert(&once.id)) {
            distinct.push(element);
        }
    }
    distinct
}

/// Refuses what a text of the database cannot be.
pub(crate) fn check(elements: &[NewElement]) -> Result<()> {
    for element in elements {
        let texts = element.order_key.iter().chain(element.once.iter().map(|once| &once.id));
        for text in texts {
            if text.contains('\0') {
                return Err(Error::misused(format!("{text:?} has the character 0, which a database cannot store")));
            }
        }
    }
    Ok(())
}

pub(crate) fn hexadecimal(bytes: &[u8]) -> String {
    const DIGITS: [u8; 16] = *b"0123456789abcdef";
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]).map(|digit| DIGITS[usize::from(digit)]);
    digits.map(char::from).collect()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn duration(micros: i64) -> Duration {
    Duration::from_micros(u64::try_from(micros).unwrap_or(0))
}

/// A delivery whose columns begin at `first`: the id, fence, attempt, payload, age and error.
pub(crate) fn read_delivered(row: &Row, first: usize) -> Result<Delivered, Fault> {
    let error: Option<&[u8]> = row.try_get(first + 5)?;
    Ok(Delivered {
        id: read_id(row.try_get(first)?)?,
        fence: read_fence(row.try_get(first + 1)?),
        attempt: number(row.try_get(first + 2)?),
        payload: row.try_get::<&[u8]>(first + 3)?.to_vec(),
        age: duration(row.try_get(first + 4)?),
        error: error.map(text),
    })
}

/// An element or a result in a row of `find`.
pub(crate) fn read_element(row: &Row) -> Result<ElementRow, Fault> {
    let id = read_id(row.try_get(0)?)?;
    let bytes = |column: usize| row.try_get::<Option<&[u8]>>(column);
    let phase = phase_of(row.try_get(1)?);
    let payload = bytes(9)?.unwrap_or_default().to_vec();
    let error = bytes(10)?.map(text);
    let (payload, outcome) = match phase {
        // The answer had no room for an empty one.
        Phase::Ended if payload.is_empty() => (Vec::new(), None),
        Phase::Ended => (Vec::new(), Some(read_outcome(&payload)?)),
        Phase::Dead => (payload, error.clone().map(Outcome::Failed)),
        Phase::Ready | Phase::Delayed | Phase::Blocked | Phase::Taken => (payload, None),
    };
    let left = matches!(phase, Phase::Delayed | Phase::Taken).then(|| row.try_get(13)).transpose()?;
    Ok(ElementRow {
        id,
        phase,
        age: (phase != Phase::Ended).then(|| row.try_get(12)).transpose()?.map(duration),
        left: left.map(duration),
        priority: priority(row.try_get(2)?),
        order_key: row.try_get::<Option<&str>>(8)?.map(Into::into),
        attempt: number(row.try_get(4)?),
        fence: read_fence(row.try_get(5)?),
        taker: row.try_get::<Option<i64>>(6)?.map(i64::cast_unsigned),
        headers: Headers::default(),
        payload,
        payload_len: usize::try_from(row.try_get::<i64>(14)?).unwrap_or(0),
        error,
        progress: bytes(11)?.map(text),
        is_cancelled: row.try_get(7)?,
        outcome,
    })
}

fn read_outcome(content: &[u8]) -> Result<Outcome, Fault> {
    match content.split_first() {
        Some((b'd', result)) => Ok(Outcome::Done(result.to_vec())),
        Some((b'f', error)) => Ok(Outcome::Failed(text(error))),
        Some((b'c', _)) => Ok(Outcome::Cancelled),
        Some(_) | None => Err(Fault::Broken(None)),
    }
}

fn number(number: i64) -> u32 {
    u32::try_from(number).unwrap_or(0)
}

fn priority(rank: i64) -> Priority {
    let number = i64::from(MAX_PRIORITY).saturating_sub(rank);
    u8::try_from(number).ok().and_then(|number| Priority::new(number).ok()).unwrap_or_default()
}
