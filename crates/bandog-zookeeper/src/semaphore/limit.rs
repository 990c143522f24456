//! The limit of a semaphore: the number of its permits. Curator stores it nowhere, or in a `SharedCount`. We store it as
//! Curator's `SharedCount` does: a persistent node whose data are a number of four bytes. So a Java service can follow
//! the limit.

use bandog_core::{Claim, Error, ErrorKind, Family, Key, Result};
use zookeeper_client::{CreateMode, Error as ZkError, MultiWriteError, Stat};

use crate::{encoding::encode, fault::in_use, host::Shared, session::Session};

/// Maximum number of attempts to take permits while other clients change the limit or delete folders.
pub(super) const ATTEMPTS: usize = 16;

/// The limit of a semaphore.
pub(super) struct Limit {
    pub(super) now: u32,
    /// The version of its node.
    pub(super) version: i32,
}

impl Limit {
    /// None if the node was not written by Curator or by this crate.
    pub(super) fn read(data: &[u8], stat: &Stat) -> Option<Self> {
        Some(Self { now: u32::from_be_bytes(data.try_into().ok()?), version: stat.version })
    }
}

/// The last change of a limit by this crate: the number before, and the number after it.
struct Change {
    before: u32,
    after: u32,
}

impl Change {
    fn read(data: &[u8]) -> Option<Self> {
        let (before, after) = data.split_first_chunk()?;
        Some(Self { before: u32::from_be_bytes(*before), after: u32::from_be_bytes(after.try_into().ok()?) })
    }

    fn bytes(&self) -> Vec<u8> {
        [self.before.to_be_bytes(), self.after.to_be_bytes()].concat()
    }
}

/// Checks the limit that a claim names.
pub(super) fn check_request(take: u32, limit: u32) -> Result<()> {
    if take > limit {
        return Err(Error::misused(format!("the semaphore has {limit} permits, so a claim cannot take {take}")));
    }
    Ok(())
}

impl Shared {
    /// The node that has the limit.
    pub(super) fn limit_path(&self, key: &Key) -> String {
        format!("{}/{}", self.own_folder("limits"), encode(key.as_str()))
    }

    /// The node that has the last change of the limit. The name has one percent sign, so it is not the name of a limit.
    fn change_path(&self, key: &Key) -> String {
        format!("{}/%before", self.limit_path(key))
    }

    /// Reads the limit. None if the semaphore has no limit yet. The request is sent at once.
    pub(super) async fn read_limit(&self, session: &Session, key: &Key) -> Result<Option<Limit>> {
        let path = self.limit_path(key);
        match session.client.get_data(&path).await {
            Ok((data, stat)) => match Limit::read(&data, &stat) {
                Some(limit) => Ok(Some(limit)),
                None => Err(Error::new(ErrorKind::Corrupt, format!("the node {path} is not the limit of a semaphore"))),
            },
            Err(ZkError::NoNode) => Ok(None),
            Err(error) => Err(self.fault(error).ambiguous()),
        }
    }

    /// Creates the limit of a new semaphore, unless another client does so.
    pub(super) async fn create_limit(&self, session: &Session, key: &Key, limit: u32) -> Result<(), ZkError> {
        let options = CreateMode::Persistent.with_acls(self.options.acl.acls());
        loop {
            match session.client.create(&self.limit_path(key), &limit.to_be_bytes(), &options).await {
                Ok(_) | Err(ZkError::NodeExists) => return Ok(()),
                Err(ZkError::NoNode) => session.make_lasting_folder(&self.own_folder("limits")).await?,
                Err(error) => return Err(error),
            }
        }
    }

    /// Checks the limit that a claim names. The number before the last change is accepted, too.
    ///
    /// # Errors
    /// The store did not answer. The inner error says why the claim is wrong.
    pub(super) async fn check_limit(
        &self,
        session: &Session,
        claim: &Claim,
        limit: &Limit,
        take: u32,
        of: u32,
    ) -> Result<Result<()>> {
        if let Err(wrong) = check_request(take, of) {
            return Ok(Err(wrong));
        }
        if of != limit.now {
            let before = self.limit_before(session, &claim.key, limit).await;
            if before.map_err(|error| self.fault(error).ambiguous())? != Some(of) {
                let now = limit.now;
                return Ok(Err(Error::misused(format!(
                    "the semaphore has {now} permits in the store, and this client says that it has {of}; give the number \
                     of the store, or change it with `set_limit` (`bandog limit NAME N`)"
                ))));
            }
        }
        Ok(check_request(take, limit.now))
    }

