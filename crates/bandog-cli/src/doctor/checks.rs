//! What can be told without asking the store.

use std::fs;

use bandog::Finding;

use crate::store::Store;

/// Everything that bandog looks at by itself.
pub(super) fn all(store: &Store) -> Vec<Finding> {
    let store_finding = Finding::fine("store", format!("{}, {}", store.shown(), store.origin()));
    [Some(store_finding), password(store), Some(processes())].into_iter().flatten().collect()
}

/// A URL of the variable is seen by this user only.
fn password(store: &Store) -> Option<Finding> {
    store.shows_password().then(|| {
        Finding::advice(
            "url-password",
            "everybody on this machine can read the password of --url in the process list, as long as the command runs",
            "put the URL into BANDOG_URL",
        )
    })
}

/// `bandog lock` starts its command by way of `/proc`, and finds there whom it has to end.
fn processes() -> Finding {
    let is_visible = |name: &str| fs::metadata(format!("/proc/{name}")).is_ok();
    if !is_visible("self/exe") {
        let cure = "mount /proc where bandog runs";
        return Finding::danger(
            "proc",
            "/proc is not there, so `bandog lock` can neither start a command nor end it",
            cure,
        );
    }
    if !is_visible("1/stat") {
        return Finding::advice(
            "proc",
            "/proc hides the processes of other users, so what a command starts as another user is not ended with the lock",
            "mount /proc without hidepid, or let commands keep their user",
        );
    }
    Finding::fine("proc", "/proc shows whom `bandog lock` has to end")
}
