//! Random operations, compared with the memory backend.

use std::time::Duration;

use bandog_core::{
    Clock, Memory,
    structures::{
        Action, BitCombine, BitField, BitsOp, Bytes, Combine, CounterOp, End, EntryId, Expiry, FieldOp, JournalOp,
        Keep, Life, ListOp, MapOp, MultimapOp, ObjectOp, Op, Reply, Scores, SetOp, SetTtl, SortedOp, Source, Start,
        Structure, Structures, TakeEnd, TakeOp, TimedOp, ValueOp, Values,
    },
};

use super::{
    ObjectWorld,
    kit::{LONG, Store, once},
};

/// The number of random operations.
const OPERATIONS: usize = 4_000;

/// Law 264: the answers to random operations are those of the memory backend.
pub async fn random_operations_agree_with_the_reference<W: ObjectWorld>(world: &W) {
    let (store, memory, seed) = (Store::of(world), Memory::new(Clock::system()), fastrand::u64(..));
    let mut random = Random { random: fastrand::Rng::with_seed(seed), taken: Vec::new() };
    for number in 0..OPERATIONS {
        let (op, ids) = random.op(&store);
        let reference = memory.run(std::slice::from_ref(&op)).await.remove(0);
        // The ids of taken elements differ, so each store gets its own.
        let own = with_ids(op.clone(), &ids);
        let reply = store.structures().run(std::slice::from_ref(&own)).await.remove(0);
        let (left, right) = (comparable(&op, &reply), comparable(&op, &reference));
        assert_eq!(left, right, "operation {number} of seed {seed}: {op:?}");
        if let (
            Ok(Reply::Taken { elements: own, .. }),
            Ok(Reply::Taken { elements: of_memory, .. }),
            Action::Take(TakeOp::Take { from, .. }),
        ) = (reply, reference, &op.action)
        {
            let pairs =
                own.iter().zip(&of_memory).map(|(own, of_memory)| (op.key.clone(), from.clone(), own.id, of_memory.id));
            random.taken.extend(pairs);
        }
    }
}

/// An answer without what differs between stores: the ids of taken elements, the order of members, random members, the
/// texts of errors, the ids of entries, and the exact remaining time.
fn comparable(op: &Op, reply: &bandog_core::Result<Reply>) -> Result<Reply, bandog_core::ErrorKind> {
    match (reply, &op.action) {
        (Err(error), _) => Err(error.kind()),
        (Ok(Reply::Taken { elements, is_cut }), _) => {
            let mut elements = elements.clone();
            elements.iter_mut().for_each(|element| (element.id, element.entry) = (0, None));
            Ok(Reply::Taken { elements, is_cut: *is_cut })
        }
        (Ok(Reply::EntryIds(ids)), _) => Ok(Reply::Int(ids.len() as i64)),
        (Ok(Reply::Entries(entries)), _) => Ok(Reply::List(entries.iter().map(|(_, bytes)| bytes.clone()).collect())),
        (Ok(Reply::List(members)), Action::Set(SetOp::Random(_))) => Ok(Reply::Int(members.len() as i64)),
        (Ok(Reply::List(members)), Action::Set(_) | Action::Multimap(Values::Set, _)) => {
            let mut members = members.clone();
            members.sort();
            Ok(Reply::List(members))
        }
        (Ok(Reply::Ttl(ttl)), _) => Ok(Reply::Flag(matches!(ttl, bandog_core::structures::Ttl::Left(_)))),
        (Ok(reply), _) => Ok(reply.clone()),
    }
}

/// The same operation with other ids of taken elements.
fn with_ids(mut op: Op, own: &[u64]) -> Op {
    if let Action::Take(TakeOp::Settle { ids, .. } | TakeOp::Extend { ids, .. }) = &mut op.action {
        *ids = own.to_vec();
    }
    op
}

struct Random {
    random: fastrand::Rng,
    /// The elements that were taken: their ids in the store, and in memory.
    taken: Vec<(bandog_core::Key, Source, u64, u64)>,
}

impl Random {
    fn bytes(&mut self) -> Bytes {
        let texts: [&[u8]; 8] = [b"a", b"b", b"c", b"1", b"25", b"", b"\xff\0", b"longer text"];
        texts[self.random.usize(..texts.len())].to_vec()
    }

