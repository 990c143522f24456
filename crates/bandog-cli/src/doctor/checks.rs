//! The checks that need no store.

use std::fs;

use bandog::admin::Finding;

use crate::store::Store;

/// The findings of all checks that need no store.
pub(super) fn all(store: &Store) -> Vec<Finding> {
    let store_finding = Finding::fine("store", format!("{}, {}", store.redacted(), store.origin()));
    [Some(store_finding), password(store), Some(processes())].into_iter().flatten().collect()
}

/// A finding if the command line contains a password. A password in the variable BANDOG_URL is no problem, because only
/// this user can read the variable.
fn password(store: &Store) -> Option<Finding> {
    store.shows_password().then(|| {
        Finding::advice(
            "url-password",
            "each user of this machine can read the password of --url in the process list while the command runs",
            "set BANDOG_URL instead",
        )
    })
}

/// A finding about `/proc`. `bandog lock` needs `/proc` for two purposes: to start its command through
/// `/proc/self/exe`, and to find the processes that it must terminate.
fn processes() -> Finding {
    let is_visible = |name: &str| fs::metadata(format!("/proc/{name}")).is_ok();
    if !is_visible("self/exe") {
        let cure = "mount /proc where bandog runs";
        return Finding::danger(
            "proc",
            "/proc does not exist, so `bandog lock` can neither start nor terminate a command",
            cure,
        );
    }
    if !is_visible("1/stat") {
        return Finding::advice(
            "proc",
            "/proc hides the processes of other users, so processes that a command starts as another user are not terminated with the lock",
            "mount /proc without hidepid, or run commands as the same user",
        );
    }
    Finding::fine("proc", "/proc shows the processes that `bandog lock` has to terminate")
}
