//! Compares the record of pauses in the store with the node's copy. No operation deletes this record. So if the version
//! in the store is smaller, the store has lost the record or its last change.

use bandog_core::{Error, Record, Version};

use crate::pauses::{KnownPauses, StoredPauses};

/// A record of pauses that was read.
#[derive(Debug)]
pub(crate) enum PausesRead {
    Unchanged,
    Changed(KnownPauses),
    /// The store has lost pauses. The node must write its copy again, and replace this version.
    Lost(Option<Version>),
    /// This version of bandog cannot parse the record.
    Unreadable(Option<Version>, Error),
}

/// Compares the record in the store with the node's copy (`known`).
pub(crate) fn compare_pauses(known: &KnownPauses, record: Option<&Record>) -> PausesRead {
    let version = record.map(|record| record.version);
    if version == known.version {
        return PausesRead::Unchanged;
    }
    if version < known.version {
        return PausesRead::Lost(version);
    }
    match StoredPauses::of(record) {
        Ok(stored) => PausesRead::Changed(KnownPauses { version, stored }),
        Err(error) => PausesRead::Unreadable(version, error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(version: u64, value: &str) -> Record {
        Record { version: Version::new(version).unwrap(), value: value.to_owned() }
    }

    #[test]
    fn a_smaller_version_or_none_means_that_the_record_was_lost() {
        let known = KnownPauses { version: Version::new(5), ..KnownPauses::default() };
        assert!(matches!(compare_pauses(&known, None), PausesRead::Lost(None)));
        assert!(matches!(compare_pauses(&known, Some(&record(4, "{}"))), PausesRead::Lost(Some(_))));
        assert!(matches!(compare_pauses(&known, Some(&record(5, "{}"))), PausesRead::Unchanged));
        assert!(matches!(compare_pauses(&known, Some(&record(6, "{}"))), PausesRead::Changed(_)));
        assert!(matches!(compare_pauses(&known, Some(&record(6, "["))), PausesRead::Unreadable(Some(_), _)));
        assert!(matches!(compare_pauses(&KnownPauses::default(), None), PausesRead::Unchanged));
    }
}
