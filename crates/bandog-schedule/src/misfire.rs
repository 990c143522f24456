//! Decides what happens to the ticks since the last claim: they run, or they are caught up, skipped or missed. The
//! misfire grace of a job is the allowed delay of a claim. If no node has claimed a tick within this time, the tick is
//! missed (a misfire).

use bandog_cron::Time;

use crate::{
    CatchUp, Kind,
    policy::Policy,
    trigger::{TickCursor, Trigger, UnixMs, duration_ms},
};

/// Maximum number of ticks that one call of [`due_ticks`] examines one by one.
const MAX_VISITED: usize = 100_000;

/// The ticks since the last claim.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct DueTicks {
    /// The ticks that run, the oldest first.
    pub(crate) run: Vec<(UnixMs, Kind)>,
    /// The ticks that were due while the last run was under way. No node has claimed them.
    pub(crate) overlapped: Vec<UnixMs>,
    /// The ticks that never run.
    pub(crate) missed: TickRange,
    /// The last of all these ticks. It becomes the new watermark (the newest tick that was ever claimed).
    pub(crate) last: Option<UnixMs>,
}

/// A range of ticks that is recorded as one line and logged as one line.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct TickRange {
    pub(crate) first: Option<UnixMs>,
    pub(crate) last: UnixMs,
    pub(crate) ticks: u64,
}

impl TickRange {
    /// All ticks after the watermark up to the time `until`. There might be very many. So they are counted, but not
    /// examined one by one.
    pub(crate) fn until(trigger: &Trigger, cursor: TickCursor, until: UnixMs) -> Self {
        let Some(first) = trigger.next(cursor).filter(|first| *first <= until) else { return Self::default() };
        match trigger {
            Trigger::FixedRate(period) => {
                let more = (until - first) / period;
                Self { first: Some(first), last: first + more * period, ticks: more.unsigned_abs() + 1 }
            }
            Trigger::Cron(cron) => {
                let (from, to) = (Time::from_millisecond(cursor.watermark), Time::from_millisecond(until));
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

    pub(crate) fn add(&mut self, tick: UnixMs) {
        self.first = Some(self.first.map_or(tick, |first| first.min(tick)));
        self.last = if self.ticks == 0 { tick } else { self.last.max(tick) };
        self.ticks += 1;
    }

    /// Adds the ticks of another range.
    pub(crate) fn join(&mut self, other: Self) {
        let Some(first) = other.first else { return };
        self.first = Some(self.first.map_or(first, |mine| mine.min(first)));
        self.last = if self.ticks == 0 { other.last } else { self.last.max(other.last) };
        self.ticks += other.ticks;
    }
}

/// The planned start of a tick: the tick plus a part of the job's jitter. All nodes compute the same time, because the
/// part depends on the job's name and the tick only.
pub(crate) fn due_time(name: &str, policy: &Policy, tick: UnixMs) -> UnixMs {
    let jitter = duration_ms(policy.jitter);
    if jitter == 0 {
        return tick;
    }
    let hash = name
        .bytes()
        .chain(tick.to_le_bytes())
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3));
    // The high bits of an FNV-1a hash are more evenly distributed than the low bits, so they are mixed into the low
    // bits.
    let spread = (hash ^ (hash >> 32)) % jitter.unsigned_abs();
    tick.saturating_add_unsigned(spread)
}

/// Skips the ticks after the watermark up to `too_old`. These ticks are so old that no policy runs them, for example
/// after an outage of days or years. Returns these ticks as missed, and the cursor after them. `busy`: the start and
/// the end of the last run. If a tick might overlap with that run, this function skips nothing, because an overlapped
/// tick is not missed.
fn skip_old_ticks(
    trigger: &Trigger,
    cursor: TickCursor,
    busy: Option<(UnixMs, UnixMs)>,
    too_old: UnixMs,
) -> (DueTicks, TickCursor) {
    // Whether the trigger can have many ticks.
    let is_many = matches!(trigger, Trigger::Cron(_) | Trigger::FixedRate(_));
    let may_overlap = busy.is_some_and(|(_, ended)| ended > cursor.watermark);
    if !is_many || may_overlap {
        return (DueTicks::default(), cursor);
    }
    let missed = TickRange::until(trigger, cursor, too_old);
    let last = Some(missed.last).filter(|_| missed.ticks > 0);
    let cursor = TickCursor { watermark: last.unwrap_or(cursor.watermark), ..cursor };
    (DueTicks { missed, last, ..DueTicks::default() }, cursor)
}

/// Decides what happens to each tick that is after the watermark and is due now. `busy`: the start and the end of the
/// last run.
pub(crate) fn due_ticks(
    name: &str,
    trigger: &Trigger,
    policy: &Policy,
    cursor: TickCursor,
    busy: Option<(UnixMs, UnixMs)>,
    now: UnixMs,
) -> DueTicks {
    // A tick that is due at or after `in_time` runs normally. A tick that is due at or after `in_window` can be caught
    // up.
    let in_time =
        if trigger.has_one_tick() { UnixMs::MIN } else { now.saturating_sub(duration_ms(policy.misfire_grace)) };
    let in_window = now.saturating_sub(duration_ms(policy.window));
    let too_old = in_time.min(in_window).saturating_sub(duration_ms(policy.jitter).max(1));
    let (mut ticks, cursor) = skip_old_ticks(trigger, cursor, busy, too_old);
    let mut late = Vec::new();
    for (nth, tick) in trigger.between(cursor, cursor.watermark, now).enumerate() {
        // With jitter, a tick is due later than its nominal time. The age of the tick is measured from this later time.
        let due = due_time(name, policy, tick);
        if due > now {
            break;
        }
        ticks.last = Some(tick);
        let is_overlapped = busy.is_some_and(|(began, ended)| began < due && due <= ended);
        if is_overlapped {
            ticks.overlapped.push(tick);
        } else if due >= in_time {
            ticks.run.push((tick, Kind::Scheduled));
        } else if due >= in_window {
            late.push(tick);
        } else {
            ticks.missed.add(tick);
        }
        if nth + 1 >= MAX_VISITED {
            // The caller plans again immediately and examines the remaining ticks. Only the latest ticks are caught up,
            // and these are among the remaining ticks. So the late ticks of this call are missed.
            late.drain(..).for_each(|tick| ticks.missed.add(tick));
            break;
        }
    }
    let caught = match policy.catch_up {
        CatchUp::Skip => 0,
        // A tick that is still in time does the work of the missed ticks too.
        CatchUp::Once => usize::from(ticks.run.is_empty()),
        CatchUp::All(max) => usize::try_from(max.get()).unwrap_or(usize::MAX),
    };
    let (left_out, caught) = late.split_at(late.len().saturating_sub(caught));
    left_out.iter().for_each(|tick| ticks.missed.add(*tick));
    ticks.run.splice(0..0, caught.iter().map(|tick| (*tick, Kind::CatchUp)));
    ticks
}
