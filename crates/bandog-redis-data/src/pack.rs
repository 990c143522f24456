//! The command of each operation.

use bandog_codec::{hash, number, pack::LocalCacheMessage};
use bandog_core::{
    Error, ErrorKind, Key, Portion, Result,
    structures::{
        Action, BeginWhen, BitCombine, BitsOp, BloomOp, BloomSizes, Bytes, CacheOp, Combine, CounterOp, End, EntryKey,
        Expiry, FieldOp, FillId, FloatOp, JournalOp, Keep, Life, ListOp, LiveIndex, MapOp, MultimapOp, NewEntry,
        ObjectOp, Once, Op, Scores, SetOp, SetTtl, SortedOp, Source, Start, Structure, TakeEnd, TakeOp, TimedOp,
        ValueOp, Values, Victim, millis,
    },
};

use crate::{
    command::{Command, score},
    live, names,
    scripts::SCRIPTS,
};

/// The number of bits that a bit set can have.
const MAX_BITS: u64 = 1 << 32;

/// The command that applies this operation.
pub(crate) fn command(Op { key, action }: &Op) -> Result<Command> {
    let name = key.as_str();
    Ok(match action {
        Action::Object(structure, op) => whole(name, *structure, op),
        Action::Value(op) => value(name, op),
        Action::Counter(op) => counter(name, op),
        Action::Float(op) => float(name, op)?,
        Action::Ids { size } => Command::script(&SCRIPTS.ids, [name.to_owned(), names::allocation(name)]).arg(*size),
        Action::Map(op) => map(name, op)?,
        Action::Copied(op) => copied(name, op)?,
        Action::Timed(Expiry::Operations, op) => timed(name, op)?,
        Action::Timed(Expiry::Server, op) => field_ttl(name, op)?,
        Action::Set(op) => set(name, op),
        Action::List(op) => list(name, op),
        Action::Sorted(op) => sorted(name, op)?,
        Action::Multimap(values, op) => multimap(name, *values, op),
        Action::Bits(op) => bits(name, op)?,
        Action::Bloom(op) => bloom(name, op),
        Action::Journal(op) => journal(name, op),
        Action::Take(op) => take(name, op),
        Action::Live(op) => live::command(name, op)?,
        Action::Cache(op) => cache(name, op),
    })
}

/// The key that decides which node of a cluster has the object of an operation. None: its name.
pub(crate) fn route(Op { key, action }: &Op) -> Option<String> {
    match action {
        Action::Cache(op) => Some(names::cache_generation(key.as_str(), op.part())),
        _ => None,
    }
}

/// The other objects of an operation. They must be in the slot of its object.
pub(crate) fn others(op: &Op) -> impl Iterator<Item = &Key> {
    let (others, indexes): (&[Key], &[LiveIndex]) = match &op.action {
        Action::Set(SetOp::Combine(_, others)) | Action::Bits(BitsOp::Combine(_, others)) => (others, &[]),
        Action::Set(SetOp::Move(_, to)) | Action::Take(TakeOp::MoveTo { to, .. }) => (std::slice::from_ref(to), &[]),
        Action::Live(op) => (&[], &op.indexes),
        _ => (&[], &[]),
    };
    others.iter().chain(indexes.iter().map(|index| &index.key))
}

fn whole(name: &str, structure: Structure, op: &ObjectOp) -> Command {
    let names::Whole { keys, showing, sharing } = names::whole(name, structure);
    let prefix = match structure {
        Structure::Multimap(_) => names::suffixed(name, ""),
        _ => String::new(),
    };
    let (verb, ms) = match op {
        ObjectOp::Exists => ("exists", 0),
        ObjectOp::Delete => ("delete", 0),
        ObjectOp::Expire(ttl) => ("expire", millis(*ttl)),
        ObjectOp::Persist => ("persist", 0),
        ObjectOp::Ttl => ("ttl", 0),
    };
    Command::script(&SCRIPTS.whole, keys).arg(verb).arg(showing).arg(sharing).arg(prefix).arg(ms)
}

