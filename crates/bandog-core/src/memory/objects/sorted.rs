//! Sorted sets.

use std::{
    cmp::Ordering,
    collections::{BTreeMap, BTreeSet},
};

use super::terms::range;
use crate::{
    Error, Result,
    structures::{Bytes, End, Reply, Scores, SortedOp},
};

/// Members with their scores, by member and by score.
#[derive(Debug, Default)]
pub(super) struct Sorted {
    scores: BTreeMap<Bytes, f64>,
    order: BTreeSet<Place>,
}

/// A member in the order of the scores.
#[derive(Debug, Clone)]
struct Place(f64, Bytes);

impl Sorted {
    pub(super) fn len(&self) -> usize {
        self.scores.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.scores.is_empty()
    }

    /// Members with their scores, in their order.
    pub(super) fn iter(&self) -> impl DoubleEndedIterator<Item = (&Bytes, f64)> + ExactSizeIterator {
        self.order.iter().map(|Place(score, member)| (member, *score))
    }

    pub(super) fn contains(&self, member: &Bytes) -> bool {
        self.scores.contains_key(member)
    }

    /// Writes the score of a member, and returns whether the member is new.
    pub(super) fn insert(&mut self, score: f64, member: &Bytes) -> bool {
        let score = score + 0.0; // -0 and 0 are one score.
        let former = self.scores.insert(member.clone(), score);
        former.map(|former| self.order.remove(&Place(former, member.clone())));
        self.order.insert(Place(score, member.clone()));
        former.is_none()
    }

    pub(super) fn remove(&mut self, member: &Bytes) -> Option<f64> {
        let score = self.scores.remove(member)?;
        self.order.remove(&Place(score, member.clone()));
        Some(score)
    }

    /// Removes the member at an end.
    pub(super) fn pop(&mut self, end: End) -> Option<(Bytes, f64)> {
        let Place(score, member) = match end {
            End::Front => self.order.pop_first(),
            End::Back => self.order.pop_last(),
        }?;
        self.scores.remove(&member);
        Some((member, score))
    }

    fn between(&self, Scores { min, max }: Scores) -> impl Iterator<Item = &Place> {
        self.order.iter().filter(move |Place(score, _)| min <= *score && *score <= max)
    }

    /// The members of a range of positions from an end.
    pub(super) fn slice(&self, end: End, from: i64, to: i64) -> Vec<(Bytes, f64)> {
        let range = range(self.len(), from, to);
        let of = |(member, score): (&Bytes, f64)| (member.clone(), score);
        match end {
            End::Front => self.iter().skip(range.start).take(range.len()).map(of).collect(),
            End::Back => self.iter().rev().skip(range.start).take(range.len()).map(of).collect(),
        }
    }

    pub(super) fn apply(&mut self, op: &SortedOp) -> Result<Reply> {
        Ok(match op {
            SortedOp::Insert(members) => {
                members.iter().try_for_each(|(score, _)| number(*score).map(|_| ()))?;
                Reply::Int(members.iter().filter(|(score, member)| self.insert(*score, member)).count() as i64)
            }
            SortedOp::InsertNew(score, member) => {
                let score = number(*score)?;
                let is_new = !self.scores.contains_key(member);
                Reply::Flag(is_new && self.insert(score, member))
            }
            SortedOp::Add(member, by) => {
                let sum = number(self.scores.get(member).copied().unwrap_or(0.0) + by)?;
                self.insert(sum, member);
                Reply::Float(sum + 0.0)
            }
            SortedOp::Remove(members) => {
                Reply::Int(members.iter().filter(|member| self.remove(member).is_some()).count() as i64)
            }
            SortedOp::Scores(members) => {
                Reply::Scores(members.iter().map(|member| self.scores.get(member).copied()).collect())
            }
            SortedOp::Rank(member, end) => {
                let position = self.order.iter().position(|Place(_, other)| other == member);
                Reply::Index(position.map(|position| match end {
                    End::Front => position as u64,
                    End::Back => (self.len() - 1 - position) as u64,
                }))
            }
            SortedOp::Range(end, from, to) => Reply::Scored(self.slice(*end, *from, *to)),
            SortedOp::Between(scores, at_most) => {
                let members = self.between(*scores).take(*at_most as usize);
                Reply::Scored(members.map(|Place(score, member)| (member.clone(), *score)).collect())
            }
            SortedOp::RemoveBetween(scores) => {
                let members: Vec<_> = self.between(*scores).map(|Place(_, member)| member.clone()).collect();
                members.iter().for_each(|member| _ = self.remove(member));
                Reply::Int(members.len() as i64)
            }
            SortedOp::Count(scores) => Reply::Int(self.between(*scores).count() as i64),
            SortedOp::Len => Reply::Int(self.len() as i64),
        })
    }
}

/// The score, if it is a number.
fn number(score: f64) -> Result<f64> {
    if score.is_nan() { Err(Error::misused("a score must not be NaN")) } else { Ok(score) }
}

impl Ord for Place {
    fn cmp(&self, Self(score, member): &Self) -> Ordering {
        self.0.total_cmp(score).then_with(|| self.1.cmp(member))
    }
}

impl PartialOrd for Place {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Place {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Place {}
