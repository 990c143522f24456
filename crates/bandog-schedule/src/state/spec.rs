//! The settings of a job in its record, and the differences between two replicas' settings.

use std::sync::Arc;

use bandog_cron::{Cron, DayMatch, Daylight, Dialect, Rules, Zone};
use serde::{Deserialize, Serialize};

use crate::{
    policy::Policy,
    trigger::{DurationMs, Trigger, UnixMs, duration_ms},
};

/// The settings of a job in its record. The methods of [`crate::Job`] describe the settings. Processes that do not have
/// the job's code, such as the `bandog` command, read the settings from there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct JobSpec {
    pub(crate) trigger: TriggerSpec,
    pub(crate) enabled: bool,
    pub(crate) revision: u64,
    pub(crate) lease_ms: DurationMs,
    pub(crate) overlap: String,
    pub(crate) catch_up: String,
    pub(crate) on_crash: String,
    pub(crate) jitter_ms: DurationMs,
}

/// The trigger of a job in its record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum TriggerSpec {
    Cron {
        text: String,
        dialect: String,
        zone: String,
        /// The `day_match` of the job. None if the job uses the default. In the same way, `daylight` is none if the job
        /// uses the default.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        days: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        daylight: Option<String>,
    },
    FixedRate(DurationMs),
    FixedDelay(DurationMs),
    At(UnixMs),
    Once,
    Never,
}

impl TriggerSpec {
    /// The settings of a cron trigger.
    pub(super) fn cron(cron: &Cron) -> Self {
        let rules = cron.rules();
        // The `daylight` that the expression has by default.
        let usual = Cron::parse_with(cron.text(), rules).ok().map(|cron| cron.daylight());
        Self::Cron {
            text: cron.text().to_owned(),
            dialect: rules.dialect().to_string(),
            zone: cron.zone().to_string(),
            days: rules.day_match().map(|days| days.to_string()),
            daylight: Some(cron.daylight())
                .filter(|daylight| Some(*daylight) != usual)
                .map(|daylight| daylight.to_string()),
        }
    }
}

impl JobSpec {
    pub(crate) fn new(trigger: &Trigger, policy: &Policy) -> Self {
        let trigger = match trigger {
            Trigger::Cron(cron) => TriggerSpec::cron(cron),
            Trigger::FixedRate(period) => TriggerSpec::FixedRate(*period),
            Trigger::FixedDelay(delay) => TriggerSpec::FixedDelay(*delay),
            Trigger::At(time) => TriggerSpec::At(*time),
            Trigger::Once => TriggerSpec::Once,
            Trigger::Never => TriggerSpec::Never,
        };
        Self {
            trigger,
            enabled: policy.enabled,
            revision: policy.revision,
            lease_ms: duration_ms(policy.lease),
            overlap: policy.overlap.to_string(),
            catch_up: policy.catch_up.to_string(),
            on_crash: policy.on_crash.to_string(),
            jitter_ms: duration_ms(policy.jitter),
        }
    }

    /// The trigger. None if another version of bandog wrote a trigger that this version cannot read.
    pub(crate) fn trigger(&self) -> Option<Trigger> {
        Some(match &self.trigger {
            TriggerSpec::Cron { text, dialect, zone, days, daylight } => {
                let dialect: Dialect = dialect.parse().ok()?;
                let rules: Rules = match days {
                    Some(days) => dialect.days(days.parse::<DayMatch>().ok()?),
                    None => dialect.into(),
                };
                let cron = Cron::parse_with(text, rules).ok()?.in_zone(Zone::named(zone).ok()?);
                Trigger::Cron(Arc::new(match daylight {
                    Some(daylight) => cron.on_daylight(daylight.parse::<Daylight>().ok()?),
                    None => cron,
                }))
            }
            // Only a damaged record has a period of zero or less.
            TriggerSpec::FixedRate(period) | TriggerSpec::FixedDelay(period) if *period <= 0 => return None,
            TriggerSpec::FixedRate(period) => Trigger::FixedRate(*period),
            TriggerSpec::FixedDelay(delay) => Trigger::FixedDelay(*delay),
            TriggerSpec::At(time) => Trigger::At(*time),
            TriggerSpec::Once => Trigger::Once,
            TriggerSpec::Never => Trigger::Never,
        })
    }

    /// Lists the differences between these settings and the new settings (`other`), for example
    /// `trigger: cron 0 * * * * ? (quartz, UTC) -> fixed_rate 5s`.
    pub(crate) fn change_to(&self, other: &Self) -> String {
        let settings = [
            ("trigger", self.trigger_text(), other.trigger_text()),
            ("enabled", self.enabled.to_string(), other.enabled.to_string()),
            ("lease", ms(self.lease_ms), ms(other.lease_ms)),
            ("overlap", self.overlap.clone(), other.overlap.clone()),
            ("catch_up", self.catch_up.clone(), other.catch_up.clone()),
            ("on_crash", self.on_crash.clone(), other.on_crash.clone()),
            ("jitter", ms(self.jitter_ms), ms(other.jitter_ms)),
        ];
        let changed = settings.into_iter().filter(|(_, old, new)| old != new);
        changed.map(|(what, old, new)| format!("{what}: {old} -> {new}")).collect::<Vec<_>>().join(", ")
    }

    /// The trigger in one line. A cron expression is followed by its dialect, its zone, and the settings that differ
    /// from the default.
    fn trigger_text(&self) -> String {
        if let TriggerSpec::Cron { text, dialect, zone, days, daylight } = &self.trigger {
            let rules = [Some(dialect), Some(zone), days.as_ref(), daylight.as_ref()];
            let rules: Vec<&str> = rules.into_iter().flatten().map(String::as_str).collect();
            return format!("cron {text} ({})", rules.join(", "));
        }
        self.trigger().map_or_else(String::new, |trigger| trigger.text())
    }
}

fn ms(time: DurationMs) -> String {
    format!("{time} ms")
}
