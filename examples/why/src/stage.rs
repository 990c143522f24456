//! The time line of a scene, and the facts from which its last line is computed.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use crate::section::Section;
use crate::stock::Stock;
use crate::verdict::{Verdict, times};

/// Prints what happens in a scene, and counts it.
pub(crate) struct Stage {
    began: Instant,
    facts: Mutex<Facts>,
}

/// What happened so far.
#[derive(Default)]
pub(crate) struct Facts {
    pub(crate) section: Section,
    pub(crate) stock: Stock,
    /// How often the report of a tick was begun, and sent.
    pub(crate) reports: BTreeMap<String, (u32, u32)>,
    /// How often each fence was granted.
    pub(crate) grants: BTreeMap<u64, u32>,
    /// The number of guards that have reported a loss.
    pub(crate) losses: u32,
    /// A replica that could not get the lock, although no replica was in the section.
    pub(crate) shut_out: Option<String>,
}

impl Stage {
    pub(crate) fn new() -> Self {
        Self { began: Instant::now(), facts: Mutex::default() }
    }

    /// Prints a line of the time line.
    pub(crate) fn say(&self, who: &str, what: impl AsRef<str>) {
        println!("{:>5.2}  {who}: {}", self.began.elapsed().as_secs_f64(), what.as_ref());
    }

    /// An unpaid order. Its stock must be returned once.
    pub(crate) fn unpaid(&self, order: u32) {
        self.facts().stock.unpaid(order);
    }

    /// A replica enters the section, and reads which order is unpaid.
    pub(crate) fn enter(&self, name: &'static str) -> Visit<'_> {
        let (order, others) = {
            let mut facts = self.facts();
            (facts.stock.first_unpaid(), facts.section.enter(name))
        };
        let read = order.map_or("no order is unpaid".into(), |order| format!("order {order} is unpaid"));
        self.say(name, format!("enters the section{}, and reads: {read}", beside(&others)));
        Visit { stage: self, name, order }
    }

    /// A replica enters the section, and has read the state of order 7 in a database.
    pub(crate) fn enter_shop(&self, name: &'static str, state: &str) -> Visit<'_> {
        let others = self.facts().section.enter(name);
        self.say(name, format!("enters the section{}, and reads: order 7 is {state}", beside(&others)));
        Visit { stage: self, name, order: None }
    }

    /// A replica begins the report of a tick.
    pub(crate) fn begin_report(&self, name: &'static str, tick: &str) {
        let mut facts = self.facts();
        facts.reports.entry(tick.to_owned()).or_default().0 += 1;
        let others = facts.section.enter(name);
        drop(facts);
        self.say(name, format!("begins the report of {tick}{}", beside(&others)));
    }

    /// A replica sends the report that it has begun.
    pub(crate) fn send_report(&self, name: &'static str, tick: &str) {
        let mut facts = self.facts();
        facts.reports.entry(tick.to_owned()).or_default().1 += 1;
        facts.section.leave(name);
        drop(facts);
        self.say(name, format!("sends the report of {tick}"));
    }

    /// A process is killed.
    pub(crate) fn killed(&self, name: &'static str) {
        self.facts().section.leave(name);
        self.say(name, "is killed");
    }

    /// A lock was granted with this fence.
    pub(crate) fn granted(&self, fence: u64) {
        *self.facts().grants.entry(fence).or_default() += 1;
    }

    /// The guard of a replica has reported that the lock is lost.
    pub(crate) fn reported_loss(&self) {
        self.facts().losses += 1;
    }

    /// A replica cannot get the lock, although no replica is in the section.
    pub(crate) fn shut_out(&self, name: &str, what: impl AsRef<str>) {
        self.say(name, what);
        let mut facts = self.facts();
        if facts.section.is_empty() {
            facts.shut_out = Some(name.to_owned());
        }
    }

    /// The stock of an order was returned in a database, as often as the database says.
    pub(crate) fn counted(&self, order: u32, returned: u32, refused: u32) {
        self.facts().stock.counted(order, returned, refused);
    }

    /// The result of the scene.
    pub(crate) fn verdict(&self) -> Verdict {
        Verdict::of(&self.facts())
    }

    fn facts(&self) -> MutexGuard<'_, Facts> {
        self.facts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The time from the entry of a replica into the section until it leaves.
pub(crate) struct Visit<'a> {
    stage: &'a Stage,
    name: &'static str,
    /// The unpaid order that the replica has read.
    order: Option<u32>,
}

impl Visit<'_> {
    /// Closes the order and returns its stock, as a service does that trusts its lock.
    pub(crate) fn give_back(&self) {
        self.write(None);
    }

    /// The same with a fence, which the table compares with the greatest one that it has seen.
    pub(crate) fn give_back_under(&self, fence: u64) {
        self.write(Some(fence));
    }

    fn write(&self, fence: Option<u64>) {
        let Some(order) = self.order else { return };
        let written = self.stage.facts().stock.give_back(order, fence);
        let under = fence.map_or(String::new(), |fence| format!(" under fence {fence}"));
        let what = match written {
            Ok(returned) => format!("returns the stock of order {order}{under}: returned {}", times(returned)),
            Err(greatest) => format!("the table refuses its write{under}: it has seen fence {greatest}"),
        };
        self.stage.say(self.name, what);
    }

    /// The replica is killed inside the section.
    pub(crate) fn dies(self) {
        self.stage.say(self.name, "is killed");
    }
}

impl Drop for Visit<'_> {
    fn drop(&mut self) {
        self.stage.facts().section.leave(self.name);
    }
}

/// The other replicas that are inside, for the time line.
fn beside(others: &[&str]) -> String {
    if others.is_empty() { String::new() } else { format!(" beside {}", others.join(" and ")) }
}
