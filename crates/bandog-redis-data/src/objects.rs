//! The objects of a Redis store.

use std::{fmt, sync::Arc};

use async_trait::async_trait;
use bandog_core::{
    Error, Key, Notifier, Pattern, Portion, Result, Subscription,
    structures::{
        Action, CacheChange, CacheChanges, Cursor, EntryEvents, EntryKey, MapChanges, ObjectRow, ObjectState, Op, Page,
        Part, Reply, Source, Structures,
    },
};
use bandog_redis_net::{KeyChange, KeyChanges, Keys, Options, ScriptForm, Servers, slot};
use redis::Pipeline;

use crate::{command::Command, copies, entry_events, layouts::Layouts, names, pack, pages, read, scripts};

/// The objects of a Redis store, on connections of their own.
pub struct RedisObjects {
    pub(crate) servers: Arc<Servers>,
    /// The same servers, on connections of their own: leases are extended there, and never wait behind large requests.
    pub(crate) leases: Arc<Servers>,
    pub(crate) layouts: Arc<Layouts>,
}

impl RedisObjects {
    /// The objects of the store with these options. This does no I/O.
    ///
    /// # Errors
    /// `Misused`: see [`Options::check`].
    pub fn new(options: Options) -> Result<Self> {
        let leases = Arc::new(Servers::new(options.clone(), scripts::of_leases())?);
        Ok(Self { servers: Arc::new(Servers::new(options, scripts::all())?), leases, layouts: Arc::default() })
    }

    /// The command of an operation. In a cluster, its objects must be in one slot.
    fn command(&self, op: &Op) -> Result<Command> {
        let slot_of = |key: &Key| slot(key.as_str().as_bytes());
        let other = pack::others(op).find(|other| slot_of(other) != slot_of(&op.key));
        match other {
            Some(other) if self.servers.is_cluster() && matches!(op.action, Action::Live(_)) => {
                Err(Error::misused(format!(
                    "the object {} and its index {other} are in the slots {} and {} of the cluster; a class with indexes \
                     needs #[live(one_slot)] on a cluster",
                    op.key,
                    slot_of(&op.key),
                    slot_of(other),
                )))
            }
            Some(other) if self.servers.is_cluster() => Err(Error::misused(format!(
                "the objects {} and {other} are in the slots {} and {} of the cluster; names with the same part in braces, \
                 such as {{shop}}:a and {{shop}}:b, are in one slot",
                op.key,
                slot_of(&op.key),
                slot_of(other),
            ))),
            _ => {
                let command = pack::command(op)?;
                let route = pack::route(op);
                let home = slot(route.as_deref().unwrap_or(op.key.as_str()).as_bytes());
                let is_elsewhere = |key: &String| slot(key.as_bytes()) != home;
                match &command {
                    Command::Script { keys, .. } if self.servers.is_cluster() && keys.iter().any(is_elsewhere) => {
                        Err(several_slots())
                    }
                    _ => Ok(command),
                }
            }
        }
    }
}

/// The error of a name whose keys are in several slots of a cluster.
pub(crate) fn several_slots() -> Error {
    Error::misused(
        "the name has a brace without a part in braces, so the keys of the object are in several slots of the cluster; use a \
         name without braces, or with a part in braces",
    )
}

