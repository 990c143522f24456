//! The names of the keys of an object, as Redisson makes them.

use bandog_core::structures::{EntryKey, Structure, Values};

/// A key of bandog's own. Names with and without a brace have different keys, and both are in the slot of the name.
fn own(prefix: &str, name: &str) -> String {
    if name.contains('{') { format!("{prefix}::{name}") } else { format!("{prefix}:{{{name}}}") }
}

/// The key `{name}:suffix`. If the name contains a brace, it is taken as it is.
pub(crate) fn suffixed(name: &str, suffix: &str) -> String {
    format!("{}:{suffix}", tag(name))
}

/// The name in the keys that have a suffix: another name that has the same keys, if it is not this one.
pub(crate) fn tag(name: &str) -> String {
    if name.contains('{') { name.to_owned() } else { format!("{{{name}}}") }
}

/// The key `prefix:{name}`. If the name contains a brace, it is taken as it is.
fn prefixed(prefix: &str, name: &str) -> String {
    format!("{prefix}:{}", tag(name))
}

/// The keys of a timed map, in the order of the script `timed`.
pub(crate) fn timed(name: &str) -> [String; 5] {
    [
        name.to_owned(),
        prefixed("redisson__timeout__set", name),
        prefixed("redisson__idle__set", name),
        prefixed("redisson__map_cache__last_access__set", name),
        suffixed(name, "redisson_options"),
    ]
}

/// The channel for the programs that have copies of a map.
pub(crate) fn copies(name: &str) -> String {
    suffixed(name, "topic")
}

/// The semaphore and its channel with which a program of Java counts those that have dropped their copies.
pub(crate) fn clear_semaphore(name: &str, request: &[u8; 16]) -> [String; 2] {
    let semaphore = request.iter().fold(format!("{name}:clear:"), |hex, byte| format!("{hex}{byte:02x}"));
    let channel = prefixed("redisson_sc", &semaphore);
    [semaphore, channel]
}

/// The channels with the events of a timed map, in the order created, updated, removed, expired.
pub(crate) fn timed_events(name: &str) -> [String; 4] {
    ["created", "updated", "removed", "expired"].map(|event| prefixed(&format!("redisson_map_cache_{event}"), name))
}

/// The key with the sizes of a Bloom filter.
pub(crate) fn bloom_config(name: &str) -> String {
    suffixed(name, "config")
}

/// The key with the size of a block of ids.
pub(crate) fn allocation(name: &str) -> String {
    suffixed(name, "allocation")
}

/// The key with the times at which keys of a multimap expire.
pub(crate) fn multimap_ttls(name: &str, values: Values) -> String {
    suffixed(
        name,
        match values {
            Values::Set => "redisson_set_multimap_ttl",
            Values::List => "redisson_list_multimap_ttl",
        },
    )
}

/// The answers of operations with an id that are remembered.
pub(crate) fn answers(name: &str) -> String {
    own("bandog:ops", name)
}

/// The operations on a latch with this name.
pub(crate) fn latch_operations(name: &str) -> String {
    if name.contains('{') { format!("bandog:ops:{name}") } else { answers(name) }
}

/// Elements of a list or a journal that were delivered before and can be taken again.
pub(crate) fn again(name: &str) -> String {
    own("bandog:again", name)
}

/// The keys of an object with taken elements, in the order of the script `take`.
pub(crate) fn take(name: &str) -> [String; 6] {
    [
        name.to_owned(),
        own("bandog:taken", name),
        own("bandog:leases", name),
        again(name),
        own("bandog:fence", name),
        answers(name),
    ]
}

/// The keys of an entry of a cache, in the order of the script `cache`: the generation of its part, the entry, the mark that
/// it is fresh, and its fill. All of them are in the slot of the part. A key of the caller that is no text is in
/// hexadecimal digits.
pub(crate) fn cache(name: &str, EntryKey { part, key }: &EntryKey) -> [String; 4] {
    let entry = match std::str::from_utf8(key) {
        Ok(text) => format!(":{text}"),
        Err(_) => key.iter().fold(String::from("!"), |hex, byte| format!("{hex}{byte:02x}")),
    };
    let of_entry = |kind: &str| format!("bandog:{kind}:{name}:{{{part}}}{entry}");
    [cache_generation(name, *part), of_entry("cache"), of_entry("cache-fresh"), of_entry("cache-fill")]
}

/// The beginning of the keys with the entries of a cache, and of its generations.
pub(crate) fn cache_prefix(name: &str) -> String {
    format!("bandog:cache:{name}:{{")
}