    fn some<T>(&mut self, make: impl Fn(&mut Self) -> T) -> Vec<T> {
        (0..self.random.usize(1..4)).map(|_| make(self)).collect()
    }

    fn optional(&mut self) -> Option<Bytes> {
        if self.random.bool() { Some(self.bytes()) } else { None }
    }

    fn score(&mut self) -> f64 {
        let scores = [0.0, 1.0, -1.5, 2.25, 1e300, 0.1, f64::INFINITY];
        scores[self.random.usize(..scores.len())]
    }

    fn index(&mut self) -> i64 {
        self.random.i64(-4..6)
    }

    fn end(&mut self) -> End {
        if self.random.bool() { End::Front } else { End::Back }
    }

    /// A random operation, and the ids of its taken elements in the store.
    fn op<W: ObjectWorld>(&mut self, store: &Store<'_, W>) -> (Op, Vec<u64>) {
        // Mostly an object of the right structure, sometimes one of another.
        let names =
            ["value", "map", "set", "list", "sorted", "set multimap", "list multimap", "journal", "bits", "timed map"];
        let which = self.random.usize(..names.len());
        let name = if self.random.u32(..40) == 0 { names[self.random.usize(..names.len())] } else { names[which] };
        // A store may keep the index of a multimap as a map, and does not distinguish them.
        let is_map = |name: &str| name.ends_with("map");
        let name = if is_map(name) || is_map(names[which]) { names[which] } else { name };
        let (key, mut ids) = (store.key(name), Vec::new());
        if self.random.u32(..25) == 0 {
            let structure = match name {
                "map" => Structure::Map,
                "timed map" => Structure::TimedMap,
                "set" => Structure::Set,
                "list" => Structure::List,
                "sorted" => Structure::Sorted,
                "set multimap" => Structure::Multimap(Values::Set),
                "list multimap" => Structure::Multimap(Values::List),
                "journal" => Structure::Journal,
                _ => Structure::Value,
            };
            let op = match self.random.u32(..5) {
                0 => ObjectOp::Delete,
                1 => ObjectOp::Exists,
                // What is inserted into an empty object that has taken elements may have a ttl or not.
                2 if !matches!(
                    structure,
                    Structure::List | Structure::Set | Structure::Sorted | Structure::Journal
                ) =>
                {
                    ObjectOp::Expire(LONG)
                }
                3 => ObjectOp::Persist,
                _ => ObjectOp::Ttl,
            };
            if op == ObjectOp::Delete {
                self.taken.retain(|(of, ..)| *of != key);
            }
            return (Op { key, action: Action::Object(structure, op) }, ids);
        }
        let action = match which {
            0 => self.value(),
            1 => self.map(),
            2 => self.set(&key, &mut ids),
            3 => self.list(&key, &mut ids, store.key("list")),
            4 => self.sorted(&key, &mut ids),
            5 => Action::Multimap(Values::Set, self.multimap()),
            6 => Action::Multimap(Values::List, self.multimap()),
            7 => self.journal(&key, &mut ids),
            9 => self.timed(),
            _ => self.bits(store.key("bits"), store.key("value")),
        };
        (Op { key, action }, ids)
    }

    fn value(&mut self) -> Action {
        match self.random.u32(..9) {
            0 => ValueOp::Get.into(),
            1 => {
                let ttls = [SetTtl::Clear, SetTtl::Keep, SetTtl::For(LONG)];
                ValueOp::Set(self.bytes(), ttls[self.random.usize(..3)]).into()
            }
            2 => ValueOp::SetNew(self.bytes(), None).into(),
            3 | 4 => ValueOp::Swap { from: self.optional(), to: self.optional() }.into(),
            5 => ValueOp::Take.into(),
            6 => CounterOp::Get.into(),
            7 => CounterOp::Swap(self.random.i64(0..3), self.random.i64(0..3)).into(),
            _ => CounterOp::Add { by: self.random.i64(-3..4), expiring: None, once: None }.into(),
        }
    }

    fn timed(&mut self) -> Action {
        let lives = [Life::default(), Life::ttl(LONG), Life::idle(LONG), Life { ttl: Some(LONG), idle: Some(LONG) }];
        let life = lives[self.random.usize(..lives.len())];
        let op = match self.random.u32(..8) {
            0 => TimedOp::SetLife(self.bytes(), life),
            1 => TimedOp::Left(self.bytes()),
            _ => TimedOp::Entries(self.map_op(), life),
        };
        Action::Timed(Expiry::Operations, op)
    }

