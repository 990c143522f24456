//! The command that changes a latch.

use bandog_core::{LatchAction, LatchOperation};
use redis::{Pipeline, RedisWrite};

use super::{LATCH, ScriptForm, millis, single};
use crate::names::{LEASES, LatchChannel, OperationsKey, PermitsKey, Satellite};

/// The call of `latch.lua` for this operation.
pub(crate) fn change_latch(operation: &LatchOperation, form: ScriptForm) -> Pipeline {
    let key = operation.key.as_str();
    let (action, number) = match operation.action {
        LatchAction::Set(count) => ("set", count.get()),
        LatchAction::CountDown(number) => ("down", number.get()),
        LatchAction::Delete => ("delete", 0),
    };
    let mut cmd = LATCH.call(form, 2, 9, 5 * key.len() + 200);
    cmd.arg(key);
    cmd.write_arg_fmt(OperationsKey(key));
    cmd.write_arg_fmt(operation.id);
    cmd.arg(action).arg(number).arg(millis(operation.remember));
    cmd.write_arg_fmt(LatchChannel(key));
    cmd.write_arg_fmt(PermitsKey(key));
    cmd.write_arg_fmt(Satellite(LEASES, key));
    single(cmd)
}
