//! The figures that the kinds must reach beside Redisson.

use super::{Kind, Load, Sample, Samples, Side, rows};
use crate::report::{Report, Wanted};

pub(super) fn judge(report: &mut Report, samples: &Samples) {
    let beside = |kind, side| samples.ratio((kind, Load::OneName, side), (kind, Load::OneName, Side::Redisson));
    report.judge("fair, 64 on one name, beside Redisson", Wanted::AtLeast(4.0), beside(Kind::Fair, Side::DEFAULT));
    for side in Side::OURS {
        let ratio = samples.ratio((Kind::Read, Load::OneName, side), (Kind::Mutex, Load::OwnNames, side));
        let what = format!("64 readers of one name, beside mutexes with a name each, {}", side.name());
        report.judge(&what, Wanted::AtLeast(1.0), ratio);
    }
    report.judge(
        "64 readers of one name on the current runtime, beside Redisson",
        Wanted::AtLeast(20.0),
        beside(Kind::Read, Side::ON_CURRENT_RUNTIME),
    );
    let semaphore = beside(Kind::Semaphore, Side::DEFAULT);
    report.judge("semaphore, 64 workers and 8 permits, beside Redisson", Wanted::AtLeast(5.0), semaphore);
    for (kind, load) in rows() {
        let row = format!("{}, {}", kind.name(), load.name());
        let requests = |side| samples.requests.get(&(kind, load, side)).copied();
        let commands = |side| samples.median(kind, load, side, Sample::commands);
        below(report, &format!("requests a cycle: {row}"), requests(Side::DEFAULT), requests(Side::Redisson));
        let what = format!("commands a cycle, also those inside scripts: {row}");
        below(report, &what, commands(Side::DEFAULT), commands(Side::Redisson));
    }
}

fn below(report: &mut Report, what: &str, ours: Option<f64>, theirs: Option<f64>) {
    report.judge(what, Wanted::Below(theirs.unwrap_or(f64::NAN)), theirs.and(ours));
}
