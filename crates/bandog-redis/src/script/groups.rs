//! Groups steps and renewals into commands.

use std::collections::BTreeMap;

use bandog_core::{Claim, Kind, Step};

use crate::options::{Format, Layout, Semaphores};

/// The steps or renewals that one command sends, as positions in the list of all steps or renewals. A group of steps
/// contains releases only, or claims and passes only, or one release of a fair lock and the next claim of this lock. (A
/// pass gives a lock of one claim to another claim.) All claims of a group need the same scripts.
pub(crate) type Group = Vec<usize>;

/// The scripts that a kind of lock needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ScriptsOf {
    Mutex,
    Setnx,
    Fair,
    ReadWrite,
    Semaphore,
    Plain,
}

impl ScriptsOf {
    pub(super) fn of(kind: Kind, format: Format) -> Self {
        match (kind, format.layout, format.semaphores) {
            (Kind::Mutex, Layout::Redisson, _) => Self::Mutex,
            (Kind::Mutex, Layout::Setnx, _) => Self::Setnx,
            (Kind::Fair, ..) => Self::Fair,
            (Kind::Read | Kind::Write, ..) => Self::ReadWrite,
            (Kind::Permits { .. }, _, Semaphores::Leased) => Self::Semaphore,
            (Kind::Permits { .. }, _, Semaphores::Plain) => Self::Plain,
        }
    }
}

/// Groups the steps that have no answer yet into commands: for each set of scripts, one command for all releases, and
/// one command for all claims and passes. This grouping halves the server's work for each step. But the steps run in
/// another order, which is allowed for steps with different keys. If any two steps have the same key, each step of the
/// call gets its own command, in the original order. But one command releases a fair lock and then claims it.
///
/// On a cluster, each step has a command of its own, also if locks have the same slot: while the slot moves, a command
/// that has locks at both nodes is refused.
pub(crate) fn groups<T>(steps: &[Step], answers: &[Option<T>], format: Format) -> Vec<Group> {
    let mut keys: Vec<_> = steps.iter().map(|step| step.key().as_str()).collect();
    keys.sort_unstable();
    let positions = (0..steps.len()).filter(|position| answers[*position].is_none());
    if keys.windows(2).any(|pair| pair[0] == pair[1]) {
        return one_by_one(steps, positions);
    }
    let is_claim = |position: &usize| !matches!(steps[*position], Step::Release(_));
    grouped(positions, |position| {
        let step = &steps[*position];
        (is_claim(position), ScriptsOf::of(step.kind(), format), alone(*position, format))
    })
}

/// A command for each of these positions, or for two of them: a release of a fair lock and the next claim of it.
fn one_by_one(steps: &[Step], positions: impl Iterator<Item = usize>) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for position in positions {
        match groups.last_mut() {
            Some(group) if group.len() == 1 && is_next(&steps[group[0]], &steps[position]) => group.push(position),
            _ => groups.push(vec![position]),
        }
    }
    groups
}

/// Whether the first step releases a fair lock, and the second one claims it.
fn is_next(first: &Step, second: &Step) -> bool {
    match (first, second) {
        (Step::Release(from), Step::Claim(to)) => {
            from.kind == Kind::Fair && to.kind == Kind::Fair && from.key == to.key
        }
        _ => false,
    }
}

/// The position, if its lock needs a command of its own.
fn alone(position: usize, format: Format) -> Option<usize> {
    format.in_cluster.then_some(position)
}

/// Groups the renewals of these claims into commands. Each command renews at most `max_per_call` claims.
pub(crate) fn renewal_groups(claims: &[Claim], max_per_call: usize, format: Format) -> Vec<Group> {
    let groups = grouped(0..claims.len(), |position| {
        let claim = &claims[*position];
        (ScriptsOf::of(claim.kind, format), alone(*position, format))
    });
    groups.iter().flat_map(|group| group.chunks(max_per_call)).map(<[usize]>::to_vec).collect()
}

/// Groups the positions by this property.
fn grouped<P: Ord>(positions: impl Iterator<Item = usize>, property: impl Fn(&usize) -> P) -> Vec<Group> {
    let mut groups = BTreeMap::<P, Group>::new();
    for position in positions {
        groups.entry(property(&position)).or_default().push(position);
    }
    groups.into_values().collect()
}
