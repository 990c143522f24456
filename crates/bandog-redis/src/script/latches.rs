//! The command that changes a latch.

use std::sync::LazyLock;

use bandog_core::{LatchAction, LatchOperation};
use bandog_redis_net::{Script, ScriptForm};
use redis::{Pipeline, RedisWrite};

use super::args::{millis, single};
use crate::{
    names::{FORMER_LIMIT, LEASES, LatchChannel, OperationsKey, PLAIN, PermitsKey, Satellite, TokenKey},
    options::Format,
};

pub(super) static LATCH: LazyLock<Script> = script!("latch.lua");

/// The scripts of this module.
pub(super) static SCRIPTS: [&LazyLock<Script>; 1] = [&LATCH];

/// The call of `latch.lua` for this operation.
pub(crate) fn change_latch(operation: &LatchOperation, format: Format, form: ScriptForm) -> Pipeline {
    let key = operation.key.as_str();
    let (action, number) = match operation.action {
        LatchAction::Set(count) => ("set", count.get()),
        LatchAction::CountDown(number) => ("down", number.get()),
        LatchAction::Delete => ("delete", 0),
    };
    let mut cmd = LATCH.call(form, 2, 10, 8 * key.len() + 300);
    cmd.arg(key);
    cmd.write_arg_fmt(OperationsKey(key));
    cmd.write_arg_fmt(operation.id);
    cmd.arg(action).arg(number).arg(millis(operation.remember));
    cmd.write_arg_fmt(LatchChannel(key, format));
    cmd.write_arg_fmt(PermitsKey(key));
    cmd.write_arg_fmt(Satellite(LEASES, key));
    cmd.write_arg_fmt(TokenKey(key));
    cmd.write_arg_fmt(Satellite(PLAIN, key));
    cmd.write_arg_fmt(Satellite(FORMER_LIMIT, key));
    single(cmd)
}