fn value(name: &str, op: &ValueOp) -> Command {
    match op {
        ValueOp::Get => Command::of("GET", name),
        // With `GET`, a key with another type is refused instead of replaced.
        ValueOp::Set(value, ttl) => {
            let set = Command::of("SET", name).arg(value);
            match ttl {
                SetTtl::Clear => set,
                SetTtl::Keep => set.arg("KEEPTTL"),
                SetTtl::For(ttl) => set.arg("PX").arg(millis(*ttl)),
            }
            .arg("GET")
        }
        ValueOp::SetNew(value, ttl) => {
            let set = Command::of("SET", name).arg(value).arg("NX");
            match ttl {
                Some(ttl) => set.arg("PX").arg(millis(*ttl)),
                None => set,
            }
        }
        ValueOp::Swap { from, to } => {
            let swap = Command::script(&SCRIPTS.value, [name.to_owned()]).arg("swap");
            swap.optional(from.as_ref()).optional(to.as_ref())
        }
        ValueOp::Take => Command::of("GETDEL", name),
    }
}

fn counter(name: &str, op: &CounterOp) -> Command {
    match op {
        CounterOp::Get => Command::of("GET", name),
        CounterOp::Set(number) => Command::of("SET", name).arg(*number).arg("GET"),
        CounterOp::Add { by, expiring: None, once: None } => Command::of("INCRBY", name).arg(*by),
        CounterOp::Add { by, expiring, once } => {
            let add = Command::script(&SCRIPTS.value, [name.to_owned(), names::answers(name)]).arg("add").arg(*by);
            with_once(add.arg(expiring.map(millis).map(|ms| ms.to_string()).unwrap_or_default()), once.as_ref())
        }
        CounterOp::Swap(from, to) => {
            Command::script(&SCRIPTS.value, [name.to_owned()]).arg("swap_number").arg(*from).arg(*to)
        }
    }
}

fn float(name: &str, op: &FloatOp) -> Result<Command> {
    Ok(match op {
        FloatOp::Get => Command::of("GET", name),
        FloatOp::Set(number) => Command::of("SET", name).arg(plain(*number)?).arg("GET"),
        FloatOp::Add { by, expiring: None, once: None } => Command::of("INCRBYFLOAT", name).arg(plain(*by)?),
        FloatOp::Add { by, expiring, once } => {
            let add = Command::script(&SCRIPTS.value, [name.to_owned(), names::answers(name)]);
            let add = add.arg("add_float").arg(plain(*by)?);
            with_once(add.arg(expiring.map(millis).map(|ms| ms.to_string()).unwrap_or_default()), once.as_ref())
        }
        FloatOp::Swap(from, to) => {
            let swap = Command::script(&SCRIPTS.value, [name.to_owned()]).arg("swap_float");
            swap.arg(plain(*from)?).arg(plain(*to)?)
        }
    })
}

/// The text of a number that is finite.
fn plain(number: f64) -> Result<String> {
    let text = number.is_finite().then(|| number.to_string());
    text.ok_or_else(|| Error::misused("the number is NaN or infinite, which a counter cannot be"))
}

/// Adds the id of an operation.
fn with_once(command: Command, once: Option<&Once>) -> Command {
    match once {
        Some(Once { id, remember, forget_before }) => {
            command.arg(id.client.to_string()).arg(id.number).arg(millis(*remember)).arg(*forget_before)
        }
        None => command.args(["", "", "", ""]),
    }
}

fn map(name: &str, op: &MapOp) -> Result<Command> {
    let script = |verb: &str| Command::script(&SCRIPTS.map, [name.to_owned()]).args(["", ""]).arg(verb);
    Ok(match op {
        MapOp::Get(fields) => Command::of("HMGET", name).args(fields),
        MapOp::Len => Command::of("HLEN", name),
        MapOp::Insert(..) | MapOp::Take(_) | MapOp::Swap { .. } => map_write(op, script)?,
        MapOp::Put(_) | MapOp::InsertNew(..) | MapOp::Remove(_) | MapOp::Add(..) | MapOp::AddFloat(..) => {
            map_write(op, |verb| Command::of(verb, name))?
        }
    })
}

