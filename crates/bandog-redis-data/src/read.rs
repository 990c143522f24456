//! Reads the reply to each operation.

use std::time::Duration;

use bandog_codec::number;
use bandog_core::{
    Error, ErrorKind, Result,
    structures::{
        Action, BitsOp, BloomOp, BloomSizes, Bytes, CacheEntry, CacheOp, CounterOp, EntryId, FillId, FillState,
        FloatOp, GroupRow, JournalOp, ListOp, LiveChange, MapOp, MultimapOp, ObjectOp, Reply, SetOp, SortedOp, TakeOp,
        TakenElement, TimedOp, Ttl, ValueOp,
    },
};
use bandog_redis_net::refusal;
use redis::{ServerError, Value};

/// The answer to an operation.
pub(crate) fn reply(action: &Action, value: Value) -> Result<Reply> {
    if let Value::ServerError(error) = &value {
        return Err(refused(error));
    }
    match action {
        Action::Object(_, op) => match op {
            ObjectOp::Exists | ObjectOp::Delete | ObjectOp::Expire(_) | ObjectOp::Persist => flag(&value),
            ObjectOp::Ttl => ttl(&value),
        },
        Action::Value(op) => match op {
            ValueOp::Get | ValueOp::Take => optional(value).map(Reply::Bytes),
            ValueOp::Set(..) => Ok(Reply::Done),
            ValueOp::SetNew(..) => Ok(Reply::Flag(!matches!(value, Value::Nil))),
            ValueOp::Swap { .. } => flag(&value),
        },
        Action::Counter(op) => match op {
            CounterOp::Get if matches!(value, Value::Nil) => Ok(Reply::Int(0)),
            CounterOp::Get | CounterOp::Add { .. } => int(&value).map(Reply::Int),
            CounterOp::Set(_) => Ok(Reply::Done),
            CounterOp::Swap(..) => flag(&value),
        },
        Action::Float(op) => match op {
            FloatOp::Get if matches!(value, Value::Nil) => Ok(Reply::Float(0.0)),
            FloatOp::Get | FloatOp::Add { .. } => float(&value).map(Reply::Float),
            FloatOp::Set(_) => Ok(Reply::Done),
            FloatOp::Swap(..) => flag(&value),
        },
        Action::Ids { .. } => match each(value)?.as_slice() {
            [first, size] => {
                let size = u64::try_from(int(size)?).map_err(|_| unexpected())?;
                Ok(Reply::Block { first: int(first)?, size })
            }
            _ => Err(unexpected()),
        },
        Action::Map(op) | Action::Copied(op) | Action::Timed(_, TimedOp::Entries(op, _)) => match op {
            MapOp::Get(_) => each(value)?.into_iter().map(optional).collect::<Result<_>>().map(Reply::Options),
            MapOp::Put(_) => Ok(Reply::Done),
            MapOp::Insert(..) | MapOp::Take(_) => optional(value).map(Reply::Bytes),
            MapOp::InsertNew(..) | MapOp::Swap { .. } => flag(&value),
            MapOp::Remove(_) | MapOp::Add(..) | MapOp::Len => int(&value).map(Reply::Int),
            MapOp::AddFloat(..) => float(&value).map(Reply::Float),
        },
        Action::Timed(_, op) => match op {
            TimedOp::Left(_) => ttl(&value),
            TimedOp::SetLife(..) => flag(&value),
            TimedOp::Evict { .. } => int(&value).map(Reply::Int),
            TimedOp::Bound { .. } | TimedOp::Entries(..) => Ok(Reply::Done),
        },
        Action::Set(op) => match op {
            SetOp::Insert(_) | SetOp::Remove(_) | SetOp::Len => int(&value).map(Reply::Int),
            SetOp::Contains(_) => flags(value).map(Reply::Flags),
            SetOp::Random(_) | SetOp::Combine(..) => list(value),
            SetOp::Move(..) => flag(&value),
        },
        Action::List(op) => match op {
            ListOp::Push { .. } | ListOp::Remove(..) | ListOp::Len => int(&value).map(Reply::Int),
            ListOp::Insert(..) => flag(&value),
            ListOp::Get(_) | ListOp::Set(..) | ListOp::RemoveAt(_) => optional(value).map(Reply::Bytes),
            ListOp::Slice(..) => list(value),
            ListOp::Trim(..) => Ok(Reply::Done),
            ListOp::Position(_) => index(&value),
        },
        Action::Sorted(op) => sorted(op, value),
        Action::Multimap(_, op) => match op {
            MultimapOp::Insert(..) | MultimapOp::Remove(..) | MultimapOp::Contains(..) | MultimapOp::ExpireKey(..) => {
                flag(&value)
            }
            MultimapOp::RemoveAll(_) | MultimapOp::Get(_) => list(value),
            MultimapOp::Len | MultimapOp::KeysLen => int(&value).map(Reply::Int),
        },
        Action::Bits(op) => match op {
            BitsOp::Get(_) | BitsOp::Set(..) => flags(value).map(Reply::Flags),
            BitsOp::SetRange(..) | BitsOp::Combine(..) | BitsOp::Not => Ok(Reply::Done),
            BitsOp::Count | BitsOp::Len => int(&value).map(Reply::Int),
            BitsOp::Bytes => optional(value).map(|bytes| Reply::Bytes(bytes.filter(|bytes| !bytes.is_empty()))),
            BitsOp::Field(..) => each(value)?.first().ok_or_else(unexpected).and_then(int).map(Reply::Int),
        },
        Action::Bloom(op) => match op {
            BloomOp::Create(_) | BloomOp::Open | BloomOp::Insert(..) | BloomOp::Contains(..) => bloom(value),
            BloomOp::Count => int(&value).map(Reply::Int),
        },
        Action::Journal(op) => journal(op, value),
        Action::Take(op) => elements(op, value),
        Action::Live(op) => match op.change {
            LiveChange::Insert(_) | LiveChange::Write { .. } | LiveChange::Delete => flag(&value),
            LiveChange::Add { .. } => optional(value).map(Reply::Bytes),
        },
        Action::Cache(op) => match op {
            CacheOp::Get(_) => cache_entry(value).map(Reply::CacheEntry),
            CacheOp::Look(_) => look(value).map(Reply::Look),
            CacheOp::Begin { .. } => fill(value),
            CacheOp::Extend { .. } | CacheOp::Fill { .. } | CacheOp::End { .. } => flag(&value),
            CacheOp::Put(..) | CacheOp::Remove(_) | CacheOp::Clear { .. } => Ok(Reply::Done),
        },
    }
}

