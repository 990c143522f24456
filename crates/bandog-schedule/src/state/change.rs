//! Differences between two replicas' settings of one job, for the log.

use super::{JobSpec, TriggerSpec};

impl JobSpec {
    /// Lists the differences, such as `trigger: cron 0 * * * * ? (quartz, UTC) -> fixed_rate 5s`.
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

    fn trigger_text(&self) -> String {
        if let TriggerSpec::Cron { text, dialect, zone, days, daylight } = &self.trigger {
            let rules = [Some(dialect), Some(zone), days.as_ref(), daylight.as_ref()];
            let rules: Vec<&str> = rules.into_iter().flatten().map(String::as_str).collect();
            return format!("cron {text} ({})", rules.join(", "));
        }
        self.trigger().map_or_else(String::new, |trigger| trigger.text())
    }
}

fn ms(time: super::DurationMs) -> String {
    format!("{time} ms")
}
