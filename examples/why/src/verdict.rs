//! The last line of a scene, computed from what happened.

use std::fmt;

use crate::stage::Facts;

/// Whether the shop is right after the scene, and the facts that decide it.
pub(crate) struct Verdict {
    holds: bool,
    facts: Vec<String>,
}

impl Verdict {
    pub(crate) fn of(facts: &Facts) -> Self {
        let mut verdict = Self { holds: true, facts: Vec::new() };
        verdict.judge_section(facts);
        for (fence, grants) in facts.grants.iter().filter(|(_, grants)| **grants > 1) {
            verdict.fault(format!("fence {fence} was granted {}", times(*grants)));
        }
        if facts.stock.refused() > 0 {
            verdict.fact(format!("{} refused", late_writes(facts.stock.refused())));
        }
        if facts.losses > 0 {
            verdict.fact(format!("{} reported", losses(facts.losses)));
        }
        if let Some(name) = &facts.shut_out {
            verdict.fault(format!("{name} cannot get the lock"));
        }
        for (order, returned) in facts.stock.returned() {
            let line = match returned {
                0 => format!("the stock of order {order} was never returned"),
                _ => format!("the stock of order {order} was returned {}", times(returned)),
            };
            verdict.add(line, returned == 1);
        }
        verdict.judge_reports(facts);
        verdict
    }

    /// Two replicas in the section are not a fault by themselves: a process that is paused inside cannot leave. What they
    /// write decides. Two replicas that run a report at the same time are one.
    fn judge_section(&mut self, facts: &Facts) {
        let (most, runs) = (facts.section.most(), !facts.reports.is_empty());
        match most {
            0 => self.fact("no replica was in the section".into()),
            1 => self.fact(format!("one replica at a time {}", if runs { "ran" } else { "was in the section" })),
            most if runs => self.fault(format!("{} replicas ran at the same time", number(most))),
            most => self.fact(format!("{} replicas were in the section at the same time", number(most))),
        }
    }

    /// The report of each tick must be sent once.
    fn judge_reports(&mut self, facts: &Facts) {
        let wrong: Vec<_> = facts.reports.iter().filter(|(_, (_, sent))| *sent != 1).collect();
        for (tick, (begun, sent)) in &wrong {
            let begun = if sent < begun { format!("begun {}, and ", times(*begun)) } else { String::new() };
            let sent = if *sent == 0 { "never sent".into() } else { format!("sent {}", times(*sent)) };
            self.fault(format!("the report of {tick} was {begun}{sent}"));
        }
        if wrong.is_empty() && !facts.reports.is_empty() {
            self.fact("each report was sent once".into());
        }
    }

    fn fact(&mut self, line: String) {
        self.add(line, true);
    }

    fn fault(&mut self, line: String) {
        self.add(line, false);
    }

    fn add(&mut self, line: String, is_right: bool) {
        self.holds &= is_right;
        self.facts.push(line);
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", if self.holds { "HOLDS" } else { "FAILS" }, self.facts.join("; "))
    }
}

/// `never`, `once`, `twice`, `three times`.
pub(crate) fn times(count: u32) -> String {
    match count {
        0 => "never".into(),
        1 => "once".into(),
        2 => "twice".into(),
        3 => "three times".into(),
        more => format!("{more} times"),
    }
}

fn number(count: usize) -> String {
    match count {
        2 => "two".into(),
        3 => "three".into(),
        more => more.to_string(),
    }
}

fn late_writes(count: u32) -> String {
    if count == 1 { "one late write was".into() } else { format!("{count} late writes were") }
}

fn losses(count: u32) -> String {
    if count == 1 { "the loss of the lock was".into() } else { format!("{count} losses of the lock were") }
}
