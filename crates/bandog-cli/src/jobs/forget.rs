//! `bandog jobs forget`: deletes jobs that no program has any more.

use std::{
    io::{self, Write},
    time::Duration,
};

use bandog::{ErrorKind, schedule::JobRow};
use serde::Serialize;

use super::{
    client::{Common, JobsClient},
    nodes::Nodes,
};
use crate::{
    confirm::confirm,
    console::{escaped, report},
    exit_code::ExitCode,
    fault::Fault,
    print,
};

/// Deletes a job from the store, with its history and its waiting runs; or all jobs that no scheduler has any more.
///
/// Use this command for jobs that no program has any more. Remove the job from the program or the file first: a
/// scheduler that still has the job registers it again at the job's next tick, or after a day, as a new job without a
/// history.
///
/// `--unknown` deletes the jobs that no scheduler has had for the time of `--older`. A scheduler writes a heartbeat for
/// each of its jobs once a day, and `bandog jobs ls` shows which jobs had no heartbeat for two days. Jobs that are
/// paused by name, and jobs with waiting runs, are excluded. No job is ever deleted automatically.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Fields of --json: job, forgotten (true); with --unknown an array of such objects, also if the command fails halfway. \
For a job that was not deleted, forgotten is false, and the field why has the reason.

Exit codes: 0 the job is deleted, or, with --unknown, no job was found; 64 no such job, the job runs now, not \
confirmed, wrong URL; 69 the store does not answer or does not exist; 77 the store refuses the request.

Examples:
  bandog jobs forget old-report
  bandog jobs forget old-report --yes       without a confirmation, as in a script
  bandog jobs forget --unknown              jobs that no scheduler has had for 14 days, after a confirmation")]
pub(super) struct Args {
    /// The job's name.
    #[arg(required_unless_present = "unknown", conflicts_with = "unknown")]
    name: Option<String>,
    /// All jobs that no scheduler has any more.
    #[arg(long)]
    unknown: bool,
    /// Minimum time since the last heartbeat for the job; at least 2d.
    #[arg(long, value_name = "DUR", default_value = "14d", value_parser = humantime::parse_duration, requires = "unknown")]
    older: Duration,
    /// Do not ask for a confirmation.
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    common: Common,
}

/// The result for one job, as JSON.
#[derive(Serialize)]
struct Object<'a> {
    job: &'a str,
    forgotten: bool,
    /// The reason why the job was not deleted. None if the job was deleted.
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<String>,
}

impl<'a> Object<'a> {
    fn forgotten(job: &'a str) -> Self {
        Self { job, forgotten: true, why: None }
    }