/// The answer to an operation of a sorted set.
fn sorted(op: &SortedOp, value: Value) -> Result<Reply> {
    match op {
        SortedOp::Insert(_) | SortedOp::Remove(_) | SortedOp::RemoveBetween(_) | SortedOp::Count(_) | SortedOp::Len => {
            int(&value).map(Reply::Int)
        }
        SortedOp::InsertNew(..) => flag(&value),
        SortedOp::Add(..) => float(&value).map(Reply::Float),
        SortedOp::Scores(_) => {
            let score = |value: Value| if value == Value::Nil { Ok(None) } else { float(&value).map(Some) };
            each(value)?.into_iter().map(score).collect::<Result<_>>().map(Reply::Scores)
        }
        SortedOp::Rank(..) => index(&value),
        SortedOp::Range(..) | SortedOp::Between(..) => scored(value).map(Reply::Scored),
    }
}

/// The answer to an operation of a journal.
fn journal(op: &JournalOp, value: Value) -> Result<Reply> {
    match op {
        JournalOp::Append { .. } => match value {
            Value::Array(ids) => ids.into_iter().map(entry_id).collect::<Result<_>>(),
            id => entry_id(id).map(|id| vec![id]),
        }
        .map(Reply::EntryIds),
        JournalOp::Range { .. } => each(value)?.into_iter().map(entry).collect::<Result<_>>().map(Reply::Entries),
        JournalOp::Trim(_) | JournalOp::Len => int(&value).map(Reply::Int),
        JournalOp::OpenGroup(..) | JournalOp::RemoveGroup(_) => flag(&value),
        JournalOp::Groups => each(value)?.into_iter().map(group).collect::<Result<_>>().map(Reply::Groups),
    }
}

