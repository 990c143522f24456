//! The commands that show and evict the holders of a lock of any kind.

use std::{sync::LazyLock, time::Duration};

use bandog_core::{IfUnused, Key};
use bandog_redis_net::{Script, ScriptForm};
use redis::{Cmd, RedisWrite};

use crate::names::{
    Channel, DEADLINES, FORMER_LIMIT, HELD, HoldPrefix, LEASES, OperationsKey, PLAIN, PermitsKey, QUEUE,
    READ_WRITE_CHANNEL, SEMAPHORE_CHANNEL, STARVING_ORDER, STAYED, Satellite, StarvingKey, TokenKey, WAITING, WRITERS,
};

pub(super) static SHOW: LazyLock<Script> =
    script!("offer.lua", "common.lua", "queue.lua", "rw.lua", "inspect.lua", "show.lua");
pub(super) static EVICT: LazyLock<Script> =
    script!("offer.lua", "common.lua", "queue.lua", "rw.lua", "inspect.lua", "evict.lua");
pub(super) static FORGET: LazyLock<Script> =
    script!("offer.lua", "common.lua", "queue.lua", "rw.lua", "inspect.lua", "forget.lua");
pub(super) static UNUSED: LazyLock<Script> = script!("offer.lua", "common.lua", "inspect.lua", "unused.lua");

/// The scripts of this module.
pub(super) static SCRIPTS: [&LazyLock<Script>; 4] = [&SHOW, &EVICT, &FORGET, &UNUSED];

/// Shows the holders of a lock.
pub(super) fn show(name: &str, form: ScriptForm) -> Cmd {
    let mut cmd = SHOW.call(form, 1, 12, 12 * name.len() + 260);
    lock(&mut cmd, name);
    free_semaphore(&mut cmd, name);
    cmd
}

/// Frees a lock, no matter which claim holds it.
pub(super) fn evict(key: &Key, form: ScriptForm) -> Cmd {
    let name = key.as_str();
    let mut cmd = EVICT.call(form, 1, 12, 12 * name.len() + 300);
    lock(&mut cmd, name);
    cmd.write_arg_fmt(Channel(name));
    cmd.write_arg_fmt(Satellite(READ_WRITE_CHANNEL, name));
    cmd.write_arg_fmt(Satellite(SEMAPHORE_CHANNEL, name));
    cmd
}

/// Deletes all keys of a lock, if it is free.
pub(super) fn forget(key: &Key, form: ScriptForm) -> Cmd {
    let name = key.as_str();
    let mut cmd = FORGET.call(form, 1, 15, 16 * name.len() + 400);
    all_keys(&mut cmd, name);
    cmd
}

/// Checks whether a name is unused, and deletes its keys if the caller asks for it.
pub(super) fn unused(key: &Key, unused_for: Duration, then: IfUnused, form: ScriptForm) -> Cmd {
    let name = key.as_str();
    let mut cmd = UNUSED.call(form, 1, 18, 17 * name.len() + 450);
    all_keys(&mut cmd, name);
    // The names `a` and `{a}` have the same token.
    let inner = name.strip_prefix('{').and_then(|name| name.strip_suffix('}')).filter(|name| !name.contains('{'));
    match inner {
        Some(inner) => cmd.arg(inner),
        None if name.contains('{') => cmd.arg(name),
        None => cmd.arg(format!("{{{name}}}")),
    };
    cmd.arg(u64::try_from(unused_for.as_micros()).unwrap_or(u64::MAX));
    cmd.arg(u8::from(then == IfUnused::Forget));
    cmd
}

/// Adds the key of a lock, and all its other keys.
fn all_keys(cmd: &mut Cmd, name: &str) {
    lock(cmd, name);
    free_semaphore(cmd, name);
    cmd.write_arg_fmt(Satellite(DEADLINES, name));
    cmd.write_arg_fmt(Satellite(STAYED, name));
    cmd.write_arg_fmt(StarvingKey(name));
    cmd.write_arg_fmt(Satellite(LEASES, name));
}

/// Adds the further arguments of the function `free_semaphore`.
pub(super) fn free_semaphore(cmd: &mut Cmd, name: &str) {
    cmd.write_arg_fmt(Satellite(PLAIN, name));
    cmd.write_arg_fmt(OperationsKey(name));
    cmd.write_arg_fmt(Satellite(FORMER_LIMIT, name));
}

/// Adds the key of a lock, and the arguments of the function `inspect`.
pub(super) fn lock(cmd: &mut Cmd, name: &str) {
    cmd.arg(name);
    cmd.write_arg_fmt(HoldPrefix(name));
    cmd.write_arg_fmt(TokenKey(name));
    for prefix in [HELD, WRITERS, QUEUE, WAITING, STARVING_ORDER] {
        cmd.write_arg_fmt(Satellite(prefix, name));
    }
    cmd.write_arg_fmt(PermitsKey(name));
}
