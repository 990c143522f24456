//! Pages of an object and of all objects.

use std::{collections::BTreeMap, time::Duration};

use bandog_core::{
    ClientId, Error, Key, Pattern, Portion, Result,
    structures::{Cursor, ObjectRow, ObjectState, Page, Part, Structure, Values},
};
use bandog_redis_net::{Keys, Master, ScriptForm, Servers, redis_glob, slot};
use redis::{Pipeline, Value};

use crate::{
    command::Command,
    hidden::{self, Hidden},
    names::{self, Helper},
    pack, read,
    scripts::SCRIPTS,
};

/// A page of an object. The cursor is that of Redis, or the number of elements on the earlier pages.
pub(crate) async fn page(servers: &Servers, key: &Key, part: Part, from: &Cursor, about: Portion) -> Result<Page> {
    let first: u64 =
        if from.0.is_empty() || part == Part::Live { 0 } else { from.0.parse().map_err(|_| bad_cursor())? };
    let page = |part| pack::page(key.as_str(), part, first, about);
    let command = match part {
        Part::Live => return live(servers, key, from, about.left().0).await,
        Part::Entries => page("entries"),
        Part::Fields(_) => page("fields"),
        Part::Timed => pack::timed_page(key.as_str(), first, about),
        Part::Members => page("members"),
        Part::Elements => page("elements"),
        Part::Scored => page("scored"),
    };
    let reply = call(servers, &[command]).await?.pop().unwrap_or(Value::Nil);
    let Ok([next, items]) = <[Value; 2]>::try_from(read::each(reply)?) else { return Err(read::unexpected()) };
    let next = String::from_utf8(read::bytes(next)?).map_err(|_| bad_cursor())?;
    let next = (next != "0").then_some(Cursor(next));
    if let Part::Scored = part {
        let (items, scores): (Vec<_>, Vec<_>) = read::scored(items)?.into_iter().unzip();
        return Ok(Page { items, scores, next });
    }
    let items = read::each(items)?.into_iter().map(read::bytes).collect::<Result<Vec<_>>>()?;
    Ok(Page { items, scores: Vec::new(), next })
}

/// A page of the names of the live objects of a class.
async fn live(servers: &Servers, key: &Key, from: &Cursor, about: usize) -> Result<Page> {
    let (before, behind) = key.as_str().split_once('*').ok_or_else(|| Error::misused("the name has no `*`"))?;
    let glob = format!("{}*{}", escaped(before), escaped(behind));
    let masters = servers.masters().await?;
    let (names, next) = match scan(&masters, &glob, from, about).await? {
        Some((_, names, next)) => (names, next),
        None => (Vec::new(), None),
    };
    let is_of_class = |name: &String| {
        let id = name.strip_prefix(before).and_then(|rest| rest.strip_suffix(behind));
        id.is_some_and(|id| id.bytes().all(|digit| digit.is_ascii_hexdigit()))
    };
    let items = names.into_iter().filter(is_of_class).map(String::into_bytes).collect();
    Ok(Page { items, scores: Vec::new(), next })
}

/// The text as a glob that matches it only.
fn escaped(text: &str) -> String {
    let escape = |letter: char| match letter {
        '*' | '?' | '[' | ']' | '^' | '\\' => ['\\', letter].iter().collect(),
        _ => String::from(letter),
    };
    text.chars().map(escape).collect()
}

fn bad_cursor() -> Error {
    Error::misused("the cursor does not belong to this page")
}