/// The entry whose key has this after [`cache_prefix`], or the inner None for a generation. None if the cache has no such
/// key.
pub(crate) fn cache_entry(rest: &[u8]) -> Option<Option<EntryKey>> {
    let (part, rest) = std::str::from_utf8(rest).ok()?.split_once('}')?;
    let part = part.parse().ok()?;
    let digits = |hex: &str| -> Option<Vec<u8>> {
        let byte = |at: usize| hex.get(at..at + 2).and_then(|digits| u8::from_str_radix(digits, 16).ok());
        (0..hex.len()).step_by(2).map(byte).collect()
    };
    match rest.split_at_checked(1) {
        None => Some(None),
        Some((":", key)) => Some(Some(EntryKey { part, key: key.into() })),
        Some(("!", hex)) => Some(Some(EntryKey { part, key: digits(hex)? })),
        Some(_) => None,
    }
}

/// The name of the cache whose entry has this key. Of a name that itself has a part in braces behind a colon, only what is
/// before it.
pub(crate) fn cache_of_entry(key: &str) -> Option<&str> {
    let rest = key.strip_prefix("bandog:cache:")?;
    let is_entry = |at: &usize| matches!(cache_entry(&rest.as_bytes()[at + 2..]), Some(Some(_)));
    rest.match_indices(":{").map(|(at, _)| at).find(is_entry).map(|at| &rest[..at])
}

/// The generation of a part of a cache.
pub(crate) fn cache_generation(name: &str, part: u8) -> String {
    format!("bandog:cache:{name}:{{{part}}}")
}

/// The keys of a work queue of the layout 1, in the order of its scripts. The last one is the mark of the layout.
pub(crate) fn work(name: &str) -> [String; 15] {
    let prefix = own("bandog:work", name);
    WORK.map(|part| format!("{prefix}:{part}"))
}

/// The further keys of a work queue of the layout 2.
pub(crate) fn newer_work(name: &str) -> [String; 3] {
    let prefix = own("bandog:work", name);
    ["taken2", "expiry2", "idle2"].map(|part| format!("{prefix}:{part}"))
}

/// The number of keys of a work queue of the layout 1.
pub(crate) const WORK_KEYS: usize = WORK.len();

const WORK: [&str; 15] = [
    "elements", "bodies", "ready", "delayed", "taken", "dead", "blocked", "order", "kept", "expiry", "settings",
    "fence", "idle", "workers", "layout",
];

/// The channel of a taker of a work queue.
pub(crate) fn work_taker(name: &str, taker: u64) -> String {
    format!("{}:taker:{taker:016x}", own("bandog:work", name))
}

/// The channel of the client that has pushed elements with results to a work queue.
pub(crate) fn work_results(name: &str, client: u64) -> String {
    format!("{}:results:{client:016x}", own("bandog:work", name))
}

/// The work queue that has this key, and which of its keys it is.
pub(crate) fn work_of(key: &str) -> Option<(&str, &str)> {
    let (rest, part) = key.strip_prefix("bandog:work:")?.rsplit_once(':')?;
    let name = rest.strip_prefix(':').or_else(|| rest.strip_prefix('{')?.strip_suffix('}'))?;
    Some((name, part))
}

/// The keys of an object.
pub(crate) struct Whole {
    /// First the keys that show that the object exists, then the others that have its ttl, then those that have a ttl of
    /// their own.
    pub(crate) keys: Vec<String>,
    /// The number of keys that show that the object exists.
    pub(crate) showing: usize,
    /// The number of keys that have the ttl of the object.
    pub(crate) sharing: usize,
}

/// The keys of an object.
pub(crate) fn whole(name: &str, structure: Structure) -> Whole {
    let own = name.to_owned();
    let (keys, showing, sharing) = match structure {
        Structure::Value => (vec![own, answers(name)], 1, 1),
        Structure::Ids => (vec![own, allocation(name)], 1, 2),
        Structure::Map | Structure::Bits => (vec![own], 1, 1),
        Structure::TimedMap => (timed(name).to_vec(), 1, 5),
        Structure::Set | Structure::List | Structure::Sorted | Structure::Journal => {
            let [own, taken, leases, again, fence, answers] = take(name);
            (vec![own, taken, again, leases, fence, answers], 3, 4)
        }
        Structure::Multimap(values) => (vec![own, multimap_ttls(name, values)], 1, 2),
        Structure::Bloom => (vec![bloom_config(name), own], 1, 2),
        // Its parts may be on several servers, so there are no operations on all of it.
        Structure::Cache => (vec![cache_generation(name, 0)], 1, 1),
    };
    Whole { keys, showing, sharing }
}

