//! `bandog jobs forget`: jobs that are no more.

use std::{
    io::{self, Write},
    time::Duration,
};

use bandog::{ErrorKind, schedule::JobRow};
use serde::Serialize;

use super::{Common, Desk, confirm::confirm, nodes::Nodes};
use crate::{
    exit_code::ExitCode,
    fault::Fault,
    print,
    voice::{say, shown},
};

/// Removes a job from the store, with its history and the runs that wait; or all jobs that no scheduler has any more.
///
/// For jobs that no program has any more. A scheduler that still has the job brings it back at its next tick, or after a
/// day, as a new one without a history: take it out of the program or the file first.
///
/// `--unknown` forgets the jobs that no scheduler has had for `--older`: schedulers say once a day which jobs they have,
/// and `bandog jobs ls` marks those of which nobody has said so for two days. Left out are jobs that are paused by name,
/// and jobs of which runs wait. Nothing is ever forgotten by itself.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Fields of --json: job, forgotten (true); with --unknown an array of such objects, also when it fails halfway: of a job that \
was not forgotten, forgotten is false and why says why.

Exit codes: 0 it is forgotten, or no job is unknown for so long; 64 no such job, it runs now, nobody said yes, wrong URL; \
69 the store does not answer or is not there; 77 it refuses.

Examples:
  bandog jobs forget old-report
  bandog jobs forget old-report --yes       without being asked, as in a script
  bandog jobs forget --unknown              what no scheduler has had for 14 days, after a look at the names")]
pub(super) struct Args {
    /// The job's name.
    #[arg(required_unless_present = "unknown", conflicts_with = "unknown")]
    name: Option<String>,
    /// All jobs that no scheduler has any more.
    #[arg(long)]
    unknown: bool,
    /// For how long no scheduler has had them: at least 2d.
    #[arg(long, value_name = "DUR", default_value = "14d", value_parser = humantime::parse_duration, requires = "unknown")]
    older: Duration,
    /// Do not ask.
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    common: Common,
}

#[derive(Serialize)]
struct Object<'a> {
    job: &'a str,
    forgotten: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<String>,
}

impl<'a> Object<'a> {
    fn forgotten(job: &'a str) -> Self {
        Self { job, forgotten: true, why: None }
    }

    fn kept(job: &'a str, why: impl Into<String>) -> Self {
        Self { job, forgotten: false, why: Some(why.into()) }
    }
}

pub(super) fn run(args: &Args) -> Result<ExitCode, Fault> {
    match &args.name {
        Some(name) => one(args, name),
        None => unknown(args),
    }
}

fn one(args: &Args, name: &str) -> Result<ExitCode, Fault> {
    let Args { yes, common, .. } = args;
    Desk::ask(common, name, async |desk| {
        let is_on = match desk.jobs.show(name).await {
            Ok(job) => job.enabled,
            // What cannot be read can still be forgotten.
            Err(error) if error.kind() == ErrorKind::Corrupt => false,
            Err(error) => return Err(desk.fault(&error)),
        };
        if !yes {
            let (what, kept) = (format!("{name:?} and its history"), format!("{name:?} is kept"));
            confirm(("forget", "forgets"), &what, &kept, desk)?;
        }
        desk.jobs.forget(name).await.map_err(|error| desk.unsaid_of(&error, name))?;
        if Nodes::of(desk).await.known().is_some_and(|nodes| !nodes.is_empty()) && is_on {
            say(&format!(
                "schedulers run over this store: one that still has {name:?} brings it back at its next tick"
            ));
        }
        print::done(match common.json {
            true => print::json(&Object::forgotten(name)),
            false => writeln!(io::stdout(), "forgot {name:?}"),
        })
    })
}

fn unknown(args: &Args) -> Result<ExitCode, Fault> {
    let Args { older, yes, common, .. } = args;
    Desk::reach(common, async |desk| {
        let unknown = desk.jobs.unknown(*older).await.map_err(|error| desk.fault(&error))?;
        if !unknown.is_empty() && !yes {
            let since = |since: &Option<String>| shown(since.as_deref().unwrap_or_default());
            let told = |job: &JobRow| format!("{} (unknown since {})", shown(&job.name), since(&job.unknown_since));
            let names: Vec<String> = unknown.iter().map(told).collect();
            let what = format!("{} with their histories", names.join(", "));
            confirm(("forget", "forgets"), &what, "they are kept", desk)?;
        }
        // Those that were shown and no others, though more may be unknown by now.
        let names: Vec<&str> = unknown.iter().map(|job| job.name.as_str()).collect();
        let (objects, broke) = one_by_one(&names, async |name| {
            let forgotten = desk.jobs.forget_unknown(name, *older).await;
            forgotten.map_err(|error| desk.unsaid_of(&error, name))
        })
        .await;
        let forgotten: Vec<&str> = objects.iter().filter(|object| object.forgotten).map(|object| object.job).collect();
        let printed = match (common.json, &forgotten[..], &broke) {
            (true, ..) => print::json(&objects),
            (false, _, Some(_)) => Ok(()),
            (false, [], None) => {
                let older = humantime::format_duration(*older);
                writeln!(io::stdout(), "no job is one that no scheduler has had for {older}")
            }
            (false, names, None) => writeln!(io::stdout(), "forgot {}", quoted(names)),
        };
        let Some((at, fault)) = broke else { return print::done(printed) };
        if !forgotten.is_empty() {
            say(&format!("forgot {}, then stopped at {at:?}", quoted(&forgotten)));
        }
        print::done(printed).and(Err(fault))
    })
}

/// What became of each, and where it stopped and why. `forget` says whether the job was still unknown.
async fn one_by_one<'a>(
    names: &[&'a str],
    forget: impl AsyncFn(&str) -> Result<bool, Fault>,
) -> (Vec<Object<'a>>, Option<(&'a str, Fault)>) {
    let (mut objects, mut broke) = (Vec::new(), None);
    for name in names {
        if let Some((at, _)) = &broke {
            objects.push(Object::kept(name, format!("not tried: it stopped at {at:?}")));
            continue;
        }
        objects.push(match forget(name).await {
            Ok(true) => Object::forgotten(name),
            Ok(false) => {
                say(&format!("{name:?} is not unknown any more: it is left as it is"));
                Object::kept(name, "it is not unknown any more")
            }
            Err(fault) => {
                let object = Object::kept(name, fault.in_short());
                broke = Some((*name, fault));
                object
            }
        });
    }
    (objects, broke)
}

fn quoted(names: &[&str]) -> String {
    names.iter().map(|name| format!("{name:?}")).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_done_before_it_failed_is_told() {
        let forget = async |name: &str| match name {
            "bad" => Err(Fault::usage("the store is gone")),
            name => Ok(name != "back"),
        };
        let (objects, broke) =
            crate::runtime::block_on(async { Ok(one_by_one(&["a", "back", "bad", "c"], forget).await) }).unwrap();
        let printed = serde_json::to_string(&objects).unwrap();
        let told =
            r#"[{"job":"a","forgotten":true},{"job":"back","forgotten":false,"why":"it is not unknown any more"},"#;
        let rest = r#"{"job":"bad","forgotten":false,"why":"the store is gone"},{"job":"c","forgotten":false,"why":"not tried: it stopped at \"bad\""}]"#;
        assert_eq!(printed, format!("{told}{rest}"));
        assert_eq!(broke.map(|(at, _)| at), Some("bad"));
    }
}