/// A page of the objects whose names match.
pub(crate) async fn objects(
    servers: &Servers,
    pattern: &Pattern,
    from: &Cursor,
    about: usize,
) -> Result<(Vec<ObjectRow>, Option<Cursor>)> {
    // The names of helper keys contain the name of their object.
    let glob = format!("*{}*", redis_glob(pattern));
    let masters = servers.masters().await?;
    let Some((_, names, next)) = scan(&masters, &glob, from, about).await? else { return Ok((Vec::new(), None)) };
    let (mut found, mut caches) = (Vec::new(), BTreeMap::<String, u64>::new());
    for name in names {
        if let Some(cache) = names::cache_of_entry(&name) {
            if pattern.matches(cache) {
                *caches.entry(cache.to_owned()).or_default() += 1;
            }
            continue;
        }
        let by = names::helper(&name);
        let name = if by.is_some() { names::object_of(&name).to_owned() } else { name };
        let is_wanted = |name: &str| names::is_object(name) && pattern.matches(name) && is_in_one_slot(servers, name);
        let key = Key::new(name).ok().filter(|key| is_wanted(key.as_str()));
        found.extend(key.map(|key| (key, by)));
    }
    let command = |(key, by): &(Key, Option<Helper>)| if by.is_some() { hidden::command(key) } else { shown(key) };
    let replies = call(servers, &found.iter().map(command).collect::<Vec<_>>()).await?;
    let mut rows = Vec::new();
    for ((key, by), reply) in found.into_iter().zip(replies) {
        rows.extend(match by {
            None => row(key, reply)?,
            Some(by) => Hidden::read(reply)?.row_by(key, by),
        });
    }
    let cache =
        |(name, size)| Some(ObjectRow { key: Key::new(name).ok()?, structure: Structure::Cache, size, ttl: None });
    rows.extend(caches.into_iter().filter_map(cache));
    Ok((rows, next))
}

/// A page of the work queues whose names match.
pub(crate) async fn queues(
    servers: &Servers,
    pattern: &Pattern,
    from: &Cursor,
    about: usize,
) -> Result<(Vec<Key>, Option<Cursor>)> {
    let glob = format!("bandog:work:*{}*", redis_glob(pattern));
    let masters = servers.masters().await?;
    let Some((master, keys, next)) = scan(&masters, &glob, from, about).await? else { return Ok((Vec::new(), None)) };
    let (mut found, mut with_settings, mut exist) = (Vec::new(), Vec::new(), Pipeline::new());
    for key in &keys {
        match names::work_of(key).filter(|(name, _)| pattern.matches(name)) {
            Some((name, "elements")) => found.push(name),
            Some((name, "settings")) => {
                let [elements, ..] = names::work(name);
                exist.cmd("EXISTS").arg(elements);
                with_settings.push(name);
            }
            _ => {}
        }
    }
    if !with_settings.is_empty() {
        let replies = master.link().call(exist).await?;
        for (name, reply) in with_settings.into_iter().zip(replies) {
            // A queue with elements is found by the key of these.
            if read::int(&read::checked(reply)?)? == 0 {
                found.push(name);
            }
        }
    }
    Ok((found.into_iter().filter_map(|name| Key::new(name).ok()).collect(), next))
}

/// A page of the keys of all masters that match a glob, the master that has them, and the cursor of the next page. None: there
/// is no such master. The cursor is the number of the master, a space and the cursor of Redis.
async fn scan<'m>(
    masters: &'m [Master<'_>],
    glob: &str,
    Cursor(from): &Cursor,
    about: usize,
) -> Result<Option<(&'m Master<'m>, Vec<String>, Option<Cursor>)>> {
    let (at, cursor) = match from.split_once(' ') {
        Some((at, cursor)) => (at.parse().map_err(|_| bad_cursor())?, cursor),
        None if from.is_empty() => (0, "0"),
        None => return Err(bad_cursor()),
    };
    let Some(master) = masters.get(at) else { return Ok(None) };
    let mut scan = Pipeline::with_capacity(1);
    scan.cmd("SCAN").arg(cursor).arg("MATCH").arg(glob).arg("COUNT").arg(about.max(1));
    let reply = read::checked(master.link().call(scan).await?.into_iter().next().unwrap_or(Value::Nil))?;
    let Ok([next, keys]) = <[Value; 2]>::try_from(read::each(reply)?) else { return Err(bad_cursor()) };
    let next = String::from_utf8(read::bytes(next)?).map_err(|_| bad_cursor())?;
    let next = match (next.as_str(), at + 1 < masters.len()) {
        ("0", true) => Some(format!("{} 0", at + 1)),
        ("0", false) => None,
        (cursor, _) => Some(format!("{at} {cursor}")),
    };
    let mut texts = Vec::new();
    for key in read::each(keys)? {
        // Keys that are not text are those of other programs.
        texts.extend(String::from_utf8(read::bytes(key)?).ok());
    }
    Ok(Some((master, texts, next.map(Cursor))))
}