    /// The result for a job that was not deleted.
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

/// Deletes the job of this name.
fn one(args: &Args, name: &str) -> Result<ExitCode, Fault> {
    let Args { yes, common, .. } = args;
    JobsClient::with_job(common, name, async |client| {
        let is_enabled = match client.jobs.show(name).await {
            Ok(job) => job.enabled,
            // A record that cannot be parsed can still be deleted.
            Err(error) if error.kind() == ErrorKind::Corrupt => false,
            Err(error) => return Err(client.fault(&error)),
        };
        if !yes {
            let (what, kept) = (format!("{name:?} and its history"), format!("{name:?} is kept"));
            confirm(("forget", "forgets"), &what, &kept, client.store)?;
        }
        client.jobs.forget(name).await.map_err(|error| client.request_fault_for(&error, name))?;
        if Nodes::of(client).await.known().is_some_and(|nodes| !nodes.is_empty()) && is_enabled {
            report(&format!(
                "schedulers run over this store: one that still has {name:?} registers it again at its next tick"
            ));
        }
        print::done(match common.json {
            true => print::json(&Object::forgotten(name)),
            false => writeln!(io::stdout(), "forgot {name:?}"),
        })
    })
}

/// Deletes the jobs that no scheduler has any more.
fn unknown(args: &Args) -> Result<ExitCode, Fault> {
    let Args { older, yes, common, .. } = args;
    JobsClient::with_store(common, async |client| {
        let unknown = client.jobs.unknown(*older).await.map_err(|error| client.fault(&error))?;
        if !unknown.is_empty() && !yes {
            let since = |since: &Option<String>| escaped(since.as_deref().unwrap_or_default());
            let text = |job: &JobRow| format!("{} (unknown since {})", escaped(&job.name), since(&job.unknown_since));
            let names: Vec<String> = unknown.iter().map(text).collect();
            let what = format!("{} with their histories", names.join(", "));
            confirm(("forget", "forgets"), &what, "they are kept", client.store)?;
        }
        // Only the jobs that the operator has confirmed are deleted. A job that becomes unknown after the query is not
        // deleted.
        let names: Vec<&str> = unknown.iter().map(|job| job.name.as_str()).collect();
        let (objects, failure) = one_by_one(&names, async |name| {
            let forgotten = client.jobs.forget_unknown(name, *older).await;
            forgotten.map_err(|error| client.request_fault_for(&error, name))
        })
        .await;
        let forgotten: Vec<&str> = objects.iter().filter(|object| object.forgotten).map(|object| object.job).collect();
        let printed = match (common.json, &forgotten[..], &failure) {
            (true, ..) => print::json(&objects),
            (false, _, Some(_)) => Ok(()),
            (false, [], None) => {
                let older = humantime::format_duration(*older);
                writeln!(io::stdout(), "no job has been unknown for {older}")
            }
            (false, names, None) => writeln!(io::stdout(), "forgot {}", quoted(names)),
        };
        let Some((at, fault)) = failure else { return print::done(printed) };
        if !forgotten.is_empty() {
            report(&format!("forgot {}, then stopped at {at:?}", quoted(&forgotten)));
        }
        print::done(printed).and(Err(fault))
    })
}

/// Calls `forget` for one job after another, until a call fails. Returns the result for each job. After a failure, also
/// returns the name of the failed job and the error. `forget` returns false if a scheduler has the job again. Then the
/// job was not deleted.
async fn one_by_one<'a>(
    names: &[&'a str],
    forget: impl AsyncFn(&str) -> Result<bool, Fault>,
) -> (Vec<Object<'a>>, Option<(&'a str, Fault)>) {
    let (mut objects, mut failure) = (Vec::new(), None);
    for name in names {
        if let Some((at, _)) = &failure {
            objects.push(Object::kept(name, format!("not tried: the command stopped at {at:?}")));
            continue;
        }
        objects.push(match forget(name).await {
            Ok(true) => Object::forgotten(name),
            Ok(false) => {
                report(&format!("{name:?} is not unknown any more: it is not changed"));
                Object::kept(name, "it is not unknown any more")
            }
            Err(fault) => {
                let object = Object::kept(name, fault.in_short());
                failure = Some((*name, fault));
                object
            }
        });
    }
    (objects, failure)
}

fn quoted(names: &[&str]) -> String {
    names.iter().map(|name| format!("{name:?}")).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_before_a_failure_are_reported() {
        let forget = async |name: &str| match name {
            "bad" => Err(Fault::usage("the store is gone")),
            name => Ok(name != "back"),
        };
        let (objects, failure) =
            crate::runtime::block_on(async { Ok(one_by_one(&["a", "back", "bad", "c"], forget).await) }).unwrap();
        let printed = serde_json::to_string(&objects).unwrap();
        let first =
            r#"[{"job":"a","forgotten":true},{"job":"back","forgotten":false,"why":"it is not unknown any more"},"#;
        let rest = r#"{"job":"bad","forgotten":false,"why":"the store is gone"},{"job":"c","forgotten":false,"why":"not tried: the command stopped at \"bad\""}]"#;
        assert_eq!(printed, format!("{first}{rest}"));
        assert_eq!(failure.map(|(at, _)| at), Some("bad"));
    }
}