/// The answer to an operation of a queue.
fn elements(op: &TakeOp, value: Value) -> Result<Reply> {
    match op {
        TakeOp::Take { .. } => {
            let mut elements = each(value)?;
            // The script adds an empty one if a further one was left.
            let is_cut = elements.pop_if(|last| matches!(last, Value::Array(fields) if fields.is_empty())).is_some();
            let elements = elements.into_iter().map(taken).collect::<Result<_>>()?;
            Ok(Reply::Taken { elements, is_cut })
        }
        TakeOp::Settle { .. } | TakeOp::Extend { .. } => flags(value).map(Reply::Flags),
        TakeOp::Count(_) => match each(value)?.as_slice() {
            [ready, taken] => Ok(Reply::Queue { ready: unsigned(ready)?, taken: unsigned(taken)? }),
            _ => Err(unexpected()),
        },
        TakeOp::Peek { .. } => list(value),
        TakeOp::MoveTo { .. } => int(&value).map(Reply::Int),
    }
}

/// The texts of errors that say that a value is not what the operation needs. Nothing was changed.
const NOT_APPLICABLE: [(&str, &str); 5] = [
    ("not an integer", "the value is not a number"),
    ("not a valid float", "the value is not a number"),
    ("not a float", "the value is not a number"),
    ("would overflow", "the number would overflow"),
    ("NaN", "the number would be NaN or infinite"),
];

/// The error of a refused operation.
fn refused(error: &ServerError) -> Error {
    let text = refusal::server_text(error);
    let denied = |message: &str| Error::new(ErrorKind::Denied, message);
    if refusal::is_wrong_type(error) || text.contains("WRONGTYPE") {
        return denied("the name has data of another structure");
    }
    if text.to_lowercase().contains("unknown redis command") {
        let message =
            "this server has no times of fields; Redis has them since version 7.4, and Valkey since version 9";
        return Error::new(ErrorKind::Unsupported, message);
    }
    let found = NOT_APPLICABLE.iter().find(|(part, _)| text.contains(part));
    found.map_or_else(|| refusal::refused(error), |(_, message)| denied(message))
}

/// The error of a reply of another form.
pub(crate) fn unexpected() -> Error {
    Error::new(ErrorKind::Corrupt, "Redis gave a reply of another form to this operation")
}

/// The elements of an array.
pub(crate) fn each(value: Value) -> Result<Vec<Value>> {
    match value {
        Value::Array(values) | Value::Set(values) => Ok(values),
        Value::Nil => Ok(Vec::new()),
        Value::Map(pairs) => Ok(pairs.into_iter().flat_map(|(key, value)| [key, value]).collect()),
        _ => Err(unexpected()),
    }
}

/// Bytes. None for nil.
pub(crate) fn optional(value: Value) -> Result<Option<Bytes>> {
    match value {
        Value::Nil | Value::Boolean(false) => Ok(None),
        Value::BulkString(bytes) => Ok(Some(bytes)),
        Value::SimpleString(text) => Ok(Some(text.into_bytes())),
        Value::Int(number) => Ok(Some(number.to_string().into_bytes())),
        _ => Err(unexpected()),
    }
}

/// Bytes.
pub(crate) fn bytes(value: Value) -> Result<Bytes> {
    optional(value)?.ok_or_else(unexpected)
}

fn text(value: &Value) -> Option<&str> {
    match value {
        Value::BulkString(bytes) => std::str::from_utf8(bytes).ok(),
        Value::SimpleString(text) => Some(text),
        _ => None,
    }
}

/// An integer. A text that is none is data of a user, not an error of the server.
pub(crate) fn int(value: &Value) -> Result<i64> {
    if let Value::Int(number) = value {
        return Ok(*number);
    }
    let Value::BulkString(bytes) = value else { return Err(unexpected()) };
    let number = std::str::from_utf8(bytes).ok().and_then(|text| text.parse().ok());
    number.ok_or_else(|| Error::new(ErrorKind::Denied, "the value is not a number"))
}

