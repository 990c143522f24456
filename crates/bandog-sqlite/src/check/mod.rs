//! What may endanger the locks of a file: the findings of `doctor`.
//!
//! The subjects are names that scripts may rely on: `filesystem`, `space`, `rights`, `users`, `inotify`, `writer`,
//! `integrity`, `version`, `wal`.

pub(crate) mod database;
mod files;
#[cfg(target_os = "linux")]
mod machine;

use bandog_core::{Clock, Finding};

use crate::{
    disk::{FileSystem, Kind},
    fault::Fault,
    handle::Shared,
    open::{Purpose, Store, not_local},
    patience,
};

/// Looks at everything. What cannot be looked at is a finding as well.
pub(crate) fn all(shared: &Shared) -> Vec<Finding> {
    let options = &shared.options;
    let path = options.path.as_path();
    let until = Clock::system().now() + options.timeout / 2;
    let system = FileSystem::of(path).ok().flatten();
    let mut findings = vec![files::file_system(path, system), files::space(path)];
    findings.extend(files::rights(options));
    #[cfg(target_os = "linux")]
    findings.extend([machine::users(path), machine::inotify()]);
    if system.is_some_and(|system| system.kind == Kind::Network) {
        findings.push(Finding::advice("integrity", "the database was not opened there", "name a file on a local disk"));
        return findings;
    }
    patience::wait_until(until);
    match Store::open(options, Purpose::Look) {
        Ok(mut store) => findings.extend(database::all(&mut store, options, until)),
        Err(fault) => findings.extend([not_opened(fault, shared), database::stopped_writer(path)]),
    }
    findings
}

fn not_opened(fault: Fault, shared: &Shared) -> Finding {
    let path = &shared.options.path;
    if matches!(fault, Fault::NeverUsed) {
        let says = format!("there is no database at {path:?}: no lock was ever taken there");
        return Finding::advice("integrity", says, "nothing, if none should have been; otherwise check the path");
    }
    let error = fault.error(path);
    Finding::danger("integrity", format!("the database cannot be opened: {error}"), "do what it says, and look again")
}