/// A write to a map: `call` makes the command with a verb.
fn map_write(op: &MapOp, call: impl Fn(&str) -> Command) -> Result<Command> {
    Ok(match op {
        MapOp::Get(fields) => call("HMGET").args(fields),
        MapOp::Put(entries) => call("HSET").args(entries.iter().flat_map(|(field, value)| [field, value])),
        MapOp::Insert(field, value) => call("insert").arg(field).arg(value),
        MapOp::InsertNew(field, value) => call("HSETNX").arg(field).arg(value),
        MapOp::Remove(fields) => call("HDEL").args(fields),
        MapOp::Take(field) => call("take").arg(field),
        MapOp::Swap { field, from, to } => call("swap").arg(field).optional(from.as_ref()).optional(to.as_ref()),
        MapOp::Add(field, by) => call("HINCRBY").arg(field).arg(*by),
        MapOp::AddFloat(field, by) => call("HINCRBYFLOAT").arg(field).arg(plain(*by)?),
        MapOp::Len => call("HLEN"),
    })
}

/// An operation on a map of which programs keep copies: the message of a write is that of `RLocalCachedMap`.
fn copied(name: &str, op: &MapOp) -> Result<Command> {
    let hashes: Vec<_> = op.written().map(|field| hash::h128_bytes(field)).collect();
    if hashes.is_empty() {
        return map(name, op);
    }
    let message = LocalCacheMessage::Invalidate { sender: [0; 16], hashes }.encode();
    let message = message.map_err(|error| Error::misused(error.to_string()))?;
    let script = Command::script(&SCRIPTS.map, [name.to_owned()]).arg(names::copies(name)).arg(message);
    map_write(op, |verb| script.clone().arg(verb))
}

/// The time of a life, or an empty text.
fn optional_millis(time: Option<std::time::Duration>) -> String {
    time.map(|time| millis(time).to_string()).unwrap_or_default()
}

/// A timed map whose entries expire by operations.
fn timed(name: &str, op: &TimedOp) -> Result<Command> {
    let living = |verb: &str, Life { ttl, idle }: Life| {
        let call = Command::script(&SCRIPTS.timed, names::timed(name)).arg(verb).arg(names::tag(name));
        call.arg(optional_millis(ttl)).arg(optional_millis(idle))
    };
    let call = |verb: &str| living(verb, Life::default());
    Ok(match op {
        TimedOp::Entries(op, life) => map_write(op, |verb| living(verb, *life))?,
        TimedOp::SetLife(field, life) => living("set_life", *life).arg(field),
        TimedOp::Left(field) => call("left").arg(field),
        TimedOp::Bound { entries, victim } => call("bound").arg(*entries).arg(match victim {
            Victim::LeastRecentlyUsed => "LRU",
            Victim::LeastFrequentlyUsed => "LFU",
        }),
        TimedOp::Evict { at_most, pause } => call("evict").arg(*at_most).arg(millis(*pause)),
    })
}

/// Makes the events of a timed map be published.
pub(crate) fn listen(name: &str) -> Command {
    Command::script(&SCRIPTS.timed, names::timed(name)).arg("listen").arg(names::tag(name)).args(["", ""])
}

/// A page of the entries of a timed map.
pub(crate) fn timed_page(name: &str, from: u64, about: Portion) -> Command {
    let page = Command::script(&SCRIPTS.timed, names::timed(name)).arg("page").arg(names::tag(name));
    let (items, bytes) = about.left();
    page.args(["", ""]).arg(from).arg(items.max(1)).arg(bytes)
}

