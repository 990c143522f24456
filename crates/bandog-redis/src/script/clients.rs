//! The commands for the registry of clients.

use std::{
    sync::LazyLock,
    time::{Duration, UNIX_EPOCH},
};

use bandog_core::{ClientId, Key, MAX_WAITS, Member};
use bandog_redis_net::{Script, ScriptForm};
use redis::{Pipeline, RedisWrite};

use super::args::{millis, single};
use crate::names::{CLIENTS, ClientRowKey};

pub(super) static REGISTER: LazyLock<Script> = script!("register.lua");
pub(super) static ENLIST: LazyLock<Script> = script!("enlist.lua");

/// The scripts of this module.
pub(super) static SCRIPTS: [&LazyLock<Script>; 2] = [&REGISTER, &ENLIST];

/// Maximum number of expired clients that one registration removes from the index.
const MAX_CLEARED_CLIENTS: usize = 16;

/// The fields of a row, in the order of `register.lua`.
pub(crate) const FIELDS: [&str; 7] = ["host", "pid", "program", "since", "prefix", "waits", "blocked"];

/// The values of a client's row. In the value of `waits`, line breaks separate the names of the locks, because no name
/// contains a control character. Earlier versions do not have the field `blocked`.
pub(crate) fn fields(member: &Member) -> [String; FIELDS.len()] {
    let since = member.since.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
    let waits: Vec<&str> = member.waits.iter().take(MAX_WAITS).map(Key::as_str).collect();
    let Member { host, pid, program, prefix, .. } = member;
    let (waits, blocked) = (waits.join("\n"), member.blocked.to_text());
    [host.clone(), pid.to_string(), program.clone(), since.to_string(), prefix.clone(), waits, blocked]
}

/// Writes a client's row in the registry.
pub(crate) fn register(member: &Member, ttl: Duration, form: ScriptForm) -> Pipeline {
    let fields = fields(member);
    let size = fields.iter().map(String::len).sum::<usize>() + 128;
    let mut cmd = REGISTER.call(form, 1, 1 + fields.len(), size);
    cmd.write_arg_fmt(ClientRowKey(member.id));
    cmd.arg(millis(ttl)).arg(&fields[..]);
    single(cmd)
}

/// Adds a client to the index of clients.
pub(crate) fn enlist(client: ClientId, ttl: Duration, form: ScriptForm) -> Pipeline {
    let mut cmd = ENLIST.call(form, 1, 4, CLIENTS.len() + 64);
    cmd.arg(CLIENTS);
    cmd.write_arg_fmt(client);
    cmd.arg(millis(ttl)).arg(MAX_CLEARED_CLIENTS);
    single(cmd)
}