    fn map(&mut self) -> Action {
        if self.random.bool() { Action::Map(self.map_op()) } else { Action::Copied(self.map_op()) }
    }

    fn map_op(&mut self) -> MapOp {
        match self.random.u32(..9) {
            0 => MapOp::Get(self.some(Self::bytes)),
            1 => MapOp::Put(self.some(|random| (random.bytes(), random.bytes()))),
            2 => MapOp::Insert(self.bytes(), self.bytes()),
            3 => MapOp::InsertNew(self.bytes(), self.bytes()),
            4 => MapOp::Remove(self.some(Self::bytes)),
            5 => MapOp::Take(self.bytes()),
            6 => MapOp::Swap { field: self.bytes(), from: self.optional(), to: self.optional() },
            7 => MapOp::Add(self.bytes(), self.random.i64(-3..4)),
            _ => MapOp::Len,
        }
    }

    fn set(&mut self, key: &bandog_core::Key, ids: &mut Vec<u64>) -> Action {
        Action::Set(match self.random.u32(..7) {
            0 | 1 => SetOp::Insert(self.some(Self::bytes)),
            2 => SetOp::Remove(self.some(Self::bytes)),
            3 => SetOp::Contains(self.some(Self::bytes)),
            4 => SetOp::Random(self.random.u32(1..4)),
            5 => {
                let hows = [Combine::Union, Combine::Intersection, Combine::Difference];
                SetOp::Combine(hows[self.random.usize(..3)], vec![key.clone()])
            }
            // A member that is taken at random differs between stores, so only the number is compared.
            _ => return self.taking(key, Source::Set, ids),
        })
    }

    fn list(&mut self, key: &bandog_core::Key, ids: &mut Vec<u64>, other: bandog_core::Key) -> Action {
        Action::List(match self.random.u32(..14) {
            0..3 => {
                let once = self.random.bool().then(|| once(LONG));
                ListOp::Push { end: self.end(), elements: self.some(Self::bytes), once }
            }
            3 => ListOp::Insert(self.random.u64(..5), self.bytes()),
            4 => ListOp::Get(self.index()),
            5 => ListOp::Set(self.index(), self.bytes()),
            6 => ListOp::RemoveAt(self.index()),
            7 => ListOp::Remove(self.bytes(), self.random.u32(..3)),
            8 => ListOp::Slice(self.index(), self.index()),
            9 if self.random.u32(..4) == 0 => ListOp::Trim(self.index(), self.index()),
            10 => ListOp::Position(self.bytes()),
            11 => {
                let (from, at) = (self.end(), self.end());
                return TakeOp::MoveTo { from, to: other, at, at_most: self.random.u32(..3) }.into();
            }
            12 | 13 => {
                let from = Source::List(self.end());
                return self.taking(key, from, ids);
            }
            _ => ListOp::Len,
        })
    }

    fn taking(&mut self, key: &bandog_core::Key, from: Source, ids: &mut Vec<u64>) -> Action {
        let settled: Vec<_> =
            self.taken.extract_if(.., |(of, source, ..)| of == key && *source == from).take(2).collect();
        let of_memory: Vec<_> = settled.iter().map(|(.., id)| *id).collect();
        *ids = settled.iter().map(|(_, _, own, _)| *own).collect();
        Action::Take(match self.random.u32(..6) {
            0 | 1 if from != Source::Set => {
                self.taken.extend(settled);
                let at_most = self.random.u32(1..3);
                TakeOp::Take { from, at_most, bytes: 1 << 20, lease: LONG, once: once(LONG), done: Vec::new() }
            }
            2 | 3 => {
                let ends = [TakeEnd::Done, TakeEnd::Undelivered, TakeEnd::Again];
                TakeOp::Settle { from, ids: of_memory, end: ends[self.random.usize(..3)] }
            }
            4 => {
                self.taken.extend(settled);
                TakeOp::Extend { from, ids: of_memory, lease: Duration::from_secs(1) }
            }
            5 if from != Source::Set => {
                self.taken.extend(settled);
                TakeOp::Peek {
                    from,
                    skip: self.random.u32(0..3),
                    at_most: 3,
                    bytes: *self.random.choice(&[0, 3, u32::MAX]).expect("a number"),
                }
            }
            _ => {
                self.taken.extend(settled);
                TakeOp::Count(from)
            }
        })
    }