/// A page of another object. `part`: see `page.lua`.
pub(crate) fn page(name: &str, part: &str, from: u64, about: Portion) -> Command {
    let (items, bytes) = about.left();
    Command::script(&SCRIPTS.page, [name.to_owned()]).arg(part).arg(from).arg(items.max(1)).arg(bytes)
}

/// A timed map whose entries the server lets expire.
fn field_ttl(name: &str, op: &TimedOp) -> Result<Command> {
    let unsupported = |what: &str| {
        let message =
            format!("a timed map whose entries the server lets expire has no {what}; use one without .native()");
        Err(Error::new(ErrorKind::Unsupported, message))
    };
    let living = |verb: &str, life: Life| {
        Command::script(&SCRIPTS.field_ttl, [name.to_owned()]).arg(optional_millis(life.ttl)).arg(verb)
    };
    match op {
        TimedOp::Entries(_, Life { idle: Some(_), .. }) | TimedOp::SetLife(_, Life { idle: Some(_), .. }) => {
            unsupported("idle times")
        }
        TimedOp::Entries(op @ (MapOp::Get(_) | MapOp::Remove(_) | MapOp::Take(_) | MapOp::Len), _) => map(name, op),
        // A written field has no time any more, and an addition keeps that of a field.
        TimedOp::Entries(op, Life { ttl: None, .. }) if !matches!(op, MapOp::Swap { .. }) => map(name, op),
        TimedOp::Entries(op, life) => map_write(op, |verb| living(verb, *life)),
        TimedOp::SetLife(field, life) => Ok(living("set_life", *life).arg(field)),
        TimedOp::Left(field) => Ok(living("left", Life::default()).arg(field)),
        TimedOp::Bound { .. } => unsupported("bound"),
        TimedOp::Evict { .. } => unsupported("entries that must be removed"),
    }
}

fn set(name: &str, op: &SetOp) -> Command {
    match op {
        SetOp::Insert(members) => Command::of("SADD", name).args(members),
        SetOp::Remove(members) => Command::of("SREM", name).args(members),
        SetOp::Contains(members) => Command::of("SMISMEMBER", name).args(members),
        SetOp::Random(at_most) => Command::of("SRANDMEMBER", name).arg(*at_most),
        SetOp::Combine(how, others) => {
            let verb = match how {
                Combine::Union => "SUNION",
                Combine::Intersection => "SINTER",
                Combine::Difference => "SDIFF",
            };
            Command::of(verb, name).args(others.iter().map(Key::as_str))
        }
        SetOp::Move(member, to) => Command::of("SMOVE", name).arg(to.as_str()).arg(member),
        SetOp::Len => Command::of("SCARD", name),
    }
}

fn push(end: End) -> &'static str {
    match end {
        End::Front => "LPUSH",
        End::Back => "RPUSH",
    }
}

fn list(name: &str, op: &ListOp) -> Command {
    let script = |verb: &str| Command::script(&SCRIPTS.list, [name.to_owned()]).arg(verb);
    match op {
        ListOp::Push { end, elements, once: None } => Command::of(push(*end), name).args(elements),
        ListOp::Push { end, elements, once } => {
            let pushes = Command::script(&SCRIPTS.list, [name.to_owned(), names::answers(name)]).arg("push");
            with_once(pushes.arg(push(*end)), once.as_ref()).args(elements)
        }
        ListOp::Insert(index, element) => script("insert").arg(*index).arg(element),
        ListOp::Get(index) => Command::of("LINDEX", name).arg(*index),
        ListOp::Set(index, element) => script("set").arg(*index).arg(element),
        ListOp::RemoveAt(index) => script("remove").arg(*index),
        ListOp::Remove(element, at_most) => Command::of("LREM", name).arg(*at_most).arg(element),
        ListOp::Slice(from, to) => Command::of("LRANGE", name).arg(*from).arg(*to),
        ListOp::Trim(from, to) => Command::of("LTRIM", name).arg(*from).arg(*to),
        ListOp::Position(element) => Command::of("LPOS", name).arg(element),
        ListOp::Len => Command::of("LLEN", name),
    }
}

