//! The Lua scripts, and the commands that call them.

/// A script whose text consists of these files of the folder `lua`.
macro_rules! script {
    ($($file:literal),+) => {
        std::sync::LazyLock::new(|| {
            bandog_redis_net::Script::new(
                concat!($(include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/src/lua/", $file))),+),
            )
        })
    };
}

mod args;
pub(crate) mod clients;
mod fair;
mod groups;
mod inspect;
mod latches;
mod mutex;
mod plain;
mod read_write;
mod records;
mod semaphore;
mod setnx;

use std::{num::NonZeroU32, time::Duration};

use bandog_core::{Claim, IfUnused, Key, Kind, Step};
use bandog_redis_net::{ScriptForm, Scripts};
use redis::{Cmd, Pipeline};

pub(crate) use self::{
    args::claim_of,
    clients::{FIELDS, enlist, register},
    groups::{Group, groups, renewal_groups},
    latches::change_latch,
    records::{read, swap},
};
use self::{args::single, groups::ScriptsOf};
use crate::options::{Format, Layout, Semaphores};

/// Every script that a client with this format needs.
pub(crate) fn scripts(format: Format) -> Scripts {
    let of_setnx = setnx::SCRIPTS.into_iter().filter(|_| format.layout == Layout::Setnx);
    let of_plain = plain::SCRIPTS.into_iter().filter(|_| format.semaphores == Semaphores::Plain);
    let of_all = mutex::SCRIPTS.into_iter().chain(clients::SCRIPTS).chain(records::SCRIPTS).chain(latches::SCRIPTS);
    let of_kinds = fair::SCRIPTS.into_iter().chain(read_write::SCRIPTS).chain(semaphore::SCRIPTS);
    let all = of_all.chain(of_kinds).chain(inspect::SCRIPTS).chain(of_setnx).chain(of_plain);
    all.map(|script| &**script).collect()
}

/// For each of these keys two commands: one reads the beginning of a string, the other says whether the key is a hash
/// with the field `mode`. A number fits into the beginning.
pub(crate) fn ask_for_type<'a>(keys: impl Iterator<Item = &'a Key>) -> Pipeline {
    let mut pipe = Pipeline::new();
    for key in keys {
        pipe.cmd("GETRANGE").arg(key.as_str()).arg(0).arg(63);
        pipe.cmd("HEXISTS").arg(key.as_str()).arg("mode");
    }
    pipe
}

/// One command for each group of steps.
pub(crate) fn steps(steps: &[Step], groups: &[Group], format: Format, form: ScriptForm) -> Pipeline {
    let java_skew = format.java_skew;
    let mut pipe = Pipeline::with_capacity(groups.len());
    for group in groups {
        let steps: Vec<&Step> = group.iter().map(|position| &steps[*position]).collect();
        let Some(first) = steps.first() else { continue };
        pipe.add_command(match (ScriptsOf::of(first.kind(), format), first) {
            (ScriptsOf::Mutex, Step::Release(_)) => mutex::release(&steps, form),
            (ScriptsOf::Mutex, Step::Claim(_) | Step::Pass { .. }) => mutex::claim(&steps, form),
            (ScriptsOf::Setnx, Step::Release(_)) => setnx::release(&steps, form),
            (ScriptsOf::Setnx, Step::Claim(_) | Step::Pass { .. }) => setnx::claim(&steps, form),
            (ScriptsOf::Fair, Step::Release(released)) => match steps[..] {
                [_, Step::Claim(claimed)] => fair::next(released, claimed, form),
                _ => fair::release(&steps, form),
            },
            (ScriptsOf::Fair, Step::Claim(_) | Step::Pass { .. }) => fair::claim(&steps, form),
            (ScriptsOf::ReadWrite, Step::Release(_)) => read_write::release(&steps, form),
            (ScriptsOf::ReadWrite, Step::Claim(_) | Step::Pass { .. }) => read_write::claim(&steps, form),
            (ScriptsOf::Semaphore, Step::Release(_)) => semaphore::release(&steps, form),
            (ScriptsOf::Semaphore, Step::Claim(_) | Step::Pass { .. }) => semaphore::claim(&steps, java_skew, form),
            (ScriptsOf::Plain, Step::Release(_)) => plain::release(&steps, form),
            (ScriptsOf::Plain, Step::Claim(_) | Step::Pass { .. }) => plain::claim(&steps, form),
        });
    }
    pipe
}

/// One command for each group of renewals.
pub(crate) fn renewals(claims: &[Claim], groups: &[Group], format: Format, form: ScriptForm) -> Pipeline {
    let mut pipe = Pipeline::with_capacity(groups.len());
    for group in groups {
        let claims: Vec<&Claim> = group.iter().map(|position| &claims[*position]).collect();
        let Some(first) = claims.first() else { continue };
        pipe.add_command(renewal(first.kind, &claims, format, form));
    }
    pipe
}

/// The command that renews these claims, which are of this kind or of one that needs the same scripts.
pub(crate) fn renewal(kind: Kind, claims: &[&Claim], format: Format, form: ScriptForm) -> Cmd {
    match ScriptsOf::of(kind, format) {
        ScriptsOf::Mutex => mutex::renew(claims, form),
        ScriptsOf::Setnx => setnx::renew(claims, form),
        ScriptsOf::Fair => fair::renew(claims, form),
        ScriptsOf::ReadWrite => read_write::renew(claims, form),
        ScriptsOf::Semaphore => semaphore::renew(claims, format.java_skew, form),
        ScriptsOf::Plain => plain::renew(claims, form),
    }
}

/// Shows the holders of each lock. Each lock has a command of its own, because the server refuses a whole command if the
/// user lacks the right for one key.
pub(crate) fn show<'n>(names: impl Iterator<Item = &'n str>, format: Format, form: ScriptForm) -> Pipeline {
    let mut pipe = Pipeline::new();
    for name in names {
        pipe.add_command(match (format.layout, format.semaphores) {
            (Layout::Setnx, _) => setnx::show(name, form),
            (Layout::Redisson, Semaphores::Plain) => plain::show(name, form),
            (Layout::Redisson, Semaphores::Leased) => inspect::show(name, form),
        });
    }
    pipe
}

