//! Timed maps.

use std::collections::BTreeMap;

use super::{map, terms::Map};
use crate::{
    Moment, Result,
    structures::{Bytes, EntryEvent, Life, MapOp, Reply, TimedOp, Ttl, Victim},
};

/// Maximum number of entries that one operation removes because the map is full.
const AT_ONCE: usize = 1_000;

/// A timed map. It exists while it has entries; its bound stays without them.
#[derive(Debug, Default)]
pub(super) struct Timed {
    values: Map,
    /// The lives of the same fields.
    lives: BTreeMap<Bytes, EntryLife>,
    bound: Option<(usize, Victim)>,
    paused_until: Option<Moment>,
}

#[derive(Debug)]
struct EntryLife {
    life: Life,
    begin: Moment,
    used: Moment,
    uses: u64,
}

impl EntryLife {
    fn end(&self) -> Option<Moment> {
        let end = self.life.ttl.map(|ttl| self.begin + ttl);
        let idle_end = self.life.idle.map(|idle| self.used + idle);
        end.into_iter().chain(idle_end).min()
    }

    fn has_ended(&self, now: Moment) -> bool {
        self.end().is_some_and(|end| end <= now)
    }
}

impl Timed {
    /// Whether nothing has to be kept.
    pub(super) fn is_empty(&self) -> bool {
        self.values.is_empty() && self.bound.is_none()
    }

    pub(super) fn exists(&self) -> bool {
        !self.values.is_empty()
    }

    /// The entries that have not expired.
    pub(super) fn live(&self, now: Moment) -> impl Iterator<Item = (&Bytes, &Bytes)> {
        let is_live = move |field: &Bytes| self.lives.get(field).is_none_or(|life| !life.has_ended(now));
        self.values.iter().filter(move |(field, _)| is_live(field))
    }

    pub(super) fn apply(&mut self, op: &TimedOp, now: Moment, events: &mut Vec<EntryEvent>) -> Result<Reply> {
        match op {
            TimedOp::Entries(op, life) => self.entries(op, *life, now, events),
            TimedOp::SetLife(field, life) => {
                self.expire(field, now, events);
                let found = self.lives.get_mut(field);
                Ok(Reply::Flag(found.map(|found| (found.life, found.begin, found.used) = (*life, now, now)).is_some()))
            }
            TimedOp::Left(field) => {
                self.expire(field, now, events);
                let end = self.lives.get(field).map(EntryLife::end);
                Ok(Reply::Ttl(
                    end.map_or(Ttl::Absent, |end| end.map_or(Ttl::Unlimited, |end| Ttl::Left(end.since(now)))),
                ))
            }
            TimedOp::Bound { entries, victim } => {
                self.bound = (*entries > 0).then_some((*entries as usize, *victim));
                self.shrink(None, events);
                Ok(Reply::Done)
            }
            TimedOp::Evict { at_most, pause } => {
                if self.paused_until.is_some_and(|until| now < until) {
                    return Ok(Reply::Int(-1));
                }
                let ended = self.lives.iter().filter(|(_, life)| life.has_ended(now)).map(|(field, _)| field.clone());
                let ended: Vec<_> = ended.take(*at_most as usize).collect();
                ended.iter().for_each(|field| self.expire(field, now, events));
                self.paused_until = (ended.len() < *at_most as usize).then_some(now + *pause);
                Ok(Reply::Int(ended.len() as i64))
            }
        }
    }

    fn entries(&mut self, op: &MapOp, life: Life, now: Moment, events: &mut Vec<EntryEvent>) -> Result<Reply> {
        match op {
            MapOp::Get(fields) => {
                for field in fields {
                    self.expire(field, now, events);
                    self.touch(field, now);
                }
                map::apply(&mut self.values, op)
            }
            MapOp::Remove(fields) => {
                fields.iter().for_each(|field| self.expire(field, now, events));
                let removed: Vec<_> = fields.iter().filter_map(|field| self.remove(field)).collect();
                let count = removed.len() as i64;
                events.extend(removed.into_iter().map(|(field, value)| EntryEvent::Removed { field, value }));
                Ok(Reply::Int(count))
            }
            MapOp::Len => Ok(Reply::Int(self.live(now).count() as i64)),
            MapOp::Insert(field, _)
            | MapOp::InsertNew(field, _)
            | MapOp::Take(field)
            | MapOp::Swap { field, .. }
            | MapOp::Add(field, _)
            | MapOp::AddFloat(field, _) => self.write(op, field, life, now, events),
            MapOp::Put(entries) => {
                for (field, value) in entries {
                    self.write(&MapOp::Insert(field.clone(), value.clone()), field, life, now, events)?;
                }
                Ok(Reply::Done)
            }
        }
    }

    /// Applies an operation that may write or remove this field.
    fn write(
        &mut self,
        op: &MapOp,
        field: &Bytes,
        life: Life,
        now: Moment,
        events: &mut Vec<EntryEvent>,
    ) -> Result<Reply> {
        self.expire(field, now, events);
        let before = self.values.get(field).cloned();
        let reply = map::apply(&mut self.values, op)?;
        let is_applied = reply != Reply::Flag(false);
        let keeps_life = matches!(op, MapOp::Swap { .. } | MapOp::Add(..) | MapOp::AddFloat(..));
        let field = field.clone();
        match (before, self.values.get(&field).cloned()) {
            (Some(value), None) => {
                self.lives.remove(&field);
                events.push(EntryEvent::Removed { field, value });
            }
            (before, Some(value)) if is_applied => {
                let found =
                    self.lives.entry(field.clone()).or_insert(EntryLife { life, begin: now, used: now, uses: 0 });
                if !keeps_life {
                    (found.life, found.begin) = (life, now);
                }
                self.touch(&field, now);
                events.push(match before {
                    None => EntryEvent::Created { field: field.clone(), value },
                    Some(old) => EntryEvent::Updated { field: field.clone(), value, old },
                });
                self.shrink(Some(&field), events);
            }
            _ => {}
        }
        Ok(reply)
    }

    /// Removes this entry if it has expired.
    fn expire(&mut self, field: &Bytes, now: Moment, events: &mut Vec<EntryEvent>) {
        if self.lives.get(field).is_some_and(|life| life.has_ended(now))
            && let Some((field, value)) = self.remove(field)
        {
            events.push(EntryEvent::Expired { field, value });
        }
    }

    fn remove(&mut self, field: &Bytes) -> Option<(Bytes, Bytes)> {
        self.lives.remove(field);
        self.values.remove_entry(field)
    }

    fn touch(&mut self, field: &Bytes, now: Moment) {
        if let Some(life) = self.lives.get_mut(field) {
            (life.used, life.uses) = (now, life.uses + 1);
        }
    }

    /// Removes the entries that a full map loses first, but never this one.
    fn shrink(&mut self, kept: Option<&Bytes>, events: &mut Vec<EntryEvent>) {
        let Some((entries, victim)) = self.bound else { return };
        let surplus = self.values.len().saturating_sub(entries).min(AT_ONCE);
        let mut others: Vec<_> = self.lives.iter().filter(|(field, _)| Some(*field) != kept).collect();
        others.sort_by_key(|(_, life)| match victim {
            Victim::LeastRecentlyUsed => (0, life.used),
            Victim::LeastFrequentlyUsed => (life.uses, life.used),
        });
        let victims: Vec<_> = others.into_iter().take(surplus).map(|(field, _)| field.clone()).collect();
        let removed = victims.iter().filter_map(|field| self.remove(field)).collect::<Vec<_>>();
        events.extend(removed.into_iter().map(|(field, value)| EntryEvent::Removed { field, value }));
    }
}
