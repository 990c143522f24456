//! The commands that show and evict the holders of a lock of any kind.

use std::sync::LazyLock;

use bandog_core::Key;
use redis::{Cmd, RedisWrite};

use super::{Script, ScriptForm};
use crate::names::{
    Channel, DEADLINES, FORMER_LIMIT, HELD, HoldPrefix, LEASES, OperationsKey, PLAIN, PermitsKey, QUEUE,
    READ_WRITE_CHANNEL, SEMAPHORE_CHANNEL, STARVING_ORDER, STAYED, Satellite, StarvingKey, TokenKey, WAITING, WRITERS,
};

pub(super) static SHOW: LazyLock<Script> = script!("common.lua", "queue.lua", "rw.lua", "look.lua", "show.lua");
pub(super) static EVICT: LazyLock<Script> = script!("common.lua", "queue.lua", "rw.lua", "look.lua", "evict.lua");
pub(super) static FORGET: LazyLock<Script> = script!("common.lua", "queue.lua", "rw.lua", "look.lua", "forget.lua");

/// The scripts of this module.
pub(super) const SCRIPTS: [&LazyLock<Script>; 3] = [&SHOW, &EVICT, &FORGET];

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
    lock(&mut cmd, name);
    free_semaphore(&mut cmd, name);
    cmd.write_arg_fmt(Satellite(DEADLINES, name));
    cmd.write_arg_fmt(Satellite(STAYED, name));
    cmd.write_arg_fmt(StarvingKey(name));
    cmd.write_arg_fmt(Satellite(LEASES, name));
    cmd
}

/// Adds the further arguments of the function `free_semaphore`.
pub(super) fn free_semaphore(cmd: &mut Cmd, name: &str) {
    cmd.write_arg_fmt(Satellite(PLAIN, name));
    cmd.write_arg_fmt(OperationsKey(name));
    cmd.write_arg_fmt(Satellite(FORMER_LIMIT, name));
}

/// Adds the key of a lock, and the arguments of the function `look`.
pub(super) fn lock(cmd: &mut Cmd, name: &str) {
    cmd.arg(name);
    cmd.write_arg_fmt(HoldPrefix(name));
    cmd.write_arg_fmt(TokenKey(name));
    for prefix in [HELD, WRITERS, QUEUE, WAITING, STARVING_ORDER] {
        cmd.write_arg_fmt(Satellite(prefix, name));
    }
    cmd.write_arg_fmt(PermitsKey(name));
}
