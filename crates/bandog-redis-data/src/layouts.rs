//! The layouts of the elements of queues: see `lua/work/rows.lua`.

use std::{
    collections::HashSet,
    sync::{Mutex, PoisonError},
};

use bandog_core::{
    Key, Result,
    queues::{older_worker, unknown_layout},
};
use bandog_redis_net::refusal;
use redis::Value;

use crate::{command::Command, names, read};

/// Maximum number of names that are remembered.
const MAX_NAMES: usize = 10_000;
/// The codes of the errors of scripts.
const OTHER_LAYOUT: &str = "LAYOUT";
const OLDER_WORKERS: &str = "OLDWORKERS";

/// The queues that had the layout 2 when they were last used. Their scripts get the keys of both layouts, and read which one it is:
/// so what this remembers saves a request, and is never wrong.
#[derive(Debug, Default)]
pub(crate) struct Layouts(Mutex<HashSet<Key>>);

impl Layouts {
    /// The call with the keys that it needs.
    pub(crate) fn fit(&self, queue: &Key, call: Command) -> Command {
        let is_known = self.0.lock().unwrap_or_else(PoisonError::into_inner).contains(queue);
        if is_known && !has_all_keys(&call) { call.with_keys(names::newer_work(queue.as_str())) } else { call }
    }

    /// Whether this is the reply to a call that lacks the keys of the layout of its queue.
    pub(crate) fn is_raised(&self, queue: &Key, reply: &Result<Value>) -> bool {
        let Ok(Value::ServerError(error)) = reply else { return false };
        let is_raised = error.code() == OTHER_LAYOUT && error.details() == Some("2");
        if is_raised {
            let mut names = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            if names.len() >= MAX_NAMES {
                names.clear();
            }
            names.insert(queue.clone());
        }
        is_raised
    }
}

fn has_all_keys(call: &Command) -> bool {
    call.key_count() > names::WORK_KEYS
}

/// The reply, unless it is an error.
///
/// # Errors
/// `Unsupported`: the layout of the queue is newer than this program, or older than what it pushes.
pub(crate) fn checked(reply: Value) -> Result<Value> {
    let Some(error) = refusal::server_error(&reply) else { return read::checked(reply) };
    let details = error.details().unwrap_or_default();
    match error.code() {
        OTHER_LAYOUT => Err(unknown_layout(details)),
        OLDER_WORKERS => Err(older_worker(details)),
        _ => read::checked(reply),
    }
}
