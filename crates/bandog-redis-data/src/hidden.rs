//! Objects whose own key does not exist: a Bloom filter without items, and elements that are all taken.

use std::time::Duration;

use bandog_core::{
    Key, Result,
    structures::{Elements, ObjectRow, ObjectState, Structure},
};
use redis::Value;

use crate::{
    command::Command,
    names::{self, Helper},
    read,
    scripts::SCRIPTS,
};

/// What the helper keys of a name show: the reply of `hidden.lua`.
pub(crate) struct Hidden {
    /// The Redis type of the key with the name.
    kind: Vec<u8>,
    /// The ttl of the sizes of a Bloom filter, if they exist.
    filter: Option<Ttl>,
    /// The structure of elements that are taken or were delivered before, and the ttl of the key that has them.
    elements: Option<(Structure, Ttl)>,
    has_taken: bool,
    /// The elements that are not in the key with the name.
    beside: Elements,
}

/// A remaining time. None: no ttl.
type Ttl = Option<Duration>;

/// The command that reads what the helper keys of this name show.
pub(crate) fn command(key: &Key) -> Command {
    let [own, config, taken, again, leases] = names::hidden(key.as_str());
    let other = names::tag(key.as_str());
    Command::script(&SCRIPTS.hidden, [own]).args([config, taken, again, leases, other])
}

impl Hidden {
    pub(crate) fn read(reply: Value) -> Result<Self> {
        let reply = <[Value; 9]>::try_from(read::each(reply)?).map_err(|_| read::unexpected())?;
        let [kind, is_filter, filter_ttl, structure, has_taken, ttl, ready, taken, left] = reply;
        let structure = match read::bytes(structure)?.as_slice() {
            b"list" => Some(Structure::List),
            b"sorted" => Some(Structure::Sorted),
            _ => None,
        };
        let (filter_ttl, ttl) = (time(&filter_ttl)?, time(&ttl)?);
        Ok(Self {
            kind: read::bytes(kind)?,
            filter: (read::int(&is_filter)? == 1).then_some(filter_ttl),
            elements: structure.map(|structure| (structure, ttl)),
            has_taken: read::int(&has_taken)? == 1,
            beside: Elements { ready: read::unsigned(&ready)?, taken: read::unsigned(&taken)?, lease: time(&left)? },
        })
    }

    /// The row of the object, if this helper key stands for it in a list: its own key does not exist, and of its helper keys
    /// it is the first one.
    pub(crate) fn row_by(&self, key: Key, by: Helper) -> Option<ObjectRow> {
        let first = match (self.filter, self.has_taken) {
            (Some(_), _) => Helper::Sizes,
            (None, true) => Helper::Taken,
            (None, false) => Helper::Again,
        };
        (self.kind == b"none" && by == first).then(|| self.rows(&key).next()).flatten()
    }

    /// The states of the object with this own row, and of the objects that only helper keys show.
    pub(crate) fn states(&self, key: &Key, own: Option<ObjectRow>) -> Vec<ObjectState> {
        let is_taken_from =
            |row: &ObjectRow| matches!(row.structure, Structure::List | Structure::Set | Structure::Sorted);
        let is_own = |row: &ObjectRow| match &own {
            Some(own) => own.structure == row.structure || is_taken_from(own) && is_taken_from(row),
            None => false,
        };
        let hidden: Vec<_> = self.rows(key).filter(|row| !is_own(row)).collect();
        let state = |row: ObjectRow| {
            let elements = is_taken_from(&row).then(|| {
                let Elements { ready, taken, lease } = self.beside;
                Elements { ready: row.size + ready, taken, lease }
            });
            ObjectState { row, elements }
        };
        own.into_iter().chain(hidden).map(state).collect()
    }

    /// The rows of the objects that helper keys show. A list and a set look alike if all their elements are taken.
    fn rows(&self, key: &Key) -> impl Iterator<Item = ObjectRow> {
        let filter = self.filter.map(|ttl| (Structure::Bloom, 1, ttl));
        let elements = self.elements.map(|(structure, ttl)| (structure, 0, ttl));
        let row = |(structure, size, ttl)| ObjectRow { key: key.clone(), structure, size, ttl };
        filter.into_iter().chain(elements).map(row)
    }
}

/// The time of a number of milliseconds. None if it is negative.
fn time(reply: &Value) -> Result<Ttl> {
    Ok(u64::try_from(read::int(reply)?).ok().map(Duration::from_millis))
}