/// A number that is not negative.
pub(crate) fn unsigned(value: &Value) -> Result<u64> {
    u64::try_from(int(value)?).map_err(|_| unexpected())
}

fn float(value: &Value) -> Result<f64> {
    match value {
        Value::Double(number) => Ok(*number),
        Value::Int(number) => Ok(*number as f64),
        value => {
            let Value::BulkString(bytes) = value else { return Err(unexpected()) };
            number::parse(bytes).map_err(|_| Error::new(ErrorKind::Denied, "the value is not a number"))
        }
    }
}

fn flag(value: &Value) -> Result<Reply> {
    match value {
        Value::Boolean(flag) => Ok(Reply::Flag(*flag)),
        value => int(value).map(|number| Reply::Flag(number != 0)),
    }
}

fn flags(value: Value) -> Result<Vec<bool>> {
    each(value)?.iter().map(|value| int(value).map(|number| number != 0)).collect()
}

/// A remaining time in ms: -1 is none, and -2 an object that does not exist.
fn ttl(value: &Value) -> Result<Reply> {
    Ok(Reply::Ttl(match int(value)? {
        -2 => Ttl::Absent,
        ms => u64::try_from(ms).map_or(Ttl::Unlimited, |ms| Ttl::Left(Duration::from_millis(ms))),
    }))
}

fn index(value: &Value) -> Result<Reply> {
    let index = if *value == Value::Nil { None } else { Some(unsigned(value)?) };
    Ok(Reply::Index(index))
}

fn list(value: Value) -> Result<Reply> {
    each(value)?.into_iter().map(bytes).collect::<Result<_>>().map(Reply::List)
}

/// Members and their scores, in one flat list or in pairs.
pub(crate) fn scored(value: Value) -> Result<Vec<(Bytes, f64)>> {
    let mut values = Vec::new();
    for value in each(value)? {
        match value {
            Value::Array(pair) => values.extend(pair),
            value => values.push(value),
        }
    }
    let mut values = values.into_iter();
    let mut members = Vec::new();
    while let (Some(member), Some(score)) = (values.next(), values.next()) {
        members.push((bytes(member)?, float(&score)?));
    }
    Ok(members)
}

fn bloom(value: Value) -> Result<Reply> {
    let mut values = each(value)?.into_iter();
    let is_applied = values.next().as_ref().map(int).transpose()? == Some(1);
    match (is_applied, values.next()) {
        (true, Some(answers)) => flags(answers).map(Reply::Flags),
        (false, None) => Ok(Reply::Bloom(None)),
        (false, Some(sizes)) => match each(sizes)?.as_slice() {
            [bits, hashes, expected, false_positives] => Ok(Reply::Bloom(Some(BloomSizes {
                bits: unsigned(bits)?,
                hashes: u32::try_from(unsigned(hashes)?).map_err(|_| unexpected())?,
                expected: unsigned(expected)?,
                false_positives: float(false_positives)?,
            }))),
            _ => Err(unexpected()),
        },
        (true, None) => Err(unexpected()),
    }
}

/// The id of an entry.
fn entry_id(value: Value) -> Result<EntryId> {
    text(&value).and_then(|text| text.parse().ok()).ok_or_else(unexpected)
}

/// An entry: the value of its field `m`, or of its first field.
fn entry(value: Value) -> Result<(EntryId, Bytes)> {
    let Ok([id, fields]) = <[Value; 2]>::try_from(each(value)?) else { return Err(unexpected()) };
    let fields = each(fields)?.into_iter().map(bytes).collect::<Result<Vec<_>>>()?;
    let mut pairs = fields.chunks_exact(2);
    let found = pairs.clone().find(|pair| pair[0] == b"m").or_else(|| pairs.next());
    Ok((entry_id(id)?, found.map(|pair| pair[1].clone()).ok_or_else(unexpected)?))
}

