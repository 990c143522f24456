//! Other processes, and what the kernel allows this one.

use std::{
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use bandog_core::Finding;
use inotify::{Inotify, WatchMask};

/// How many processes are named.
const NAMED: usize = 10;

/// What is said of processes whose log or index was deleted.
const DELETED: &str = "have the database open, but its -wal or -shm was deleted under them: they and processes that open \
    the database now may hold one lock twice";
const SAVE: &str = "start nothing that uses the file until they have asked for something: the first of them that does saves \
    the log. End those that never ask";

/// Who has the database open. Files are only looked at, never opened: closing any descriptor of the database would give
/// up all of this process's locks of it.
pub(super) fn users(database: &Path) -> Finding {
    const SUBJECT: &str = "users";
    let file = fs::metadata(database).ok().map(|file| (file.dev(), file.ino()));
    let gone = PathBuf::from(format!("{} (deleted)", database.display()));
    let name = database.file_name().unwrap_or_default().to_string_lossy();
    let lost = ["-wal", "-shm"].map(|ending| format!("{name}{ending} (deleted)"));
    let (mut users, mut strays, mut apart, mut hidden) = (Vec::new(), Vec::new(), Vec::new(), 0);
    for pid in processes().filter(|pid| *pid != std::process::id()) {
        let Ok(open) = fs::read_dir(format!("/proc/{pid}/fd")) else {
            hidden += 1;
            continue;
        };
        let open: Vec<PathBuf> = open.filter_map(|entry| Some(entry.ok()?.path())).collect();
        let is_same = |fd: &PathBuf| fs::metadata(fd).is_ok_and(|found| Some((found.dev(), found.ino())) == file);
        // By its last part, since a container may see the directory under another name.
        let is_lost = |fd: &PathBuf| {
            let link = fs::read_link(fd).unwrap_or_default();
            link.file_name().is_some_and(|file| lost.iter().any(|lost| file == lost.as_str()))
        };
        if file.is_some() && open.iter().any(is_same) {
            if open.iter().any(is_lost) { apart.push(called(pid)) } else { users.push(called(pid)) }
        } else if open.iter().any(|fd| fs::read_link(fd).is_ok_and(|link| link == gone)) {
            strays.push(called(pid));
        }
    }
    let unseen =
        if hidden == 0 { String::new() } else { format!("; {hidden} processes of others could not be looked at") };
    if !strays.is_empty() {
        let says = format!("{} use a file that was deleted or replaced, and see no lock of the new one", list(&strays));
        return Finding::danger(
            SUBJECT,
            says,
            "they notice it when they next ask for something; end those that never do",
        );
    }
    if !apart.is_empty() {
        return Finding::danger(SUBJECT, format!("{} {DELETED}", list(&apart)), SAVE);
    }
    if users.is_empty() {
        return Finding::fine(SUBJECT, format!("no other process has the database open{unseen}"));
    }
    Finding::fine(SUBJECT, format!("other processes that have the database open: {}{unseen}", list(&users)))
}

/// Whether a bell can be heard: inotify is asked for, and its limits are told.
pub(super) fn inotify() -> Finding {
    const SUBJECT: &str = "inotify";
    let limit = |name: &str| {
        let text = fs::read_to_string(format!("/proc/sys/fs/inotify/{name}")).ok()?;
        text.trim().parse::<usize>().ok()
    };
    let (instances, watches) = in_use();
    let told = |name: &str, used: usize| match limit(name) {
        Some(limit) => format!("{used} of {limit} {}", name.trim_start_matches("max_user_")),
        None => format!("{used} {}", name.trim_start_matches("max_user_")),
    };
    let use_of = format!("{}, {}", told("max_user_instances", instances), told("max_user_watches", watches));
    let cure = "sysctl fs.inotify.max_user_instances=1024 fs.inotify.max_user_watches=1048576";
    let tried =
        Inotify::init().and_then(|inotify| inotify.watches().add("/proc/self", WatchMask::DELETE_SELF).map(drop));
    if let Err(error) = tried {
        let says = format!("the bell cannot be heard, so waiters ask within a second: {error}; in use: {use_of}");
        return Finding::advice(SUBJECT, says, cure);
    }
    let is_near = |name: &str, used: usize| limit(name).is_some_and(|limit| used >= limit / 10 * 9);
    if is_near("max_user_instances", instances) || is_near("max_user_watches", watches) {
        return Finding::advice(
            SUBJECT,
            format!("inotify is nearly used up, and without it waiters poll: {use_of}"),
            cure,
        );
    }
    Finding::fine(SUBJECT, format!("the bell can be heard; this user's inotify, as far as it can be seen: {use_of}"))
}

fn processes() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten();
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
}

fn called(pid: u32) -> String {
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    format!("{pid} ({})", name.trim())
}

fn list(users: &[String]) -> String {
    let more = users.len().saturating_sub(NAMED);
    let more = if more == 0 { String::new() } else { format!(" and {more} more") };
    format!("{}{more}", users[..users.len().min(NAMED)].join(", "))
}

/// The instances and watches of this process's user, in processes that we may look into.
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
