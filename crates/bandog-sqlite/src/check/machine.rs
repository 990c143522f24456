//! Checks of other processes that use the database, and of the kernel's limits for this process.

use std::{
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use bandog_core::Finding;
use inotify::{Inotify, WatchMask};

/// Maximum number of processes that a finding names.
const MAX_NAMED: usize = 10;

/// The text of the finding about processes whose log or index was deleted. In the finding, a list of these processes
/// precedes this text.
const DELETED: &str = "have the database open, but its -wal or -shm was deleted while they use it: one of them and a \
    process that opens the database now may hold the same lock";
/// The advice in the finding about processes whose log or index was deleted.
const DELETED_CURE: &str = "start no program that uses the file until one of them has made a request, which saves the \
    log. End the processes that make no requests";

/// Checks which processes have the database open. This opens no file, because closing any descriptor of the database
/// would release all locks that this process has on it.
pub(super) fn users(database: &Path) -> Finding {
    const SUBJECT: &str = "users";
    let file = fs::metadata(database).ok().map(|file| (file.dev(), file.ino()));
    let deleted_database = PathBuf::from(format!("{} (deleted)", database.display()));
    let name = database.file_name().unwrap_or_default().to_string_lossy();
    let deleted_logs = ["-wal", "-shm"].map(|ending| format!("{name}{ending} (deleted)"));
    // `hidden_count` is the number of processes that this process is not allowed to examine.
    let (mut users, mut with_deleted_database, mut with_deleted_log, mut hidden_count) =
        (Vec::new(), Vec::new(), Vec::new(), 0);
    for pid in processes().filter(|pid| *pid != std::process::id()) {
        let Ok(open) = fs::read_dir(format!("/proc/{pid}/fd")) else {
            hidden_count += 1;
            continue;
        };
        let open: Vec<PathBuf> = open.filter_map(|entry| Some(entry.ok()?.path())).collect();
        let is_same = |fd: &PathBuf| fs::metadata(fd).is_ok_and(|found| Some((found.dev(), found.ino())) == file);
        // Only the file names are compared, because a container may see the directory at another path.
        let is_deleted_log = |fd: &PathBuf| {
            let link = fs::read_link(fd).unwrap_or_default();
            link.file_name().is_some_and(|file| deleted_logs.iter().any(|log| file == log.as_str()))
        };
        if file.is_some() && open.iter().any(is_same) {
            if open.iter().any(is_deleted_log) {
                with_deleted_log.push(pid_and_name(pid))
            } else {
                users.push(pid_and_name(pid))
            }
        } else if open.iter().any(|fd| fs::read_link(fd).is_ok_and(|link| link == deleted_database)) {
            with_deleted_database.push(pid_and_name(pid));
        }
    }
    let hidden_text = if hidden_count == 0 {
        String::new()
    } else {
        format!("; {hidden_count} processes of other users could not be examined")
    };
    if !with_deleted_database.is_empty() {
        let says = format!(
            "{} use a file that was deleted or replaced, and see no lock of the new file",
            list(&with_deleted_database)
        );
        return Finding::danger(
            SUBJECT,
            says,
            "each of them detects it at its next request; end the processes that make no requests",
        );
    }
    if !with_deleted_log.is_empty() {
        return Finding::danger(SUBJECT, format!("{} {DELETED}", list(&with_deleted_log)), DELETED_CURE);
    }
    if users.is_empty() {
        return Finding::fine(SUBJECT, format!("no other process has the database open{hidden_text}"));
    }
    Finding::fine(SUBJECT, format!("other processes that have the database open: {}{hidden_text}", list(&users)))
}

/// Checks whether files can be watched: tries inotify, and reports its limits.
pub(super) fn inotify() -> Finding {
    const SUBJECT: &str = "inotify";
    let limit = |name: &str| {
        let text = fs::read_to_string(format!("/proc/sys/fs/inotify/{name}")).ok()?;
        text.trim().parse::<usize>().ok()
    };
    let (instances, watches) = in_use();
    let usage = |name: &str, used: usize| match limit(name) {
        Some(limit) => format!("{used} of {limit} {}", name.trim_start_matches("max_user_")),
        None => format!("{used} {}", name.trim_start_matches("max_user_")),
    };
    let usage_text = format!("{}, {}", usage("max_user_instances", instances), usage("max_user_watches", watches));
    let cure = "sysctl fs.inotify.max_user_instances=1024 fs.inotify.max_user_watches=1048576";
    let tried =
        Inotify::init().and_then(|inotify| inotify.watches().add("/proc/self", WatchMask::DELETE_SELF).map(drop));
    if let Err(error) = tried {
        let says =
            format!("files cannot be watched, so waiters poll, at least once a second: {error}; in use: {usage_text}");
        return Finding::advice(SUBJECT, says, cure);
    }
    let is_near = |name: &str, used: usize| limit(name).is_some_and(|limit| used >= limit / 10 * 9);
    if is_near("max_user_instances", instances) || is_near("max_user_watches", watches) {
        return Finding::advice(
            SUBJECT,
            format!("the limits of inotify are nearly reached, and without it waiters poll: {usage_text}"),
            cure,
        );
    }
    Finding::fine(SUBJECT, format!("notifications work; visible use of inotify by this user: {usage_text}"))
}

/// The pids of all processes.
fn processes() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten();
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
}

fn pid_and_name(pid: u32) -> String {
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    format!("{pid} ({})", name.trim())
}

/// The first of these processes, and the number of the others.
fn list(users: &[String]) -> String {
    let more = users.len().saturating_sub(MAX_NAMED);
    let more = if more == 0 { String::new() } else { format!(" and {more} more") };
    format!("{}{more}", users[..users.len().min(MAX_NAMED)].join(", "))
}

/// The numbers of inotify instances and of inotify watches of the user who runs this process. Processes that cannot be
/// examined are not counted.
fn in_use() -> (usize, usize) {
    let owner = |pid: u32| fs::metadata(format!("/proc/{pid}")).ok().map(|found| found.uid());
    let ours = owner(std::process::id());
    let (mut instances, mut watches) = (0, 0);
    for pid in processes().filter(|pid| owner(*pid) == ours) {
        let Ok(open) = fs::read_dir(format!("/proc/{pid}/fd")) else {
            continue;
        };
        for fd in open.filter_map(Result::ok) {
            if fs::read_link(fd.path()).is_ok_and(|link| link == Path::new("anon_inode:inotify")) {
                instances += 1;
                let number = fd.file_name();
                let info = fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("fdinfo").join(number));
                watches += info.unwrap_or_default().lines().filter(|line| line.starts_with("inotify ")).count();
            }
        }
    }
    (instances, watches)
}