fn sorted(name: &str, op: &SortedOp) -> Result<Command> {
    let of = |verb: &str| Command::of(verb, name);
    let between = |verb: &str, Scores { min, max }: Scores| Ok::<_, Error>(of(verb).arg(score(min)?).arg(score(max)?));
    Ok(match op {
        SortedOp::Insert(members) => members
            .iter()
            .try_fold(of("ZADD"), |command, (of, member)| Ok::<_, Error>(command.arg(score(*of)?).arg(member)))?,
        SortedOp::InsertNew(of_member, member) => of("ZADD").arg("NX").arg(score(*of_member)?).arg(member),
        SortedOp::Add(member, by) => of("ZINCRBY").arg(score(*by)?).arg(member),
        SortedOp::Remove(members) => of("ZREM").args(members),
        SortedOp::Scores(members) => of("ZMSCORE").args(members),
        SortedOp::Rank(member, End::Front) => of("ZRANK").arg(member),
        SortedOp::Rank(member, End::Back) => of("ZREVRANK").arg(member),
        SortedOp::Range(End::Front, from, to) => of("ZRANGE").arg(*from).arg(*to).arg("WITHSCORES"),
        SortedOp::Range(End::Back, from, to) => of("ZREVRANGE").arg(*from).arg(*to).arg("WITHSCORES"),
        SortedOp::Between(scores, at_most) => {
            between("ZRANGEBYSCORE", *scores)?.arg("WITHSCORES").arg("LIMIT").arg(0).arg(*at_most)
        }
        SortedOp::RemoveBetween(scores) => between("ZREMRANGEBYSCORE", *scores)?,
        SortedOp::Count(scores) => between("ZCOUNT", *scores)?,
        SortedOp::Len => of("ZCARD"),
    })
}

fn multimap(name: &str, values: Values, op: &MultimapOp) -> Command {
    let kind = match values {
        Values::Set => "set",
        Values::List => "list",
    };
    let shared = [name.to_owned(), names::multimap_ttls(name, values)];
    let of_all = |verb: &str| {
        Command::script(&SCRIPTS.multimap, shared.clone()).arg(verb).arg(kind).arg(names::suffixed(name, ""))
    };
    let of = |verb: &str, key: &Bytes| {
        let hash = hash::entry_name(key);
        let keys = shared.iter().cloned().chain([names::suffixed(name, &hash)]);
        let prefix = names::suffixed(name, "");
        Command::script(&SCRIPTS.multimap, keys).arg(verb).arg(kind).arg(prefix).arg(key).arg(hash)
    };
    match op {
        MultimapOp::Insert(key, value) => of("insert", key).arg(value),
        MultimapOp::Remove(key, value) => of("remove", key).arg(value),
        MultimapOp::RemoveAll(key) => of("remove_all", key),
        MultimapOp::Get(key) => of("get", key),
        MultimapOp::Contains(key, value) => of("contains", key).arg(value),
        MultimapOp::Len => of_all("len"),
        MultimapOp::KeysLen => of_all("keys_len"),
        MultimapOp::ExpireKey(key, ttl) => of("expire", key).arg(millis(*ttl)),
    }
}