/// The object with this name, and what its helper keys show in addition.
pub(crate) async fn describe(servers: &Servers, key: &Key) -> Result<Vec<ObjectState>> {
    if !is_in_one_slot(servers, key.as_str()) {
        return Ok(Vec::new());
    }
    let mut replies = call(servers, &[shown(key), hidden::command(key)]).await?.into_iter();
    let row = row(key.clone(), replies.next().unwrap_or(Value::Nil))?;
    Ok(Hidden::read(replies.next().unwrap_or(Value::Nil))?.states(key, row))
}

/// Whether the keys of an object of this name are in one slot of a cluster. If not, no object has the name.
fn is_in_one_slot(servers: &Servers, name: &str) -> bool {
    let is_same = |key: &String| slot(key.as_bytes()) == slot(name.as_bytes());
    !servers.is_cluster() || names::hidden(name).iter().all(is_same)
}

/// The command that reads the structure of an object from its own key.
fn shown(key: &Key) -> Command {
    let name = key.as_str();
    let args =
        [names::bloom_config(name), names::allocation(name), names::suffixed(name, ""), names::latch_operations(name)];
    Command::script(&SCRIPTS.describe, [name.to_owned()]).args(args)
}

/// The replies to these scripts, in one round trip to each server.
pub(crate) async fn call(servers: &Servers, commands: &[Command]) -> Result<Vec<Value>> {
    if commands.is_empty() {
        return Ok(Vec::new());
    }
    let pack = |form: ScriptForm| {
        let mut pipe = Pipeline::with_capacity(commands.len());
        commands.iter().for_each(|command| _ = pipe.add_command(command.in_form(form)));
        pipe
    };
    let replies = servers.call_scripts(servers.deadline(), Keys::OfScripts, pack).await?;
    replies.into_iter().map(|reply| read::checked(reply?)).collect()
}

/// The row of an object. None if it has gone, is a lock or a latch, or has a type that no object has.
fn row(key: Key, reply: Value) -> Result<Option<ObjectRow>> {
    let mut parts = read::each(reply)?;
    let fields = if parts.len() == 4 { parts.pop() } else { None };
    let Ok([structure, size, ttl]) = <[Value; 3]>::try_from(parts) else { return Ok(None) };
    if fields.map(is_lock).transpose()? == Some(true) {
        return Ok(None);
    }
    let structure = match read::bytes(structure)?.as_slice() {
        b"value" => Structure::Value,
        b"ids" => Structure::Ids,
        b"map" => Structure::Map,
        b"timed map" => Structure::TimedMap,
        b"set" => Structure::Set,
        b"list" => Structure::List,
        b"sorted" => Structure::Sorted,
        b"set multimap" => Structure::Multimap(Values::Set),
        b"list multimap" => Structure::Multimap(Values::List),
        b"bloom" => Structure::Bloom,
        b"journal" => Structure::Journal,
        _ => return Ok(None),
    };
    let ttl = u64::try_from(read::int(&ttl)?).ok().map(Duration::from_millis);
    Ok(Some(ObjectRow { key, structure, size: u64::try_from(read::int(&size)?).unwrap_or(0), ttl }))
}

/// Whether these are the fields of a lock of Redisson or bandog: owners with their numbers of holds, and the mode of a
/// read-write lock.
fn is_lock(fields: Value) -> Result<bool> {
    let fields = read::each(fields)?.into_iter().map(read::bytes).collect::<Result<Vec<_>>>()?;
    let text = |bytes: &[u8]| std::str::from_utf8(bytes).map(str::to_owned).unwrap_or_default();
    let is_hold = |field: &str, holds: &str| {
        let owner = field.strip_suffix(":write").unwrap_or(field);
        field == "mode" && fields.len() > 2 || ClientId::is_owner(owner) && holds.parse::<u32>().is_ok()
    };
    let mut pairs = fields.chunks_exact(2);
    Ok(!fields.is_empty() && pairs.all(|pair| is_hold(&text(&pair[0]), &text(&pair[1]))))
}
