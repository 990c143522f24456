//! The findings of the command `bandog doctor`: conditions that might endanger the locks of a file.
//!
//! Scripts rely on the subjects of the findings: `filesystem`, `space`, `rights`, `users`, `inotify`, `writer`,
//! `integrity`, `version`, `wal`.

pub(crate) mod database;
mod files;
#[cfg(target_os = "linux")]
mod machine;

use bandog_core::{Clock, Finding};

use crate::{
    busy_wait,
    context::HandleContext,
    disk::{FileSystem, FileSystemKind},
    fault::Fault,
    open::{Purpose, Store, not_local},
};

/// Does all checks. If a check is not possible, a finding reports this.
pub(crate) fn all(context: &HandleContext) -> Vec<Finding> {
    let options = &context.options;
    let path = options.path.as_path();
    // The deadline of the integrity check, and of waits for other processes.
    let until = Clock::system().now() + options.timeout / 2;
    let system = FileSystem::of(path).ok().flatten();
    let mut findings = vec![files::file_system(path, system), files::space(path)];
    findings.extend(files::rights(options));
    #[cfg(target_os = "linux")]
    findings.extend([machine::users(path), machine::inotify()]);
    if system.is_some_and(|system| system.kind == FileSystemKind::Network) {
        findings.push(Finding::advice(
            "integrity",
            "the database was not opened on this file system",
            "name a file on a local disk",
        ));
        return findings;
    }
    busy_wait::set_deadline(until);
    match Store::open(options, Purpose::Inspect) {
        Ok(mut store) => findings.extend(database::all(&mut store, options, until)),
        Err(fault) => findings.extend([not_opened(fault, context), database::stopped_writer(path)]),
    }
    findings
}

/// The finding if the database cannot be opened.
fn not_opened(fault: Fault, context: &HandleContext) -> Finding {
    let path = &context.options.path;
    if matches!(fault, Fault::NoDatabase) {
        let says = format!("there is no database at {path:?}: no lock was ever taken there");
        return Finding::advice(
            "integrity",
            says,
            "if no database is expected there, do nothing; otherwise check the path",
        );
    }
    let error = fault.error(path);
    Finding::danger(
        "integrity",
        format!("the database cannot be opened: {error}"),
        "follow the advice in the error, and check again",
    )
}
