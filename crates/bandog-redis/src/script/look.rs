//! The commands that show and evict the holders of a lock of any kind.

use std::sync::LazyLock;

use bandog_core::Key;
use redis::{Cmd, Pipeline, RedisWrite};

use super::{Script, ScriptForm, single};
use crate::names::{
    Channel, HELD, HoldPrefix, PermitsKey, QUEUE, READ_WRITE_CHANNEL, SEMAPHORE_CHANNEL, STARVING_ORDER, Satellite,
    TokenKey, WAITING, WRITERS,
};

pub(super) static SHOW: LazyLock<Script> = script!("common.lua", "queue.lua", "rw.lua", "look.lua", "show.lua");
pub(super) static EVICT: LazyLock<Script> = script!("common.lua", "queue.lua", "rw.lua", "look.lua", "evict.lua");

/// The scripts of this module.
pub(super) const SCRIPTS: [&LazyLock<Script>; 2] = [&SHOW, &EVICT];

/// Shows the holders of each lock. Each lock has a command of its own, because the server refuses a whole command if the
/// user lacks the right for one key.
pub(crate) fn show<'n>(names: impl Iterator<Item = &'n str>, form: ScriptForm) -> Pipeline {
    let mut pipe = Pipeline::new();
    for name in names {
        let mut cmd = SHOW.call(form, 1, 9, 9 * name.len() + 200);
        lock(&mut cmd, name);
        pipe.add_command(cmd);
    }
    pipe
}

/// Frees a lock, no matter which claim holds it.
pub(crate) fn evict(key: &Key, form: ScriptForm) -> Pipeline {
    let name = key.as_str();
    let mut cmd = EVICT.call(form, 1, 12, 12 * name.len() + 300);
    lock(&mut cmd, name);
    cmd.write_arg_fmt(Channel(name));
    cmd.write_arg_fmt(Satellite(READ_WRITE_CHANNEL, name));
    cmd.write_arg_fmt(Satellite(SEMAPHORE_CHANNEL, name));
    single(cmd)
}

/// Adds the key of a lock, and the arguments of the function `look`.
fn lock(cmd: &mut Cmd, name: &str) {
    cmd.arg(name);
    cmd.write_arg_fmt(HoldPrefix(name));
    cmd.write_arg_fmt(TokenKey(name));
    for prefix in [HELD, WRITERS, QUEUE, WAITING, STARVING_ORDER] {
        cmd.write_arg_fmt(Satellite(prefix, name));
    }
    cmd.write_arg_fmt(PermitsKey(name));
}
