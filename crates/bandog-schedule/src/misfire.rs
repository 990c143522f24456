//! Which ticks run that came since the last claim, and which do not.

use bandog_cron::Time;

use crate::{
    CatchUp, Kind,
    policy::Policy,
    trigger::{Ms, Place, Trigger, millis},
};

/// So many ticks are looked at in one round.
const LOOKED_AT: usize = 100_000;

/// The ticks since the last claim.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Since {
    /// Those that run, in order.
    pub(crate) run: Vec<(Ms, Kind)>,
    /// Those that came while the job ran, though nobody claimed them then.
    pub(crate) overlapped: Vec<Ms>,
    /// Those that nobody will run.
    pub(crate) missed: Range,
    /// The last one of all: the new watermark.
    pub(crate) last: Option<Ms>,
}

/// Ticks that are told of as one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Range {
    pub(crate) first: Option<Ms>,
    pub(crate) last: Ms,
    pub(crate) ticks: u64,
}

impl Range {
    /// All ticks after the watermark up to this time. They are counted, and not visited one by one: there may be very
    /// many.
    pub(crate) fn until(trigger: &Trigger, place: Place, until: Ms) -> Self {
        let Some(first) = trigger.next(place).filter(|first| *first <= until) else { return Self::default() };
        match trigger {
            Trigger::FixedRate(period) => {
                let more = (until - first) / period;
                Self { first: Some(first), last: first + more * period, ticks: more.unsigned_abs() + 1 }
            }
            Trigger::Cron(cron) => {
                let (from, to) = (Time::from_millisecond(place.watermark), Time::from_millisecond(until));
                let last = cron.prev(Time::from_millisecond(until.saturating_add(1)));
                let ticks = cron.count_between(from, to, usize::MAX);
                let last = last.map_or(first, Time::millisecond);
                Self { first: Some(first), last, ticks: u64::try_from(ticks).unwrap_or(u64::MAX) }
            }
            Trigger::FixedDelay(_) | Trigger::At(_) | Trigger::Once | Trigger::Never => {
                Self { first: Some(first), last: first, ticks: 1 }
            }
        }
    }

    pub(crate) fn add(&mut self, tick: Ms) {
        self.first = Some(self.first.map_or(tick, |first| first.min(tick)));
        self.last = if self.ticks == 0 { tick } else { self.last.max(tick) };
        self.ticks += 1;
    }

    /// Takes in those of another range.
    pub(crate) fn join(&mut self, other: Self) {
        let Some(first) = other.first else { return };
        self.first = Some(self.first.map_or(first, |mine| mine.min(first)));
        self.last = if self.ticks == 0 { other.last } else { self.last.max(other.last) };
        self.ticks += other.ticks;
    }
}

/// When a tick is to start: the same on every node.
pub(crate) fn due(name: &str, policy: &Policy, tick: Ms) -> Ms {
    let jitter = millis(policy.jitter);
    if jitter == 0 {
        return tick;
    }
    let hash = name
        .bytes()
        .chain(tick.to_le_bytes())
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3));
    // The low bits of this hash (FNV-1a) are its good ones once the high ones are mixed in.
    let spread = (hash ^ (hash >> 32)) % jitter.unsigned_abs();
    tick.saturating_add_unsigned(spread)
}

/// The ticks after the watermark that no policy runs, after an outage of days or years, and the place after them.
fn too_late(trigger: &Trigger, place: Place, busy: Option<(Ms, Ms)>, late: Ms) -> (Since, Place) {
    let is_many = matches!(trigger, Trigger::Cron(_) | Trigger::FixedRate(_));
    let may_overlap = busy.is_some_and(|(_, ended)| ended > place.watermark);
    if !is_many || may_overlap {
        return (Since::default(), place);
    }
    let missed = Range::until(trigger, place, late);
    let last = Some(missed.last).filter(|_| missed.ticks > 0);
    let place = Place { watermark: last.unwrap_or(place.watermark), ..place };
    (Since { missed, last, ..Since::default() }, place)
}

/// Sorts the ticks after the watermark that are due by now.
pub(crate) fn since(
    name: &str,
    trigger: &Trigger,
    policy: &Policy,
    place: Place,
    busy: Option<(Ms, Ms)>,
    now: Ms,
) -> Since {
    let in_time = now.saturating_sub(millis(policy.misfire_grace));
    let in_window = now.saturating_sub(millis(policy.window));
    let late = in_time.min(in_window).saturating_sub(millis(policy.jitter).max(1));
    let (mut since, place) = too_late(trigger, place, busy, late);
    let mut late = Vec::new();
    for (nth, tick) in trigger.between(place, place.watermark, now).enumerate() {
        // A tick comes when its jitter has passed, so it is late from then on.
        let due = due(name, policy, tick);
        if due > now {
            break;
        }
        since.last = Some(tick);
        let is_overlapped = busy.is_some_and(|(began, ended)| began < due && due <= ended);
        if is_overlapped {
            since.overlapped.push(tick);
        } else if due >= in_time {
            since.run.push((tick, Kind::Scheduled));
        } else if due >= in_window {
            late.push(tick);
        } else {
            since.missed.add(tick);
        }
        if nth + 1 >= LOOKED_AT {
            // The rest is looked at in the next round, which follows at once; the latest missed ones are there.
            late.drain(..).for_each(|tick| since.missed.add(tick));
            break;
        }
    }
    let caught = match policy.catch_up {
        CatchUp::Skip => 0,
        CatchUp::Once => 1,
        CatchUp::All(max) => usize::try_from(max.get()).unwrap_or(usize::MAX),
    };
    let (left_out, caught) = late.split_at(late.len().saturating_sub(caught));
    left_out.iter().for_each(|tick| since.missed.add(*tick));
    since.run.splice(0..0, caught.iter().map(|tick| (*tick, Kind::CatchUp)));
    since
}
