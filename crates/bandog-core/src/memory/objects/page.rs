//! Pages of an object and of all objects.

use std::ops::Bound;

use super::{cache::Cache, content::Content, object::Object, table::Objects};
use crate::{
    Error, ErrorKind, Key, Moment, Pattern, Portion, Result,
    structures::{Bytes, Cursor, Elements, ObjectRow, ObjectState, Page, Part, Source, Structure},
};

/// A page of an object. The cursor is the number of items on the earlier pages of a list or a sorted set; otherwise the last
/// item of the earlier pages as hexadecimal text.
pub(in super::super) fn page(
    objects: &Objects,
    key: &Key,
    part: Part,
    from: &Cursor,
    about: Portion,
    now: Moment,
) -> Result<Page> {
    let (items, bytes) = about.left();
    let about = Portion::new(items.max(1), bytes);
    if part == Part::Live {
        return live(objects, key, from, items.max(1));
    }
    let content = objects.of_keys.get(key).and_then(|object| object.content.as_ref());
    let Some(content) = content else { return Ok(Page { items: Vec::new(), scores: Vec::new(), next: None }) };
    let last = || bytes_of(from);
    match (part, content) {
        (Part::Entries, Content::Map(map)) => {
            let (after, with_values) = (last()?, true);
            Ok(after_page(map.range::<[u8], _>(bounds(&after)), about, with_values))
        }
        (Part::Fields(None), Content::Map(map)) => {
            let after = last()?;
            Ok(after_page(map.range::<[u8], _>(bounds(&after)), about, false))
        }
        (Part::Timed, Content::Timed(timed)) => {
            let after = last()?;
            let live = timed.live(now).filter(|(field, _)| after.as_ref().is_none_or(|after| *field > after));
            Ok(after_page(live, about, true))
        }
        (Part::Fields(Some(values)), Content::Multimap(multimap)) if multimap.values() == values => {
            let after = last()?;
            let none = Bytes::new();
            let keys = multimap.keys().filter(|key| after.as_ref().is_none_or(|after| *key > after));
            Ok(after_page(keys.map(|key| (key, &none)), about, false))
        }
        (Part::Members, Content::Set(set)) => {
            let (after, none) = (last()?, Bytes::new());
            Ok(after_page(set.range::<[u8], _>(bounds(&after)).map(|member| (member, &none)), about, false))
        }
        (Part::Elements, Content::List(list)) => {
            let (seen, len) = (position(from)?, list.len());
            let mut about = about;
            let elements = list.iter().skip(seen).take_while(|element| about.takes(element.len()));
            let items: Vec<_> = elements.cloned().collect();
            Ok(Page { next: next_position(seen + items.len(), len), items, scores: Vec::new() })
        }
        (Part::Scored, Content::Sorted(sorted)) => {
            let (seen, len) = (position(from)?, sorted.len());
            let mut about = about;
            let members = sorted.iter().skip(seen).take_while(|(member, _)| about.takes(member.len()));
            let (items, scores): (Vec<_>, Vec<_>) = members.map(|(member, score)| (member.clone(), score)).unzip();
            Ok(Page { next: next_position(seen + items.len(), len), items, scores })
        }
        _ => Err(Error::new(ErrorKind::Denied, "the name has data of another structure").at(key)),
    }
}

/// A page of the names of live objects. The cursor is the last name of the earlier pages.
fn live(objects: &Objects, key: &Key, Cursor(after): &Cursor, about: usize) -> Result<Page> {
    let (before, behind) = key.as_str().split_once('*').ok_or_else(|| Error::misused("the name has no `*`"))?;
    let first = if after.is_empty() { Bound::Included(Key::new(before)?) } else { Bound::Excluded(Key::new(after)?) };
    let is_of_class = |name: &str| {
        let id = name.strip_prefix(before).and_then(|rest| rest.strip_suffix(behind));
        id.is_some_and(|id| id.bytes().all(|digit| digit.is_ascii_hexdigit()))
    };
    let names = objects.of_keys.range((first, Bound::Unbounded)).filter(|(_, object)| object.exists());
    let mut names = names.map(|(key, _)| key.as_str()).take_while(|name| name.starts_with(before));
    let page: Vec<&str> = names.by_ref().filter(|name| is_of_class(name)).take(about).collect();
    let next = names.next().and(page.last()).map(|last| Cursor((*last).to_owned()));
    Ok(Page { items: page.iter().map(|name| name.as_bytes().to_vec()).collect(), scores: Vec::new(), next })
}

/// A page of items that begin after the cursor.
fn after_page<'a>(items: impl Iterator<Item = (&'a Bytes, &'a Bytes)>, mut about: Portion, with_values: bool) -> Page {
    let (mut page, mut last, mut items) = (Vec::new(), None, items.peekable());
    let bytes = |(item, value): &(&Bytes, &Bytes)| item.len() + if with_values { value.len() } else { 0 };
    while let Some((item, value)) = items.next_if(|item| about.takes(bytes(item))) {
        page.push(item.clone());
        if with_values {
            page.push(value.clone());
        }
        last = Some(item);
    }
    let next = items.next().and(last).map(|last| Cursor(last.iter().map(|byte| format!("{byte:02x}")).collect()));
    Page { items: page, scores: Vec::new(), next }
}

