//! The names and kinds of the locks that the workers use.

use std::time::Duration;

use bandog::{Key, backend::Kind};
use bandog_judge::Part;

use super::{
    args::Args,
    family::{FAMILIES, Family, PERMITS},
};
use crate::fault::Fault;

/// The part of the lock that a claim of this kind takes.
pub(super) fn part(kind: Kind) -> Part {
    match kind {
        Kind::Mutex | Kind::Fair | Kind::Write => Part::Alone,
        Kind::Read => Part::Shared,
        Kind::Permits { take, .. } => Part::Permits(take.get()),
    }
}

/// A name that the workers lock.
#[derive(Debug, Clone)]
pub(super) struct Name {
    pub(super) text: String,
    pub(super) family: Family,
    /// Whether the lock is held for up to `Plan::hold`. Otherwise it is held for milliseconds.
    pub(super) is_long: bool,
}

/// The names, and the terms of all claims.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) prefix: String,
    pub(super) families: Vec<Family>,
    pub(super) names: Vec<Name>,
    /// Greatest duration of a long hold.
    pub(super) hold: Duration,
    pub(super) lease: Option<Duration>,
}

impl Plan {
    /// The plan for these arguments.
    pub(super) fn of(args: &Args) -> Result<Self, Fault> {
        let random = || format!("bandog-torture:{:08x}:", fastrand::u32(..));
        let prefix = args.prefix.clone().unwrap_or_else(random);
        if prefix.is_empty() {
            return Err(Fault::usage("--prefix is empty; the names of the locks need a beginning of their own"));
        }
        let named = if args.kinds.is_empty() { &FAMILIES[..] } else { &args.kinds };
        let mut families = Vec::new();
        for family in named {
            // Two ledgers for one name would see losses where there are none.
            if !families.contains(family) {
                families.push(*family);
            }
        }
        let mut names = Vec::new();
        for family in &families {
            for (is_long, length) in [(false, "short"), (true, "long")] {
                for number in 0..args.names {
                    let text = format!("{prefix}{}-{length}-{number}", family.word());
                    Key::new(&text).map_err(|error| Fault::usage(error.to_string()))?;
                    names.push(Name { text, family: *family, is_long });
                }
            }
        }
        Ok(Self { prefix, families, names, hold: args.hold, lease: args.lease })
    }

    /// The first name of each kind.
    pub(super) fn first_names(&self) -> Vec<(Family, String)> {
        let first = |family: &Family| self.names.iter().find(|name| name.family == *family);
        let names = self.families.iter().filter_map(first);
        names.map(|name| (name.family, name.text.clone())).collect()
    }

    /// Removes the names of this kind.
    pub(super) fn leave_out(&mut self, family: Family) {
        self.families.retain(|other| *other != family);
        self.names.retain(|name| name.family != family);
    }

    /// The kinds as text.
    pub(super) fn kinds(&self) -> Vec<&'static str> {
        self.families.iter().map(|family| family.word()).collect()
    }

    /// Number of permits of the semaphores.
    pub(super) fn permits() -> u32 {
        PERMITS.get()
    }
}
