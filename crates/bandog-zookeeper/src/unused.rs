//! Names that are not used any more. Fences are numbers of transactions, so the store keeps only an empty folder for such a
//! name. ZooKeeper deletes folders of this crate itself, and those of other programs and versions stay.

use std::time::{Duration, SystemTime};

use bandog_core::{Error, ErrorKind, IfUnused, Key, NamesPage, Pattern, Result, Usage};
use futures_util::future::join_all;
use zookeeper_client::{Error as ZkError, Stat};

use crate::{
    encoding::decode,
    host::Shared,
    inspect::was_a_folder_of_nodes,
    session::{Session, time_of},
};

/// Maximum number of folders that are read at the same time.
const PAGE: usize = 256;

impl Shared {
    /// The names that can have an unused folder. They are one part, because ZooKeeper lists all folders at once.
    pub(crate) async fn folder_names(&self, session: &Session, pattern: &Pattern) -> Result<NamesPage, ZkError> {
        let folders = self.names_in(session, &self.options.chroot).await?;
        let names = folders.iter().filter_map(|folder| decode(folder)).filter(|name| pattern.matches(name));
        let keys = names.filter_map(|name| Key::new(name).ok()).collect();
        Ok(NamesPage { keys, seen: folders.len() as u64, next: None })
    }

    /// Refuses to search at the top of the tree, because other programs have their folders there.
    pub(crate) fn check_has_own_folder(&self) -> Result<()> {
        if !self.options.chroot.is_empty() {
            return Ok(());
        }
        let message = "the URL names no folder, and at the top of ZooKeeper's tree an empty folder of another program looks \
                       like that of an unused name; forget names only with the URL of a folder for locks, such as \
                       zookeeper://HOST/locks";
        Err(Error::new(ErrorKind::Unsupported, message))
    }

    /// Whether the folders of these names are empty and old. Deletes such folders if the caller asks for it.
    pub(crate) async fn usage_of(
        &self,
        session: &Session,
        keys: &[Key],
        unused_for: Duration,
        then: IfUnused,
    ) -> Result<Vec<Usage>, ZkError> {
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        let now = session.prove().await?;
        let mut usages = Vec::with_capacity(keys.len());
        for keys in keys.chunks(PAGE) {
            let each = keys.iter().map(async |key| {
                let folder = self.folder(key);
                let Some(stat) = session.client.check_stat(&folder).await? else { return Ok(Usage::Absent) };
                let usage = usage(&stat, now, unused_for);
                if (usage, then) != (Usage::Unused, IfUnused::Forget) {
                    return Ok(usage);
                }
                // The server refuses this if the folder has got a node meanwhile.
                match session.client.delete(&folder, Some(stat.version)).await {
                    Ok(()) | Err(ZkError::NoNode) => Ok(usage),
                    Err(ZkError::NotEmpty | ZkError::BadVersion | ZkError::NoAuth) => Ok(Usage::Used),
                    Err(error) => Err(error),
                }
            });
            for usage in join_all(each).await {
                usages.push(usage?);
            }
        }
        Ok(usages)
    }
}

/// The usage of the name whose folder has this state at this time of the server.
fn usage(stat: &Stat, now: SystemTime, unused_for: Duration) -> Usage {
    let is_old = now.duration_since(time_of(stat)).is_ok_and(|age| age > unused_for);
    // A folder with data or without former nodes is one of another program.
    if stat.num_children == 0 && was_a_folder_of_nodes(stat) && is_old { Usage::Unused } else { Usage::Used }
}