fn bounds(after: &Option<Bytes>) -> (Bound<&[u8]>, Bound<&[u8]>) {
    (after.as_deref().map_or(Bound::Unbounded, Bound::Excluded), Bound::Unbounded)
}

/// The item that a cursor names. None: the beginning.
fn bytes_of(Cursor(text): &Cursor) -> Result<Option<Bytes>> {
    let digits: Option<Vec<_>> = text.chars().map(|digit| digit.to_digit(16)).collect();
    let digits = digits.ok_or_else(bad_cursor)?;
    // An empty item is written like the beginning. It is the first one of all, so it is only repeated.
    if digits.is_empty() {
        return Ok(None);
    }
    Ok(Some(
        digits
            .chunks(2)
            .map(|pair| pair.iter().fold(0, |byte, digit| byte << 4 | u8::try_from(*digit).unwrap_or(0)))
            .collect(),
    ))
}

fn position(Cursor(text): &Cursor) -> Result<usize> {
    if text.is_empty() { Ok(0) } else { text.parse().map_err(|_| bad_cursor()) }
}

fn next_position(seen: usize, len: usize) -> Option<Cursor> {
    (seen < len).then(|| Cursor(seen.to_string()))
}

fn bad_cursor() -> Error {
    Error::misused("the cursor does not belong to this page")
}

/// A page of all objects whose names match.
pub(in super::super) fn objects(
    objects: &Objects,
    pattern: &Pattern,
    Cursor(after): &Cursor,
    about: usize,
    now: Moment,
) -> Result<(Vec<ObjectRow>, Option<Cursor>)> {
    let about = about.max(1);
    let first = if after.is_empty() { Bound::Unbounded } else { Bound::Excluded(Key::new(after)?) };
    let page: Vec<_> = objects.of_keys.range((first, Bound::Unbounded)).take(about).collect();
    let next = page.get(about - 1).map(|(key, _)| Cursor(key.as_str().to_owned()));
    // Live objects and other objects of this kind are not in the list of Redis either.
    let is_hidden = |key: &Key| ["bandog:", "redisson_"].iter().any(|prefix| key.as_str().starts_with(prefix));
    let is_wanted = |key: &Key| pattern.matches(key.as_str()) && !is_hidden(key);
    let matching = page.into_iter().filter(|(key, object)| object.exists() && is_wanted(key));
    let rows = matching.map(|(key, object)| row(key, object, now));
    let caches = objects
        .caches
        .iter()
        .filter(|(key, cache)| after.is_empty() && pattern.matches(key.as_str()) && cache.len(now) > 0);
    let cache_row = |(key, cache): (&Key, &Cache)| ObjectRow {
        key: key.clone(),
        structure: Structure::Cache,
        size: cache.len(now) as u64,
        ttl: None,
    };
    Ok((rows.chain(caches.map(cache_row)).collect(), next))
}

/// The object with this name.
pub(in super::super) fn describe(objects: &Objects, key: &Key, now: Moment) -> Option<ObjectState> {
    let object = objects.of_keys.get(key).filter(|object| object.exists())?;
    let row = row(key, object, now);
    let has_elements = matches!(row.structure, Structure::Set | Structure::List | Structure::Sorted);
    let leases = &object.taken.leases;
    let left = leases.values().map(|lease| lease.until.since(now)).filter(|left| !left.is_zero());
    let taken = left.clone().count();
    let elements = has_elements.then(|| {
        let ready = object.ready() + (leases.len() - taken) as u64;
        Elements { ready, taken: taken as u64, lease: left.min() }
    });
    Some(ObjectState { row, elements })
}

fn row(key: &Key, object: &Object, now: Moment) -> ObjectRow {
    let (structure, size) = match &object.content {
        Some(Content::Value(value)) => (Structure::Value, value.len()),
        Some(Content::Ids(_)) => (Structure::Ids, 1),
        Some(Content::Map(map)) => (Structure::Map, map.len()),
        Some(Content::Timed(timed)) => (Structure::TimedMap, timed.live(now).count()),
        Some(Content::Set(set)) => (Structure::Set, set.len()),
        Some(Content::List(list)) => (Structure::List, list.len()),
        Some(Content::Sorted(sorted)) => (Structure::Sorted, sorted.len()),
        Some(Content::Multimap(multimap)) => (Structure::Multimap(multimap.values()), multimap.len()),
        Some(Content::Bloom(_)) => (Structure::Bloom, 1),
        Some(Content::Journal(journal)) => (Structure::Journal, journal.len()),
        None => (object.taken.leases.values().next().map_or(Structure::List, |lease| structure_of(&lease.from)), 0),
    };
    ObjectRow { key: key.clone(), structure, size: size as u64, ttl: object.expires.map(|at| at.since(now)) }
}

/// The structure of an object whose elements are all taken.
fn structure_of(from: &Source) -> Structure {
    match from {
        Source::List(_) => Structure::List,
        Source::Sorted(_) => Structure::Sorted,
        Source::Set => Structure::Set,
        Source::Group(_) => Structure::Journal,
    }
}