/// The object that has this helper key, or the name itself.
pub(crate) fn object_of(key: &str) -> &str {
    let helpers = ["taken", "leases", "again", "fence", "ops"];
    let rest = key.strip_prefix("bandog:").and_then(|rest| rest.split_once(':'));
    if let Some((_, rest)) = rest.filter(|(helper, _)| helpers.contains(helper)) {
        return rest.strip_prefix(':').unwrap_or_else(|| inside(rest));
    }
    let Some((name, suffix)) = key.rsplit_once(':') else { return key };
    let is_helper = matches!(
        suffix,
        "config" | "allocation" | "redisson_set_multimap_ttl" | "redisson_list_multimap_ttl" | "redisson_options"
    ) || suffix.len() == 22
        && suffix.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+/".contains(&byte));
    if is_helper && name.contains('{') { inside(name) } else { key }
}

/// A key that shows an object whose own key does not exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Helper {
    /// The sizes of a Bloom filter without items.
    Sizes,
    /// The elements that are taken.
    Taken,
    /// The elements that were delivered before.
    Again,
}

/// The kind of such a key. None for another key.
pub(crate) fn helper(key: &str) -> Option<Helper> {
    match key.strip_prefix("bandog:").and_then(|rest| rest.split_once(':')) {
        Some(("taken", _)) => Some(Helper::Taken),
        Some(("again", _)) => Some(Helper::Again),
        Some(_) => None,
        None => (key.ends_with(":config") && object_of(key) != key).then_some(Helper::Sizes),
    }
}

/// The keys of an object that show it although its own key does not exist, in the order of the script `hidden`.
pub(crate) fn hidden(name: &str) -> [String; 5] {
    let [own, taken, leases, again, ..] = take(name);
    [own, bloom_config(name), taken, again, leases]
}

/// Whether this can be the name of an object: not that of a helper key of objects, locks or schedules.
pub(crate) fn is_object(key: &str) -> bool {
    let is_of_locks = ["bandog:", "redisson_"].iter().any(|prefix| key.starts_with(prefix))
        || key.contains("}:redisson_")
        || key.contains(":rwlock_timeout:");
    !is_of_locks && object_of(key) == key
}

/// The text inside of braces.
fn inside(name: &str) -> &str {
    name.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')).unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_that_show_an_object_lead_to_its_name() {
        for name in ["q", "a b", "a{b}", "{b}c", "a:b"] {
            let [_, config, taken, again, leases] = hidden(name);
            for (key, kind) in [(config, Helper::Sizes), (taken, Helper::Taken), (again, Helper::Again)] {
                assert_eq!((helper(&key), object_of(&key)), (Some(kind), name), "{key}");
            }
            assert_eq!(helper(&leases), None);
        }
        for key in ["config", "a:config", "bandog:client:x", "{x}:zGp2RnUc2cZchMHly8iqUA", "q"] {
            assert_eq!(helper(key), None, "{key}");
        }
    }

    #[test]
    fn the_keys_of_a_cache_lead_to_its_entries() {
        for name in ["c", "a{b}", "a b"] {
            for key in [&b"k"[..], b"", b"\xff\0", b"}:x", b"!00"] {
                let at = EntryKey { part: 63, key: key.to_vec() };
                let [generation, entry, ..] = cache(name, &at);
                let rest = |key: &str| cache_entry(key.strip_prefix(&cache_prefix(name)).unwrap().as_bytes());
                assert_eq!((rest(&entry), rest(&generation)), (Some(Some(at)), Some(None)));
                assert_eq!((cache_of_entry(&entry), cache_of_entry(&generation)), (Some(name), None));
            }
        }
        assert_eq!([cache_entry(b"63}x"), cache_entry(b"x}:k"), cache_entry(b"63")], [None, None, None]);
    }

    #[test]
    fn the_keys_of_a_work_queue_lead_to_it() {
        for name in ["q", "a b", "a{b}", "{b}c", "a:b", "a}b", ":"] {
            for (key, part) in work(name).iter().zip(WORK) {
                assert_eq!((work_of(key), is_object(key)), (Some((name, part)), false), "{key}");
            }
        }
        assert_eq!([work_of("bandog:work:x"), work_of("bandog:taken:{q}:ready")], [None, None]);
    }

    #[test]
    fn helper_keys_are_no_objects() {
        let helpers = [
            "bandog:taken:{q}",
            "bandog:record:{job/x}",
            "bandog:clients",
            "redisson_lock_token:{x}",
            "redisson_lock_queue:{x}",
            "{x}:redisson_set_multimap_ttl",
            "{x}:zGp2RnUc2cZchMHly8iqUA",
            "{x}:0c1d2e3f-0000-4000-8000-000000000001:57:rwlock_timeout:1",
            "{x}:config",
            "redisson__timeout__set:{x}",
            "{x}y:redisson_options",
        ];
        for key in helpers {
            assert!(!is_object(key), "{key}");
        }
        for key in ["x", "config", "shop:redisson", "a:b", "{x}", "my-bandog:x"] {
            assert!(is_object(key), "{key}");
        }
    }
}