fn bits(name: &str, op: &BitsOp) -> Result<Command> {
    let script = |verb: &str| Command::script(&SCRIPTS.bits, [name.to_owned()]).arg(verb);
    let at_most = |bits: u64| if bits > MAX_BITS { Err(beyond()) } else { Ok(bits) };
    let within = |indexes: &[u64]| if indexes.iter().all(|index| *index < MAX_BITS) { Ok(()) } else { Err(beyond()) };
    Ok(match op {
        BitsOp::Get(indexes) => {
            within(indexes)?;
            let bits = Command::of("BITFIELD", name);
            indexes.iter().fold(bits, |command, index| command.arg("GET").arg("u1").arg(*index))
        }
        BitsOp::Set(indexes, bit) => {
            within(indexes)?;
            indexes.iter().fold(Command::of("BITFIELD", name), |command, index| {
                command.arg("SET").arg("u1").arg(*index).arg(u8::from(*bit))
            })
        }
        BitsOp::SetRange(from, to, bit) => script("range").arg(*from).arg(at_most(*to)?).arg(u8::from(*bit)),
        BitsOp::Count => Command::of("BITCOUNT", name),
        BitsOp::Len => script("len"),
        BitsOp::Combine(how, others) => {
            let keys = std::iter::once(name).chain(others.iter().map(Key::as_str)).map(str::to_owned);
            Command::script(&SCRIPTS.bits, keys).arg("combine").arg(match how {
                BitCombine::And => "AND",
                BitCombine::Or => "OR",
                BitCombine::Xor => "XOR",
            })
        }
        BitsOp::Not => script("combine").arg("NOT"),
        BitsOp::Bytes => Command::of("GET", name),
        BitsOp::Field(field, op) => {
            at_most(field.offset.saturating_add(field.width.into()))?;
            let (width, sign) = (field.width, if field.is_signed { 'i' } else { 'u' });
            let of =
                |verb: &str| Command::of("BITFIELD", name).arg(verb).arg(format!("{sign}{width}")).arg(field.offset);
            match op {
                FieldOp::Get => of("GET"),
                FieldOp::Set(number) => of("SET").arg(*number),
                FieldOp::Add(by) => of("INCRBY").arg(*by),
            }
        }
    })
}

fn beyond() -> Error {
    Error::misused("a bit set has at most 4,294,967,296 bits")
}

fn bloom(name: &str, op: &BloomOp) -> Command {
    let script = |verb: &str| Command::script(&SCRIPTS.bloom, [name.to_owned(), names::bloom_config(name)]).arg(verb);
    let items = |verb: &str, sizes: &BloomSizes, items: &[Vec<u64>]| {
        script(verb).arg(sizes.bits).arg(sizes.hashes).args(items.iter().flatten().copied())
    };
    match op {
        BloomOp::Create(sizes) => {
            let command = script("create").arg(sizes.bits).arg(sizes.hashes).arg(sizes.expected);
            command.arg(number::java(sizes.false_positives))
        }
        BloomOp::Open => script("open"),
        BloomOp::Insert(sizes, each) => items("insert", sizes, each),
        BloomOp::Contains(sizes, each) => items("contains", sizes, each),
        BloomOp::Count => Command::of("BITCOUNT", name),
    }
}

fn end(end: End) -> &'static str {
    match end {
        End::Front => "front",
        End::Back => "back",
    }
}

fn journal(name: &str, op: &JournalOp) -> Command {
    let call = |verb: &str| Command::script(&SCRIPTS.journal, names::take(name)).arg(verb);
    let keep = |call: Command, keep: &Keep| match keep {
        Keep::All => call.arg("all").arg(0),
        Keep::Newest(number) => call.arg("newest").arg(*number),
        Keep::For(age) => call.arg("for").arg(millis(*age)),
    };
    match op {
        JournalOp::Append { entries, keep: Keep::All, once: None } if entries.len() == 1 => {
            Command::of("XADD", name).arg("*").arg("m").args(entries)
        }
        JournalOp::Append { entries, keep: kept, once } => {
            with_once(keep(call("append"), kept), once.as_ref()).args(entries)
        }
        JournalOp::Range { from, to, at_most, bytes: u32::MAX } => {
            Command::of("XRANGE", name).arg(from.to_string()).arg(to.to_string()).arg("COUNT").arg(*at_most)
        }
        JournalOp::Range { from, to, at_most, bytes } => {
            call("range").arg(from.to_string()).arg(to.to_string()).arg(*at_most).arg(*bytes)
        }
        JournalOp::Trim(kept) => keep(call("trim"), kept),
        JournalOp::Len => Command::of("XLEN", name),
        JournalOp::OpenGroup(group, start) => {
            let call = call("open").arg(&**group);
            match start {
                Start::Oldest => call.arg("0"),
                Start::Newest => call.arg("$"),
                Start::After(id) => call.arg(id.to_string()),
            }
        }
        JournalOp::RemoveGroup(group) => call("remove").arg(&**group),
        JournalOp::Groups => call("groups"),
    }
}

