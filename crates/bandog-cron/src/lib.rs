//! Cron expressions of Quartz, Spring and Unix: when they fire, and what they mean.
//!
//! ```
//! use bandog_cron::{Cron, Time, Zone};
//!
//! let cron: Cron = "0 15 10 ? * MON-FRI".parse()?;
//! let friday: Time = "2026-01-09T10:15:00Z".parse()?;
//! assert_eq!(cron.next(friday).unwrap().to_string(), "2026-01-12T10:15:00Z");
//! assert_eq!(cron.describe(), "At 10:15, Monday to Friday");
//!
//! let cron = cron.in_zone(Zone::named("Asia/Shanghai")?);
//! assert_eq!(cron.next(friday).unwrap().to_string(), "2026-01-12T02:15:00Z");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Three dialects
//!
//! | | [`Dialect::Quartz`] (default) | [`Dialect::Spring`] | [`Dialect::Unix`] |
//! |---|---|---|---|
//! | fields | second minute hour day month weekday \[year\] | second minute hour day month weekday | minute hour day month weekday |
//! | Sunday | `1` or `SUN` | `0`, `7` or `SUN` | `0`, `7` or `SUN` |
//! | Monday to Friday | `2-6` or `MON-FRI` | `1-5` or `MON-FRI` | `1-5` or `MON-FRI` |
//! | `?` | means "any", and is allowed in one of the two day fields | the same as `*`, and is allowed in both day fields | refused |
//! | both day fields restricted ([`DayMatch`] overrides this) | refused | both must match | one must match |
//! | `L W #` | yes | yes, but no `L-3W`; `L` alone only as a day of the month | no |
//! | ranges such as `22-2` | wrap around | refused | refused |
//! | macros such as `@daily` | yes | yes | yes |
//!
//! As a day of the month, `L` is the last day and `L-3` is three days before the last day. `15W` is the weekday (Monday
//! to Friday) nearest to the 15th, and `LW` is the last weekday. As a day of the week, `FRIL` is the last Friday of the
//! month and `FRI#2` is the second Friday.
//!
//! ```
//! use bandog_cron::{Cron, Dialect};
//!
//! let quartz = Cron::parse("0 0 9 ? * 2-6")?;
//! let spring = Cron::parse_with("0 0 9 * * 1-5", Dialect::Spring)?;
//! let unix = Cron::parse_with("0 9 * * 1-5", Dialect::Unix)?;
//! for cron in [quartz, spring, unix] {
//!     assert_eq!(cron.describe(), "At 09:00, Monday to Friday");
//! }
//! # Ok::<(), bandog_cron::ParseError>(())
//! ```
//!
//! # Daylight saving
//!
//! An expression follows real time if its hours are `*` or have a step, such as `0/2`. Such an expression does not fire
//! at a time that the clocks skip, and fires twice at a time that the clocks show twice.
//!
//! All other expressions are pinned to the wall clock: they fire once for each matching time of each matching date. If
//! the clocks show a matching time twice, the expression fires at the first of the two instants. If the clocks skip a
//! matching time, the expression fires at the first instant after the gap. If several matching times are in one gap,
//! the expression fires once for all of them.
//!
//! [`Cron::on_daylight`] chooses another rule for one expression.
//!
//! ```
//! use bandog_cron::{Cron, Time, Zone};
//!
//! let new_york = Zone::named("America/New_York")?;
//! let nightly = Cron::parse("0 30 2 * * ?")?.in_zone(new_york.clone());
//! let evening: Time = "2026-03-07T20:00:00-05:00".parse()?;
//! let fire = nightly.next(evening).unwrap();
//! assert_eq!(fire.at(&new_york).to_string(), "2026-03-08T03:00:00-04:00", "02:30 does not exist on this day");
//!
//! let half_hourly = Cron::parse("0 0/30 * * * ?")?.in_zone(new_york.clone());
//! let fire = half_hourly.next("2026-11-01T01:30:00-04:00".parse::<Time>()?).unwrap();
//! assert_eq!(fire.at(&new_york).to_string(), "2026-11-01T01:00:00-05:00", "01:00 comes twice");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Zones come from the table that is built into the program, so all replicas of one build have the same zones.
//! [`Zone::from_tzif`] makes a zone from other data. This crate reads no clock, and only [`Zone::of_system`] reads a file
//! and an environment variable.
//!
//! # Errors that help
//!
//! ```
//! use bandog_cron::Cron;
//!
//! let error = Cron::parse("0 0 24 * * ?").unwrap_err();
//! assert_eq!(error.to_string(), "hours, column 5: 24 is too large; allowed are 0 to 23");
//! assert_eq!(error.picture(), "0 0 24 * * ?\n    ^^ hours: 24 is too large; allowed are 0 to 23");
//! ```

mod calendar;
mod count;
mod cron;
mod describe;
mod dialect;
mod error;
mod field;
mod fields;
mod item;
mod next;
mod parse;
mod time;
mod word;
mod zone;

pub use cron::{Cron, Fires};
pub use describe::Language;
pub use dialect::{DayMatch, Daylight, Dialect, DialectError, Rules, WordError};
pub use error::{ParseError, Phrasing};
pub use field::Field;
pub use time::{Time, TimeError, Zoned};
pub use zone::{Zone, ZoneError};
