use std::{collections::BTreeMap, fs, fs::File, io, num::NonZeroU32, path::PathBuf};

use async_trait::async_trait;
use bandog_core::*;

/// Locks in one text file that the processes of a machine share. A restart of the machine ends all leases.
#[derive(Debug, Clone)]
pub struct OneFile(pub PathBuf);

impl OneFile {
    /// Reads the file, applies `change`, and replaces the file. A lock file ensures that only one process at a time
    /// does all this.
    fn with<T>(&self, change: impl FnOnce(&mut BTreeMap<Key, LockState>, Moment) -> T) -> io::Result<T> {
        let one_at_a_time = File::create(self.0.with_extension("lock"))?;
        one_at_a_time.lock()?;
        File::options().append(true).create(true).open(&self.0)?; // Creates the file if it does not exist.
        let text = fs::read_to_string(&self.0)?;
        let parsed = text.lines().filter_map(|line| line.split_once('\t'));
        let parsed = parsed.filter_map(|(record, name)| Some((Key::new(name).ok()?, record.parse().ok()?)));
        let mut records = parsed.collect();
        let answer = change(&mut records, Clock::system().now());
        let lines: String = records.iter().map(|(name, record)| format!("{record}\t{name}\n")).collect();
        fs::write(self.0.with_extension("new"), lines)?;
        fs::rename(self.0.with_extension("new"), &self.0)?;
        Ok(answer)
    }

    /// Changes the state of one lock.
    fn of<T>(&self, key: &Key, change: impl FnOnce(&mut LockState, Moment) -> T) -> Result<T> {
        self.with(|records, now| change(records.entry(key.clone()).or_default(), now)).map_err(unavailable)
    }
}

fn unavailable(error: io::Error) -> Error {
    Error::unavailable("the file cannot be used").caused_by(error)
}

#[async_trait]
impl Leases for OneFile {
    async fn ping(&self) -> Result<()> {
        self.with(|_, _| ()).map_err(unavailable)
    }

    async fn apply(&self, steps: &[Step]) -> Vec<Result<Answer>> {
        let one = |step: &Step| self.of(step.key(), |record, now| record.apply(step, now)).flatten();
        steps.iter().map(one).collect()
    }

    async fn renew(&self, claims: &[Claim]) -> Vec<Result<Renewal>> {
        let one = |claim: &Claim| self.of(&claim.key, |record, now| record.renew(claim, now));
        claims.iter().map(one).collect()
    }

    async fn set_limit(&self, key: &Key, permits: NonZeroU32) -> Result<Option<u32>> {
        self.of(key, |record, now| record.set_limit(permits, now)).flatten()
    }

    fn profile(&self) -> Profile {
        Profile::of_this_machine(self.0.display().to_string())
    }
}

#[async_trait]
impl Inspect for OneFile {
    async fn list(&self, pattern: &Pattern) -> Result<Vec<Row>> {
        let rows = self.with(|records, now| {
            let named = records.iter().filter(|(key, _)| pattern.matches(key.as_str()));
            named.filter_map(|(key, record)| record.row(key, now)).collect()
        });
        rows.map_err(unavailable)
    }

    async fn evict(&self, key: &Key) -> Result<Option<Row>> {
        self.of(key, |record, now| {
            let row = record.row(key, now);
            record.evict(now);
            row
        })
    }
}

impl bandog_core::Records for OneFile {}

impl bandog_core::Latches for OneFile {}

impl bandog_core::Backend for OneFile {}
