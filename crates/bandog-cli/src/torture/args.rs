//! The options of `bandog torture`.

use std::time::Duration;

use super::{
    family::Family,
    kills::{self, Kill},
};
use crate::{durations, print::Format, store};

/// Tests whether your store loses locks: makes traffic on locks of its own, while you make the store fail.
///
/// Start this command, and then restart the server, fail it over, cut its network or stop its machine, as it may happen
/// to you. At the end the command says what that did to the locks: how many were lost, whether each holder was notified
/// before another client got the lock, whether fences repeated, and for how long no lock was granted.
///
/// The command uses only names that begin with its own prefix, and removes them at the end. It hurts nothing itself,
/// unless --kill says so.
///
/// Each worker is a client with its own connections. Half of the workers hold a lock for some milliseconds: they show
/// how long locks are not available. The other half hold a lock for --hold or half of it: they show which holds are
/// lost. All of them are in one process with one clock. So if two of them hold the same lock at the same time, this is a
/// fact and no estimate.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
How to read the report:
  losses reported       a holder lost its lock, and knew it before another client got it, or no
                        other worker got it before the release failed
  losses not reported   another client got the lock, and the first holder did not know it; only
                        a resource that checks the fence refuses the first holder
  repeated fences       a grant whose fence is not greater than that of an earlier holder
  longest wait          the longest wait for a lock that is held for milliseconds only
  without a grant       the longest time in which no such lock was granted
  workers that hang     they have not ended a minute after the traffic

Exit codes:
    0  nothing was broken; reported losses, and errors, are not broken promises
    1  a loss was not reported, a fence repeated, a worker did not end, or a lock was still
       held at the end
   64  the command line or the URL is wrong, or the store does not have a kind of --kinds
   69  the store does not answer at the start; or at the end, so that names stay behind, which
       are printed
   71  the operating system refused a thread, a file or a signal handler
   75  another program holds a lock whose name begins with --prefix
   77  the store refuses
  128 + N  signal N came before the traffic; or it was the second one, and names stay behind

One INT (Ctrl-C) or TERM ends the traffic early, and the report is printed.

Fields of --json: url, prefix, seconds, workers, kinds, grants, grants_per_second, losses_announced, \
losses_not_announced, repeated_fences, hung_workers, left_behind (names), longest_wait_ms, longest_gap_ms (the longest \
time without a grant) and longest_gap_at_ms (its start), longest_overlap_ms (of two holders), errors (an object: kind \
and number), findings (the first broken promises: at_ms, name, says), broken.

Examples:
  bandog torture --url redis://localhost --for 2m
  bandog torture --url redis+sentinel://s1,s2,s3/orders --kill $(pidof redis-server)@20s
  bandog torture --kill 4711:STOP@10s --kill 4711:CONT@50s --hold 30s
  bandog torture --for 10m --json | jq -e '.broken == false'")]
pub(crate) struct Args {
    #[command(flatten)]
    pub(super) store: store::Args,
    /// Duration of the traffic.
    #[arg(long = "for", value_name = "DUR", value_parser = durations::lease, default_value = "60s")]
    pub(super) duration: Duration,
    /// Number of workers, each with its own connections (4 to 256).
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u16).range(4..=256))]
    pub(super) workers: u16,
    /// Number of names of each kind that are held for milliseconds, and the same number that are held for longer (1 to
    /// 1000). With more names than workers, few workers wait, and losses are not seen.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub(super) names: u16,
    /// The beginning of all names. Two runs at the same time need two prefixes [default: bandog-torture: and a random
    /// part].
    #[arg(long, value_name = "TEXT")]
    pub(super) prefix: Option<String>,
    /// The kinds of locks, separated by commas [default: all kinds that the store has].
    #[arg(long, value_name = "KINDS", value_enum, value_delimiter = ',')]
    pub(super) kinds: Vec<Family>,
    /// Greatest duration of a long hold; each takes between half of this time and all of it. Choose it longer than a
    /// failover takes, so that locks are held during it.
    #[arg(long, value_name = "DUR", value_parser = durations::lease, default_value = "10s")]
    pub(super) hold: Duration,
    /// Take the locks with a fixed lease [default: a watchdog renews them; its ttl is ?watchdog= of the URL].
    #[arg(long, value_name = "DUR", value_parser = durations::lease)]
    pub(super) lease: Option<Duration>,
    /// Send a signal to a process of this machine this time after the start; KILL if there is no SIGNAL. Repeatable.
    #[arg(long, value_name = "PID[:SIGNAL]@TIME", value_parser = kills::parse)]
    pub(super) kill: Vec<Kill>,
    #[command(flatten)]
    pub(super) format: Format,
}
