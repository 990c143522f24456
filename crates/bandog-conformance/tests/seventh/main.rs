//! Runs the laws with a minimal backend, as a user would write it.
#![allow(clippy::unwrap_used, missing_docs, reason = "tests")]

#[allow(unreachable_pub, reason = "as its author would write it")]
mod one_file;

use std::{path::Path, time::Duration};

use async_trait::async_trait;
use bandog_conformance::{Can, Unkept, World, conformance};

use self::one_file::OneFile;

conformance!(InOneFile);

struct InOneFile(tempfile::TempDir);

#[async_trait]
impl World for InOneFile {
    const NAME: &'static str = "one file";
    type Backend = OneFile;

    async fn start() -> Self {
        // The file is in memory if possible, because every step writes the whole file.
        Self(tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap())
    }

    fn backend(&self) -> OneFile {
        OneFile(self.0.path().join("locks"))
    }

    /// The backend has no notifications, so its waiters poll once a second.
    fn prompt(&self) -> Duration {
        Duration::from_millis(1_500)
    }

    /// Every step writes the whole file.
    fn many(&self) -> usize {
        20
    }

    fn registry(&self) -> Can {
        Err(Unkept::Cannot("it has no registry"))
    }

    fn records(&self) -> Can {
        Err(Unkept::Cannot("it has no records"))
    }

    fn address(&self) -> Can<String> {
        Ok(self.0.path().join("locks").to_str().unwrap().into())
    }

    fn backend_at(address: &str) -> Can<OneFile> {
        Ok(OneFile(Path::new(address).into()))
    }
}
