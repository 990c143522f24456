//! The verbs of all types but queues.

use std::{ops::Deref, time::Duration};

use bandog::{
    Error,
    grid::{Bloom, Entry, EntryId, Event, GroupRow, Life, Multimap, codec::Bytes},
};
use clap::ValueEnum;
use futures_util::{Stream, StreamExt};

use super::call::{Call, Limit, Trouble};
use crate::{console::report, durations, exit_code::ExitCode, fault::Fault};

type Result<T = (), E = Trouble> = std::result::Result<T, E>;
/// The bytes of a key, a value or an element. The command itself reads and writes them.
type Raw = Vec<u8>;

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(super) enum ValueVerb {
    /// Print the value.
    Get,
    /// V: write the value.
    Set,
    /// FROM TO: write TO if the value is FROM; 75 if it is not.
    Swap,
    /// Delete the value; 75 if there was none.
    Delete,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(super) enum CounterVerb {
    /// Print the number; 0 if the counter does not exist.
    Get,
    /// N: add N, and print the sum. If the answer is lost, the addition is repeated, and counts once.
    Add,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(super) enum MapVerb {
    /// K: print the value of a key.
    Get,
    /// K V: write an entry.
    Put,
    /// K V: write an entry, and print the former value, if there was one.
    Insert,
    /// K V: write an entry if the key has none; 75 if it has one.
    InsertNew,
    /// K: remove an entry; 75 if there was none.
    Remove,
    /// Print the number of entries.
    Len,
    /// Print the entries, in no order.
    List,
}

/// The options of a map whose entries expire.
#[derive(Debug, clap::Args)]
pub(super) struct Timed {
    /// The map is one whose entries expire (Redisson: RMapCache).
    #[arg(long)]
    timed: bool,
    /// With --timed and a verb that writes: the entry expires after this time.
    #[arg(long, value_name = "DUR", value_parser = durations::lease, requires = "timed")]
    ttl: Option<Duration>,
    /// With --timed and a verb that writes: the entry expires when it was not read or written for this time.
    #[arg(long, value_name = "DUR", value_parser = durations::lease, requires = "timed")]
    idle: Option<Duration>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(super) enum SetVerb {
    /// V…: insert members, and print the number of new ones.
    Add,
    /// V…: remove members, and print their number; 75 if there was none.
    Remove,
    /// V…: print those that the set has; 75 unless it has all of them.
    Contains,
    /// Print the members, in no order.
    List,
    /// Print the number of members.
    Len,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(super) enum ListVerb {
    /// V…: add elements at the end, and print the length.
    Push,
    /// I: print the element with this index.
    Get,
    /// I V: replace the element with this index; 75 if there is none.
    Set,
    /// I: remove the element with this index, and print it.
    Remove,
    /// Print the elements.
    List,
    /// Print the number of elements.
    Len,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum TopicVerb {
    /// V: publish a message, and print the number of subscribers that get it.
    Publish,
    /// Print each message that is published from now on.
    Subscribe,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(super) enum JournalVerb {
    /// V…: append entries, and print their ids.
    Append,
    /// Print the entries with their ids, the oldest first.
    List,
    /// Print the number of entries.
    Len,
    /// Print the groups, with the numbers of their entries that can be taken and that are taken.
    Groups,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(super) enum SortedVerb {
    /// SCORE V: insert a member, or change its score; prints 1 if it is new, or else 0.
    Add,
    /// V: remove a member; 75 if there was none.
    Remove,
    /// V: print the score of a member.
    Score,
    /// V: print the position of a member.
    Rank,
    /// N: print the N members with the greatest scores.
    Top,
    /// Print the members, the smallest score first.
    List,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(super) enum MultimapVerb {
    /// K V: add a value to a key; prints 1 if it is new, or else 0.
    Add,
    /// K V: remove a value of a key; 75 if there was none.
    Remove,
    /// K: print the values of a key.
    Get,
    /// Print the keys, in no order.
    Keys,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(super) enum BitsVerb {
    /// I: set the bit with this index to 1, and print the former one.
    Set,
    /// I: set the bit with this index to 0, and print the former one.
    Clear,
    /// I: print 1 if the bit is 1; 75 if it is 0.
    Get,
    /// Print the number of bits that are 1.
    Count,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(super) enum BloomVerb {
    /// N P: create the filter for N items with a share P of false positives, unless it exists with the same sizes.
    Create,
    /// V…: insert items, and print the number of new ones.
    Add,
    /// V…: print those that the filter has; 75 unless it has all of them.
    Contains,
    /// Print an estimate of the number of items.
    Count,
}

pub(super) async fn value(it: &mut Call<'_>, verb: ValueVerb, ttl: Option<Duration>) -> Result {
    let value = it.grid.value::<Raw>(it.name)?.codec(Bytes);
    if ttl.is_some() && !matches!(verb, ValueVerb::Set) {
        return Err(Fault::usage("--ttl belongs to `set`: bandog grid value NAME set V --ttl DUR").into());
    }
    match verb {
        ValueVerb::Get => {
            it.words.none()?;
            it.output.only(value.get().await?)?;
        }
        ValueVerb::Set => {
            let new = it.words.value()?;
            match ttl {
                Some(ttl) => value.set_for(&new, ttl).await?,
                None => value.set(&new).await?,
            }
            it.output.done();
        }
        ValueVerb::Swap => {
            let [from, to] = it.words.two_values()?;
            it.output.done_if(value.swap(Some(&from), Some(&to)).await?);
        }
        ValueVerb::Delete => {
            it.words.none()?;
            it.output.done_if(value.delete().await?);
        }
    }
    Ok(())
}

pub(super) async fn counter(it: &mut Call<'_>, verb: CounterVerb, ttl: Option<Duration>) -> Result {
    let counter = it.grid.counter(it.name)?.exact();
    match verb {
        CounterVerb::Get if ttl.is_some() => {
            return Err(Fault::usage("--ttl belongs to `add`: bandog grid counter NAME add N --ttl DUR").into());
        }
        CounterVerb::Get => {
            it.words.none()?;
            it.output.number("value", counter.get().await?)?;
        }
        CounterVerb::Add => {
            let number = it.words.number("N")?;
            let counter = if let Some(ttl) = ttl { counter.expiring(ttl) } else { counter };
            it.output.number("value", counter.add(number).await?)?;
        }
    }
    Ok(())
}

pub(super) async fn map(it: &mut Call<'_>, verb: MapVerb, timed: &Timed, limit: Limit) -> Result {
    let writes = matches!(verb, MapVerb::Put | MapVerb::Insert | MapVerb::InsertNew);
    let life = Life { ttl: timed.ttl, idle: timed.idle };
    if life != Life::default() && !writes {
        return Err(Fault::usage("--ttl and --idle belong to `put`, `insert` and `insert-new`").into());
    }
    let map = match timed.timed {
        true => it.grid.timed_map::<Raw, Raw>(it.name)?.codec(Bytes).lasting(life)?.deref().clone(),
        false => it.grid.map::<Raw, Raw>(it.name)?.codec(Bytes),
    };
    match verb {
        MapVerb::Get => {
            let value = map.get(&it.words.key()?).await?;
            it.output.only(value)?;
        }
        MapVerb::Put => {
            let (key, value) = it.words.entry()?;
            map.put(&key, &value).await?;
            it.output.done();
        }
        MapVerb::Insert => {
            let (key, value) = it.words.entry()?;
            let former = map.insert(&key, &value).await?;
            it.output.done();
            it.output.only(former)?;
        }
        MapVerb::InsertNew => {
            let (key, value) = it.words.entry()?;
            it.output.done_if(map.insert_new(&key, &value).await?);
        }
        MapVerb::Remove => it.output.done_if(map.remove(&it.words.key()?).await?),
        MapVerb::Len => {
            it.words.none()?;
            it.output.number("count", map.len().await?)?;
        }
        MapVerb::List => {
            it.words.none()?;
            let output = &mut it.output;
            each(map.stream(), limit, |(key, value)| Ok(output.entry(&key, &value)?)).await?;
        }
    }
    Ok(())
}

pub(super) async fn set(it: &mut Call<'_>, verb: SetVerb, limit: Limit) -> Result {
    let set = it.grid.set::<Raw>(it.name)?.codec(Bytes);
    match verb {
        SetVerb::Add => {
            let new = set.insert_all(&it.words.values()?).await?;
            it.output.number("count", new)?;
        }
        SetVerb::Remove => {
            let removed = set.remove_all(&it.words.values()?).await?;
            if removed > 0 {
                it.output.number("count", removed)?;
            }
        }
        SetVerb::Contains => {
            let members = it.words.values()?;
            let found = set.contains_all(&members).await?;
            present(it, &members, &found)?;
        }
        SetVerb::List => {
            it.words.none()?;
            let output = &mut it.output;
            each(set.stream(), limit, |member| Ok(output.element(&member)?)).await?;
        }
        SetVerb::Len => {
            it.words.none()?;
            it.output.number("count", set.len().await?)?;
        }
    }
    Ok(())
}

pub(super) async fn list(it: &mut Call<'_>, verb: ListVerb, limit: Limit) -> Result {
    let list = it.grid.list::<Raw>(it.name)?.codec(Bytes);
    match verb {
        ListVerb::Push => {
            let len = list.push_all(&it.words.values()?).await?;
            it.output.number("count", len)?;
        }
        ListVerb::Get => {
            let element = list.get(it.words.number("I")?).await?;
            it.output.only(element)?;
        }
        ListVerb::Set => {
            let (index, element) = it.words.number_and_value("I")?;
            it.output.done_if(list.set(index, &element).await?.is_some());
        }
        ListVerb::Remove => {
            let element = list.remove(it.words.number("I")?).await?;
            it.output.only(element)?;
        }
        ListVerb::List => {
            it.words.none()?;
            let output = &mut it.output;
            each(list.stream(), limit, |element| Ok(output.element(&element)?)).await?;
        }
        ListVerb::Len => {
            it.words.none()?;
            it.output.number("count", list.len().await?)?;
        }
    }
    Ok(())
}

pub(super) async fn topic(it: &mut Call<'_>, verb: TopicVerb, count: Option<u64>) -> Result {
    let topic = it.grid.topic::<Raw>(it.name)?.codec(Bytes);
    match verb {
        TopicVerb::Publish => {
            let receivers = topic.publish(&it.words.value()?).await?;
            it.output.number("count", receivers)?;
        }
        TopicVerb::Subscribe => {
            it.words.none()?;
            let mut subscriber = topic.subscribe().await?;
            let mut left = count.unwrap_or(u64::MAX);
            while left > 0
                && let Some(event) = subscriber.next().await
            {
                match event {
                    Event::Message(message) => {
                        left -= 1;
                        it.output.element(&message)?;
                        it.output.flush()?;
                    }
                    Event::Gap => report(&format!("{:?}: messages may be missing here", it.name)),
                    Event::Corrupt(error) => report(&error.to_string()),
                }
            }
        }
    }
    Ok(())
}

pub(super) async fn journal(it: &mut Call<'_>, verb: JournalVerb, limit: Limit) -> Result {
    let journal = it.grid.journal::<Raw>(it.name)?.codec(Bytes).exact();
    match verb {
        JournalVerb::Append => {
            for id in journal.append_all(&it.words.values()?).await? {
                it.output.text("id", &id.to_string())?;
            }
        }
        JournalVerb::List => {
            it.words.none()?;
            let output = &mut it.output;
            let print = |entry: Entry<Raw>| Ok(output.labelled(("id", &entry.id.to_string()), &entry.value)?);
            each(journal.stream(EntryId::MIN), limit, print).await?;
        }
        JournalVerb::Len => {
            it.words.none()?;
            it.output.number("count", journal.len().await?)?;
        }
        JournalVerb::Groups => {
            it.words.none()?;
            for GroupRow { name, ready, taken } in journal.groups().await?.into_iter().take(limit.get()) {
                it.output.group(&name, ready, taken)?;
            }
        }
    }
    Ok(())
}

pub(super) async fn sorted(it: &mut Call<'_>, verb: SortedVerb, limit: Limit) -> Result {
    let sorted = it.grid.sorted_set::<Raw>(it.name)?.codec(Bytes);
    match verb {
        SortedVerb::Add => {
            let (score, member) = it.words.number_and_value("SCORE")?;
            let is_new = sorted.insert(score, &member).await?;
            it.output.number("count", u64::from(is_new))?;
        }
        SortedVerb::Remove => it.output.done_if(sorted.remove(&it.words.value()?).await?),
        SortedVerb::Score => {
            if let Some(score) = sorted.score(&it.words.value()?).await? {
                it.output.number("score", score)?;
            }
        }
        SortedVerb::Rank => {
            if let Some(rank) = sorted.rank(&it.words.value()?).await? {
                it.output.number("rank", rank)?;
            }
        }
        SortedVerb::Top => {
            for (member, score) in sorted.top(it.words.number("N")?).await?.into_iter().take(limit.get()) {
                it.output.scored(&member, score)?;
            }
        }
        SortedVerb::List => {
            it.words.none()?;
            let output = &mut it.output;
            each(sorted.stream(), limit, |(member, score)| Ok(output.scored(&member, score)?)).await?;
        }
    }
    Ok(())
}

pub(super) async fn multimap(
    it: &mut Call<'_>,
    multimap: Multimap<Raw, Raw>,
    verb: MultimapVerb,
    limit: Limit,
) -> Result {
    let multimap = multimap.codec(Bytes);
    match verb {
        MultimapVerb::Add => {
            let (key, value) = it.words.entry()?;
            let is_new = multimap.insert(&key, &value).await?;
            it.output.number("count", u64::from(is_new))?;
        }
        MultimapVerb::Remove => {
            let (key, value) = it.words.entry()?;
            it.output.done_if(multimap.remove(&key, &value).await?);
        }
        MultimapVerb::Get => {
            for value in multimap.get(&it.words.key()?).await?.iter().take(limit.get()) {
                it.output.element(value)?;
            }
        }
        MultimapVerb::Keys => {
            it.words.none()?;
            let output = &mut it.output;
            each(multimap.keys(), limit, |key| Ok(output.key(&key)?)).await?;
        }
    }
    Ok(())
}

pub(super) async fn bits(it: &mut Call<'_>, verb: BitsVerb) -> Result {
    let bits = it.grid.bits(it.name)?;
    match verb {
        BitsVerb::Set | BitsVerb::Clear => {
            let index = it.words.number("I")?;
            let former = bits.set(index, matches!(verb, BitsVerb::Set)).await?;
            it.output.number("bit", u8::from(former))?;
        }
        BitsVerb::Get => {
            if bits.get(it.words.number("I")?).await? {
                it.output.number("bit", 1)?;
            }
        }
        BitsVerb::Count => {
            it.words.none()?;
            it.output.number("count", bits.count().await?)?;
        }
    }
    Ok(())
}

pub(super) async fn bloom(it: &mut Call<'_>, verb: BloomVerb) -> Result {
    let unopened = it.grid.bloom::<Raw>(it.name)?.codec(Bytes);
    let open = async || -> Result<Bloom<Raw, Bytes>> {
        let missing = || {
            let message = format!("{:?} does not exist; create it first: bandog grid bloom NAME create N P", it.name);
            Fault::new(ExitCode::Busy, message)
        };
        Ok(unopened.open().await?.ok_or_else(missing)?)
    };
    match verb {
        BloomVerb::Create => {
            let (items, false_positives) = it.words.numbers()?;
            unopened.create_or_open(items, false_positives).await?;
            it.output.done();
        }
        BloomVerb::Add => {
            let items = it.words.values()?;
            let is_new = open().await?.insert_all(&items).await?;
            let new = is_new.into_iter().filter(|is_new| *is_new).count();
            it.output.number("count", new)?;
        }
        BloomVerb::Contains => {
            let items = it.words.values()?;
            let found = open().await?.contains_all(&items).await?;
            present(it, &items, &found)?;
        }
        BloomVerb::Count => {
            it.words.none()?;
            let count = open().await?.count().await?;
            it.output.number("count", count)?;
        }
    }
    Ok(())
}

/// Prints the elements that were found. The exit code says whether all were.
fn present(it: &mut Call<'_>, elements: &[Raw], found: &[bool]) -> Result {
    for (element, is_found) in elements.iter().zip(found) {
        if *is_found {
            it.output.element(element)?;
        }
    }
    if found.contains(&false) {
        it.output.missing();
    }
    Ok(())
}

/// Prints each item of a stream, up to the limit.
pub(super) async fn each<T>(
    stream: impl Stream<Item = Result<T, Error>> + Unpin,
    limit: Limit,
    mut print: impl FnMut(T) -> Result,
) -> Result {
    let mut items = stream.take(limit.get());
    while let Some(item) = items.next().await {
        print(item?)?;
    }
    Ok(())
}