    fn sorted(&mut self, key: &bandog_core::Key, ids: &mut Vec<u64>) -> Action {
        let scores = |random: &mut Self| Scores { min: random.score(), max: random.score() };
        Action::Sorted(match self.random.u32(..12) {
            0 | 1 => SortedOp::Insert(self.some(|random| (random.score(), random.bytes()))),
            2 => SortedOp::InsertNew(self.score(), self.bytes()),
            3 => SortedOp::Add(self.bytes(), self.score()),
            4 => SortedOp::Remove(self.some(Self::bytes)),
            5 => SortedOp::Scores(self.some(Self::bytes)),
            6 => SortedOp::Rank(self.bytes(), self.end()),
            7 => SortedOp::Range(self.end(), self.index(), self.index()),
            8 => SortedOp::Between(scores(self), self.random.u32(1..4)),
            9 => SortedOp::RemoveBetween(scores(self)),
            10 => SortedOp::Count(scores(self)),
            _ => {
                let from = Source::Sorted(self.end());
                return self.taking(key, from, ids);
            }
        })
    }

    fn journal(&mut self, key: &bandog_core::Key, ids: &mut Vec<u64>) -> Action {
        let name = if self.random.bool() { "g" } else { "h" };
        Action::Journal(match self.random.u32(..14) {
            0..3 => {
                let once = self.random.bool().then(|| once(LONG));
                JournalOp::Append { entries: self.some(Self::bytes), keep: Keep::All, once }
            }
            3 => JournalOp::Range {
                from: EntryId::MIN,
                to: EntryId::MAX,
                at_most: self.random.u32(1..9),
                bytes: u32::MAX,
            },
            4 => JournalOp::Trim(Keep::Newest(self.random.u64(..9))),
            5 => JournalOp::Len,
            6 => {
                let start = if self.random.bool() { Start::Oldest } else { Start::Newest };
                JournalOp::OpenGroup(name.into(), start)
            }
            7 if self.random.u32(..4) == 0 => {
                self.taken.retain(|(of, from, ..)| of != key || *from != Source::Group(name.into()));
                JournalOp::RemoveGroup(name.into())
            }
            8 => JournalOp::Groups,
            _ => return self.taking(key, Source::Group(name.into()), ids),
        })
    }

    fn multimap(&mut self) -> MultimapOp {
        match self.random.u32(..8) {
            0 | 1 => MultimapOp::Insert(self.bytes(), self.bytes()),
            2 => MultimapOp::Remove(self.bytes(), self.bytes()),
            3 => MultimapOp::RemoveAll(self.bytes()),
            4 => MultimapOp::Get(self.bytes()),
            5 => MultimapOp::Contains(self.bytes(), self.bytes()),
            6 => MultimapOp::Len,
            _ => MultimapOp::KeysLen,
        }
    }

    fn bits(&mut self, bits: bandog_core::Key, value: bandog_core::Key) -> Action {
        Action::Bits(match self.random.u32(..9) {
            0 => BitsOp::Get(self.some(|random| random.random.u64(..40))),
            1 | 2 => BitsOp::Set(self.some(|random| random.random.u64(..40)), self.random.bool()),
            3 => {
                let from = self.random.u64(..30);
                BitsOp::SetRange(from, from + self.random.u64(..20), self.random.bool())
            }
            4 => BitsOp::Count,
            5 => BitsOp::Len,
            6 => {
                let hows = [BitCombine::And, BitCombine::Or, BitCombine::Xor];
                BitsOp::Combine(hows[self.random.usize(..3)], vec![if self.random.bool() { bits } else { value }])
            }
            7 => BitsOp::Not,
            _ => {
                let is_signed = self.random.bool();
                let field = BitField { offset: self.random.u64(..20), width: self.random.u32(1..64), is_signed };
                let ops = [FieldOp::Get, FieldOp::Set(self.random.i64(..)), FieldOp::Add(self.random.i64(..))];
                BitsOp::Field(field, ops[self.random.usize(..3)])
            }
        })
    }
}