fn take(name: &str, op: &TakeOp) -> Command {
    let call = |verb: &str, keys: Vec<String>, from: &Source| {
        let (kind, at) = match from {
            Source::List(at) => ("list", end(*at)),
            Source::Sorted(at) => ("zset", end(*at)),
            Source::Set => ("set", "front"),
            Source::Group(name) => ("stream", &**name),
        };
        Command::script(&SCRIPTS.take, keys).arg(verb).arg(kind).arg(at)
    };
    let keys = || names::take(name).to_vec();
    match op {
        TakeOp::Take { from, at_most, bytes, lease, once, done } => {
            let command = call("take", keys(), from).arg(*at_most).arg(*bytes).arg(millis(*lease));
            with_once(command, Some(once)).args(done)
        }
        TakeOp::Settle { from, ids, end } => {
            let end = match end {
                TakeEnd::Done => "done",
                TakeEnd::Undelivered => "undelivered",
                TakeEnd::Again => "again",
            };
            call("settle", keys(), from).arg(end).args(ids)
        }
        TakeOp::Extend { from, ids, lease } => call("extend", keys(), from).arg(millis(*lease)).args(ids),
        TakeOp::Count(from) => call("count", keys(), from),
        TakeOp::Peek { from, skip, at_most, bytes } => call("peek", keys(), from).arg(*skip).arg(*at_most).arg(*bytes),
        TakeOp::MoveTo { from, to, at, at_most } => {
            let mut keys = keys();
            keys.push(to.to_string());
            call("move", keys, &Source::List(*from)).arg(end(*at)).arg(*at_most)
        }
    }
}

fn cache(name: &str, op: &CacheOp) -> Command {
    let script = |verb: &str, at: &EntryKey| Command::script(&SCRIPTS.cache, names::cache(name, at)).arg(verb);
    let new_generation = || fastrand::u64(..).to_le_bytes();
    let with_entry = |command: Command, NewEntry { value, fresh, stale }: &NewEntry| {
        let stale = if stale.is_zero() { 0 } else { millis(*stale) };
        let flags = b'0' + u8::from(value.is_some()) + 2 * u8::from(stale > 0);
        command.arg(millis(*fresh)).arg(stale).arg(&[flags][..]).arg(value.as_deref().unwrap_or_default())
    };
    let id = |fill: &FillId| fill.0.to_be_bytes();
    match op {
        CacheOp::Get(at) => {
            let [generation, entry, fresh, _] = names::cache(name, at);
            Command::of("MGET", &generation).arg(entry).arg(fresh)
        }
        CacheOp::Look(at) => script("look", at),
        CacheOp::Begin { at, fill, when, lease } => {
            let begin = script("begin", at).arg(&id(fill)[..]).arg(millis(*lease)).arg(&new_generation()[..]);
            begin.arg(match when {
                BeginWhen::Needed => 0,
                BeginWhen::Always => 1,
                BeginWhen::Instead(written) => *written,
            })
        }
        CacheOp::Extend { at, fill, lease } => script("extend", at).arg(&id(fill)[..]).arg(millis(*lease)),
        CacheOp::End { at, fill } => script("end", at).arg(&id(fill)[..]),
        CacheOp::Fill { at, fill, entry } => with_entry(script("fill", at).arg(&id(fill)[..]), entry),
        CacheOp::Put(at, entry) => with_entry(script("put", at).arg(&new_generation()[..]), entry),
        CacheOp::Remove(at) => {
            let [_, entry, fresh, fill] = names::cache(name, at);
            Command::of("UNLINK", &entry).arg(fresh).arg(fill)
        }
        CacheOp::Clear { part } => Command::of("UNLINK", &names::cache_generation(name, *part)),
    }
}
