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
    pub(crate) live: Script,
    pub(crate) map: Script,
    pub(crate) multimap: Script,
    pub(crate) page: Script,
    pub(crate) take: Script,
    pub(crate) timed: Script,
    pub(crate) value: Script,
    pub(crate) whole: Script,
    pub(crate) work_change: Script,
    pub(crate) work_extend: Script,
    pub(crate) work_push: Script,
    pub(crate) work_settle: Script,
    pub(crate) work_show: Script,
    pub(crate) work_take: Script,
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
    journal: script!("group" "pages" "journal"),
    list: script!("list"),
    live: script!("live"),
    map: script!("map"),
    multimap: script!("multimap"),
    page: script!("pages" "page"),
    take: script!("group" "pages" "take"),
    timed: script!("pages" "timed"),
    value: script!("value"),
    whole: script!("whole"),
    work_change: script!("work/rows" "work/rules" "work/change"),
    work_extend: script!("work/rows" "work/extend"),
    work_push: script!("work/rows" "work/rules" "work/push"),
    work_settle: script!("work/rows" "work/rules" "work/settle"),
    work_show: script!("work/rows" "work/show"),
    work_take: script!("work/rows" "work/rules" "work/take"),
});

/// The scripts that a connection for leases loads.
pub(crate) fn of_leases() -> Scripts {
    [&SCRIPTS.work_extend].into_iter().collect()
}

/// The scripts that each other connection loads.
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
        live,
        map,
        multimap,
        page,
        take,
        timed,
        value,
        whole,
        work_change,
        work_extend,
        work_push,
        work_settle,
        work_show,
        work_take,
    } = &*SCRIPTS;
    [
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
        live,
        map,
        multimap,
        page,
        take,
        timed,
        value,
        whole,
        work_change,
        work_extend,
        work_push,
        work_settle,
        work_show,
        work_take,
    ]
    .into_iter()
    .collect()
}