    /// The limit before its last change. None if it was never changed.
    async fn limit_before(&self, session: &Session, key: &Key, limit: &Limit) -> Result<Option<u32>, ZkError> {
        let change = match session.client.get_data(&self.change_path(key)).await {
            Ok((data, _)) => Change::read(&data),
            Err(ZkError::NoNode) => None,
            Err(error) => return Err(error),
        };
        // If a Java service has changed the limit since then, the number before is the one that we wrote last.
        Ok(change.map(|change| if change.after == limit.now { change.before } else { change.after }))
    }

    /// Changes the limit, and returns the limit before. None if the semaphore is new.
    pub(crate) async fn set_limit(&self, session: &Session, key: &Key, permits: u32) -> Result<Option<u32>> {
        let folder = self.folder(key);
        for _ in 0..ATTEMPTS {
            let others = self.other_family(session, &folder).await.map_err(|error| self.fault(error))?;
            if let Some((family, _)) = others {
                return Err(in_use(family, Family::Semaphore));
            }
            let Some(limit) = self.read_limit(session, key).await? else {
                let options = CreateMode::Persistent.with_acls(self.options.acl.acls());
                match session.client.create(&self.limit_path(key), &permits.to_be_bytes(), &options).await {
                    Ok(_) => return Ok(None),
                    Err(ZkError::NodeExists) => {}
                    Err(ZkError::NoNode) => {
                        let made = session.make_lasting_folder(&self.own_folder("limits")).await;
                        made.map_err(|error| self.fault(error))?;
                    }
                    Err(error) => return Err(self.fault(error)),
                }
                continue;
            };
            if limit.now == permits || self.change_limit(session, key, &limit, permits).await? {
                return Ok(Some(limit.now));
            }
        }
        Err(Error::unavailable(format!("{}: other clients change the limit all the time", self.store)))
    }

    /// Writes a new limit, and the number before. Returns false if another client has changed the limit.
    async fn change_limit(&self, session: &Session, key: &Key, limit: &Limit, permits: u32) -> Result<bool> {
        let options = CreateMode::Persistent.with_acls(self.options.acl.acls());
        let change = Change { before: limit.now, after: permits }.bytes();
        for is_first in [false, true] {
            let mut transaction = session.client.new_multi_writer();
            let limited = transaction.add_set_data(&self.limit_path(key), &permits.to_be_bytes(), Some(limit.version));
            let noted = if is_first {
                transaction.add_create(&self.change_path(key), &change, &options)
            } else {
                transaction.add_set_data(&self.change_path(key), &change, None)
            };
            limited.and(noted).map_err(|error| self.fault(error))?;
            match transaction.commit().await {
                Ok(_) => return Ok(true),
                Err(MultiWriteError::OperationFailed { index: 1, source: ZkError::NoNode }) if !is_first => {}
                Err(MultiWriteError::OperationFailed {
                    source: ZkError::NoNode | ZkError::NodeExists | ZkError::BadVersion | ZkError::RuntimeInconsistent,
                    ..
                }) => return Ok(false),
                Err(error) => return Err(self.fault(error.into())),
            }
        }
        Ok(false)
    }

    /// Deletes the limit of a semaphore that is not used any more.
    pub(super) async fn delete_limit(&self, session: &Session, key: &Key) -> Result<(), ZkError> {
        for path in [self.change_path(key), self.limit_path(key)] {
            match session.client.delete(&path, None).await {
                Ok(()) | Err(ZkError::NoNode | ZkError::NotEmpty) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_data_of_a_change_are_read_as_they_were_written() {
        let data = Change { before: 5, after: u32::MAX }.bytes();
        let read = Change::read(&data).unwrap();
        assert_eq!((data.len(), read.before, read.after), (8, 5, u32::MAX));
        for wrong in [&b""[..], b"1234", b"1234567", b"123456789"] {
            assert!(Change::read(wrong).is_none());
        }
    }
}
