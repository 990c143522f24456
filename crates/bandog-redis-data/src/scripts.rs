//! The scripts of this crate.

use std::sync::LazyLock;

use bandog_redis_net::{Script, Scripts};

/// The scripts, each with the functions that all share.
pub(crate) struct All {
    pub(crate) answer: Script,
    pub(crate) bits: Script,
    pub(crate) bloom: Script,
    pub(crate) cache: Script,
    pub(crate) describe: Script,
    pub(crate) field_ttl: Script,
    pub(crate) hidden: Script,
    pub(crate) ids: Script,
    pub(crate) journal: Script,
    pub(crate) list: Script,
    pub(crate) map: Script,
    pub(crate) multimap: Script,
    pub(crate) take: Script,
    pub(crate) timed: Script,
    pub(crate) value: Script,
    pub(crate) whole: Script,
}

/// A script with the shared functions before it.
macro_rules! script {
    ($($name:literal)+) => {
        Script::new(concat!(include_str!("lua/common.lua"), $(include_str!(concat!("lua/", $name, ".lua"))),+))
    };
}

pub(crate) static SCRIPTS: LazyLock<All> = LazyLock::new(|| All {
    answer: script!("answer"),
    bits: script!("bits"),
    bloom: script!("bloom"),
    cache: script!("cache"),
    describe: script!("describe"),
    field_ttl: script!("field_ttl"),
    hidden: script!("hidden"),
    ids: script!("ids"),
    journal: script!("group" "journal"),
    list: script!("list"),
    map: script!("map"),
    multimap: script!("multimap"),
    take: script!("group" "take"),
    timed: script!("timed"),
    value: script!("value"),
    whole: script!("whole"),
});

/// The scripts that each connection loads.
pub(crate) fn all() -> Scripts {
    let All {
        answer,
        bits,
        bloom,
        cache,
        describe,
        field_ttl,
        hidden,
        ids,
        journal,
        list,
        map,
        multimap,
        take,
        timed,
        value,
        whole,
    } = &*SCRIPTS;
    [
        answer, bits, bloom, cache, describe, field_ttl, hidden, ids, journal, list, map, multimap, take, timed, value,
        whole,
    ]
    .into_iter()
    .collect()
}
