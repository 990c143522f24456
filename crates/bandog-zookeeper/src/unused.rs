//! Names that are not used any more. Fences are numbers of transactions, so the store keeps only an empty folder for such a
//! name. ZooKeeper deletes folders of this crate itself, and those of other programs and versions stay.

use std::time::{Duration, SystemTime};

use bandog_core::{IfUnused, Key, NamesPage, Pattern, Usage};
use futures_util::future::join_all;
use zookeeper_client::{Error as ZkError, Stat};

use crate::{
    encoding::decode,
    host::Shared,
    inspect::was_a_folder_of_nodes,
    session::{Session, time_of},
};

/// Maximum number of folders in a part of all names. They are read at the same time.
const PAGE: usize = 256;

impl Shared {
    /// A part of the names whose folders are empty. `after`: the last name of the part before.
    pub(crate) async fn empty_folders(
        &self,
        session: &Session,
        pattern: &Pattern,
        unused_for: Duration,
        after: Option<&str>,
    ) -> Result<NamesPage, ZkError> {
        let root = if self.options.chroot.is_empty() { "/" } else { &self.options.chroot };
        let mut names: Vec<_> =
            self.names_in(session, root).await?.iter().filter_map(|folder| decode(folder)).collect();
        names.sort_unstable();
        let names = names.into_iter().filter(|name| after.is_none_or(|after| name.as_str() > after));
        let part: Vec<_> = names.take(PAGE).collect();
        let next = part.get(PAGE - 1).cloned();
        let seen = part.len() as u64;
        let keys: Vec<_> =
            part.into_iter().filter(|name| pattern.matches(name)).filter_map(|name| Key::new(name).ok()).collect();
        let usages = self.usage_of(session, &keys, unused_for, IfUnused::Keep).await?;
        let unused = keys.into_iter().zip(usages).filter(|(_, usage)| *usage == Usage::Unused);
        Ok(NamesPage { keys: unused.map(|(key, _)| key).collect(), seen, next })
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