#[async_trait]
impl Structures for RedisObjects {
    async fn run(&self, ops: &[Op]) -> Vec<Result<Reply>> {
        let commands: Vec<Result<Command>> = ops.iter().map(|op| self.command(op)).collect();
        let sent = || ops.iter().zip(&commands).filter_map(|(op, command)| Some((op, command.as_ref().ok()?)));
        let routes: Vec<_> = sent().map(|(op, _)| pack::route(op)).collect();
        let keys: Vec<_> =
            sent().zip(&routes).map(|((op, _), route)| Some(route.as_deref().unwrap_or(op.key.as_str()))).collect();
        let pack = |form: ScriptForm| {
            let mut pipe = Pipeline::with_capacity(keys.len());
            sent().for_each(|(_, command)| _ = pipe.add_command(command.in_form(form)));
            pipe
        };
        let replies = match keys.is_empty() {
            true => Ok(Vec::new()),
            false => {
                let replies = self.servers.call_scripts(self.servers.deadline(), Keys::Each(&keys), pack).await;
                replies.map(|replies| replies.into_iter().collect())
            }
        };
        let mut replies = match replies {
            Ok(replies) => replies.into_iter(),
            Err(error) => vec![Err(error); keys.len()].into_iter(),
        };
        let missing = || Err(Error::unavailable("Redis has not answered each operation").ambiguous());
        let answer = |(op, command): (&Op, &Result<Command>)| {
            let value = match command {
                Ok(_) => replies.next().unwrap_or_else(missing),
                Err(error) => Err(error.clone()),
            };
            value.and_then(|value| read::reply(&op.action, value)).map_err(|error| error.at(&op.key))
        };
        ops.iter().zip(&commands).map(answer).collect()
    }

    async fn page(&self, key: &Key, part: Part, from: &Cursor, about: Portion) -> Result<Page> {
        pages::page(&self.servers, key, part, from, about).await.map_err(|error| error.at(key))
    }

    async fn objects(
        &self,
        pattern: &Pattern,
        from: &Cursor,
        about: usize,
    ) -> Result<(Vec<ObjectRow>, Option<Cursor>)> {
        pages::objects(&self.servers, pattern, from, about).await
    }

    async fn describe(&self, key: &Key) -> Result<Vec<ObjectState>> {
        pages::describe(&self.servers, key).await.map_err(|error| error.at(key))
    }

    async fn subscribe_fill(&self, key: &Key, at: &EntryKey, notifier: Notifier) -> Result<Subscription> {
        let [.., fill] = names::cache(key.as_str(), at);
        self.servers.watch(&fill, notifier).await.map_err(|error| error.at(key))
    }

    async fn track_cache(&self, key: &Key, changes: CacheChanges) -> Result<Subscription> {
        let prefix = names::cache_prefix(key.as_str());
        let before = prefix.len();
        let report = KeyChanges::new(move |change| {
            changes.report(match change {
                KeyChange::Key(key) => match key.get(before..).and_then(names::cache_entry) {
                    Some(Some(entry)) => CacheChange::Entry(entry),
                    Some(None) => CacheChange::Any,
                    None => return, // A key of another cache.
                },
                KeyChange::Any => CacheChange::Any,
                KeyChange::Lost => CacheChange::Lost,
                KeyChange::Denied(error) => CacheChange::Denied(error.clone()),
            });
        });
        self.servers.track(&prefix, report).await.map_err(|error| error.at(key))
    }

    async fn track_map(&self, key: &Key, changes: MapChanges) -> Result<Subscription> {
        copies::track(&self.servers, key.as_str(), changes).await.map_err(|error| error.at(key))
    }

    async fn subscribe_entries(&self, key: &Key, events: EntryEvents) -> Result<Subscription> {
        entry_events::subscribe(&self.servers, key.as_str(), events).await.map_err(|error| error.at(key))
    }

    async fn subscribe_elements(&self, key: &Key, from: Source, notifier: Notifier) -> Result<Subscription> {
        let own = self.servers.watch(key.as_str(), notifier.clone()).await.map_err(|error| error.at(key))?;
        let (Source::List(_) | Source::Group(_)) = from else { return Ok(own) };
        let again = self.servers.watch(&names::again(key.as_str()), notifier).await.map_err(|error| error.at(key))?;
        if own.is_silent() || again.is_silent() {
            return Ok(Subscription::silent());
        }
        Ok(Subscription::new(move || drop((own, again))))
    }
}

impl fmt::Debug for RedisObjects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisObjects").field("store", &self.servers.store()).finish_non_exhaustive()
    }
}