/// A group of a journal.
fn group(value: Value) -> Result<GroupRow> {
    let Ok([name, ready, taken]) = <[Value; 3]>::try_from(each(value)?) else { return Err(unexpected()) };
    let name = String::from_utf8_lossy(&bytes(name)?).into();
    Ok(GroupRow { name, ready: unsigned(&ready)?, taken: unsigned(&taken)? })
}

fn taken(value: Value) -> Result<TakenElement> {
    let Ok([id, delivery, score, element]) = <[Value; 4]>::try_from(each(value)?) else { return Err(unexpected()) };
    // Of a group, the score is the id of the entry, '@' and the name of the group.
    let (score, entry) = match text(&score) {
        Some("") => (None, None),
        Some(place) if place.contains('@') => (None, place.split('@').next().and_then(|id| id.parse().ok())),
        _ => (Some(float(&score)?), None),
    };
    let delivery = u32::try_from(int(&delivery)?).map_err(|_| unexpected())?;
    Ok(TakenElement { id: unsigned(&id)?, delivery, score, entry, bytes: bytes(element)? })
}

/// An entry of a cache: the reply has its generation, the entry and the mark that it is fresh.
fn cache_entry(value: Value) -> Result<Option<CacheEntry>> {
    let Ok([generation, entry, fresh]) = <[Value; 3]>::try_from(each(value)?) else { return Err(unexpected()) };
    match (optional(generation)?, optional(entry)?) {
        (Some(generation), Some(entry)) => match StoredEntry::read(entry) {
            Some(entry) if entry.generation == generation[..] => {
                let is_fresh = !entry.can_be_stale || fresh != Value::Nil;
                Ok(Some(entry.with(is_fresh)))
            }
            _ => Ok(None),
        },
        _ => Ok(None),
    }
}

/// An entry, and the time for which it is fresh.
fn look(value: Value) -> Result<Option<(CacheEntry, Duration)>> {
    let Ok([entry, left]) = <[Value; 2]>::try_from(each(value)?) else { return Err(unexpected()) };
    let (entry, left) = (optional(entry)?.and_then(StoredEntry::read), Duration::from_millis(unsigned(&left)?));
    Ok(entry.map(|entry| (entry.with(!left.is_zero()), left)))
}

/// An entry, and its fill.
fn fill(value: Value) -> Result<Reply> {
    let Ok([entry, is_fresh, state, left, runs]) = <[Value; 5]>::try_from(each(value)?) else {
        return Err(unexpected());
    };
    let is_fresh = int(&is_fresh)? == 1;
    let left = Duration::from_millis(u64::try_from(int(&left)?).unwrap_or(0));
    let state = match text(&state) {
        Some("fresh") => FillState::Fresh(left),
        Some("granted") => FillState::Granted,
        _ => {
            let id = bytes(runs)?.try_into().map_err(|_| unexpected())?;
            FillState::Runs { fill: FillId(u128::from_be_bytes(id)), lease: left }
        }
    };
    let entry = optional(entry)?.and_then(StoredEntry::read);
    Ok(Reply::Fill(entry.map(|entry| entry.with(is_fresh)), state))
}

/// The bytes of an entry of a cache: see `cache.lua`.
struct StoredEntry {
    generation: [u8; 8],
    written: u64,
    can_be_stale: bool,
    value: Option<Bytes>,
}

impl StoredEntry {
    /// None if the bytes are no entry.
    fn read(mut bytes: Bytes) -> Option<Self> {
        let generation = bytes.get(1..9)?.try_into().ok().filter(|_| bytes[0] == b'1')?;
        let written = u64::from_le_bytes(bytes.get(9..17)?.try_into().ok()?);
        let flags = bytes.get(17)?.wrapping_sub(b'0');
        bytes.drain(..18);
        Some(Self { generation, written, can_be_stale: flags & 2 != 0, value: (flags & 1 != 0).then_some(bytes) })
    }

    fn with(self, is_fresh: bool) -> CacheEntry {
        CacheEntry { value: self.value, written: self.written, is_fresh }
    }
}

/// The reply, unless it is an error.
pub(crate) fn checked(value: Value) -> Result<Value> {
    match value {
        Value::ServerError(error) => Err(refused(&error)),
        value => Ok(value),
    }
}