/// Frees a lock, no matter which claim holds it.
pub(crate) fn evict(key: &Key, format: Format, form: ScriptForm) -> Pipeline {
    single(match (format.layout, format.semaphores) {
        (Layout::Setnx, _) => setnx::evict(key, form),
        // For a semaphore, see `evict_plain`.
        (Layout::Redisson, Semaphores::Plain | Semaphores::Leased) => inspect::evict(key, form),
    })
}

/// Deletes all keys of a lock, if it is free. The lock has the layout of Redisson.
pub(crate) fn forget(key: &Key, form: ScriptForm) -> Pipeline {
    single(inspect::forget(key, form))
}

/// Checks which of these names are unused, and deletes their keys if the caller asks for it. Each has a command of its own, as in [`show`].
pub(crate) fn unused(keys: &[Key], unused_for: Duration, then: IfUnused, form: ScriptForm) -> Pipeline {
    let mut pipe = Pipeline::with_capacity(keys.len());
    keys.iter().for_each(|key| _ = pipe.add_command(inspect::unused(key, unused_for, then, form)));
    pipe
}

/// Frees the permits of a plain semaphore. The reply is 0 if the key is another kind of lock, or no lock.
pub(crate) fn evict_plain(key: &Key, form: ScriptForm) -> Pipeline {
    single(plain::evict(key, form))
}

/// Changes the number of permits of a semaphore.
pub(crate) fn set_limit(key: &Key, permits: NonZeroU32, format: Format, form: ScriptForm) -> Pipeline {
    single(match format.semaphores {
        Semaphores::Leased => semaphore::set_limit(key, permits, form),
        Semaphores::Plain => plain::set_limit(key, permits, form),
    })
}

#[cfg(test)]
mod tests;
