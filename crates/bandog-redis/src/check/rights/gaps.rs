//! The findings about missing rights: one for each feature that lacks rights, the most important one first.

use bandog_core::{Finding, Level};

use super::probe::{DryRunResult, Purpose, RightsProbe, SCRIPT_COMMANDS};
use crate::names;

/// Collects the findings. A right that several features lack is reported once, for the most important feature.
struct Gaps<'a> {
    user: &'a str,
    answers: &'a [(RightsProbe, DryRunResult)],
    /// The words of the rules that the findings name.
    named: Vec<String>,
    findings: Vec<Finding>,
}

/// The findings for these answers. Their cures together give the user all rights that the server could check.
pub(super) fn findings(user: &str, answers: &[(RightsProbe, DryRunResult)]) -> Vec<Finding> {
    let mut gaps = Gaps { user, answers, named: Vec::new(), findings: Vec::new() };
    gaps.locks();
    gaps.replicas();
    gaps.notifications();
    gaps.commands(Purpose::MovingSlots, ", so steps for locks of a slot that is being moved may be refused");
    gaps.names();
    gaps.names_of_offers();
    let no_waits = ", so operators see what a client holds, but not what it waits for";
    gaps.commands(Purpose::Index, no_waits);
    gaps.commands(Purpose::OtherKinds, ", which fair mutexes, read-write locks and semaphores need");
    gaps.names_of_other_kinds();
    gaps.commands(Purpose::Inspection, ", which show, ls and release --force need");
    gaps.commands(Purpose::Records, ", which schedules need");
    gaps.commands(Purpose::Latches, ", which latches need");
    gaps.names_of_latches();
    if gaps.findings.is_empty() {
        let says = format!("the user {user:?} may run all commands that locks, schedules and latches need");
        gaps.findings.push(Finding::fine("rights", says));
    }
    let (may, effect) = match gaps.denied(Purpose::Elements).is_empty() {
        true => ("may", "are notified"),
        false => ("may not", "poll four times a second"),
    };
    let says = format!(
        "the user {user:?} {may} run CLIENT TRACKING, so programs that wait for an element of a queue {effect}"
    );
    gaps.findings.push(Finding::fine("tracking", says));
    gaps.findings
}

impl Gaps<'_> {
    /// The commands that every lock needs, and one of the two commands for scripts.
    fn locks(&mut self) {
        let mut denied = self.denied(Purpose::Locks);
        if self.denied(Purpose::Scripts).len() == SCRIPT_COMMANDS {
            denied.insert(0, "EVALSHA".into());
        }
        let says = format!("may not run {}, which every lock needs", denied.join(", "));
        self.add(Level::Danger, &says, rules(&denied));
    }

    /// The commands and the key that a grant needs with `replicas=`.
    fn replicas(&mut self) {
        let is_missing = |(probe, right): &&(RightsProbe, DryRunResult)| match right {
            DryRunResult::Granted => false,
            DryRunResult::NoCommand => !self.is_named(&rule(&probe.name())),
            DryRunResult::NoName => true,
        };
        let refused: Vec<_> = self.probes(Purpose::Replicas).filter(is_missing).collect();
        let refused: Vec<_> =
            refused.into_iter().map(|(probe, _)| probe.command.join(" ").trim_end().to_owned()).collect();
        let words = [rules(&self.denied(Purpose::Replicas)), self.out_of_reach(|purpose| purpose == Purpose::Replicas)];
        let says = format!("may not run {}, which every lock needs with replicas= in the URL", refused.join(" and "));
        self.add(Level::Danger, &says, words.concat());
    }

    /// The commands for channels. The server does not check the channel of a command that the user may not run.
    fn notifications(&mut self) {
        let before = self.findings.len();
        self.commands(Purpose::Subscriptions, ", so waiters poll every second");
        if let Some(Finding { cure: Some(cure), .. }) = self.findings.get_mut(before) {
            *cure += "; then run `bandog doctor` again, because only now the server can check the channels";
        }
    }

    /// The commands of this purpose that are refused. `effect` follows their names in the finding.
    fn commands(&mut self, purpose: Purpose, effect: &str) {
        let mut denied = self.denied(purpose);
        denied.retain(|name| !self.is_named(&rule(name)));
        self.add(Level::Advice, &format!("may not run {}{effect}", denied.join(", ")), rules(&denied));
    }

    /// The keys and channels that mutexes, queries and records need.
    fn names(&mut self) {
        let others = [Purpose::Replicas, Purpose::Offers, Purpose::OtherKinds, Purpose::Latches, Purpose::Elements];
        let counts = |purpose| !others.contains(&purpose);
        let Some(example) = self.first_out_of_reach(counts) else { return };
        let says = format!(
            "may not use all keys and channels: {example} is refused, and so are all locks and schedules whose keys or \
             channels this user may not use"
        );
        self.add(Level::Advice, &says, self.out_of_reach(counts));
    }

    fn names_of_offers(&mut self) {
        let says = format!(
            "may not use the keys {}*, so a client that waits beside several busy clients may wait for a very long time",
            names::STARVING
        );
        self.add(Level::Advice, &says, self.out_of_reach(|purpose| purpose == Purpose::Offers));
    }

    fn names_of_other_kinds(&mut self) {
        let counts = |purpose| purpose == Purpose::OtherKinds;
        let Some(example) = self.first_out_of_reach(counts) else { return };
        let says = format!(
            "may not use all keys and channels of the other kinds: {example} is refused, which fair mutexes, read-write \
             locks or semaphores need"
        );
        self.add(Level::Advice, &says, self.out_of_reach(counts));
    }

    fn names_of_latches(&mut self) {
        let says = format!(
            "may not use the keys {}* and the channels {}*, which latches need; locks and schedules do not need them",
            names::OPERATIONS,
            names::LATCH_CHANNEL
        );
        self.add(Level::Advice, &says, self.out_of_reach(|purpose| purpose == Purpose::Latches));
    }

    /// Adds the finding that the user lacks these rights, unless other findings name all of them already. `words`: the
    /// words of the rules that give the rights.
    fn add(&mut self, level: Level, says: &str, words: Vec<String>) {
        let mut missing: Vec<String> = Vec::new();
        for word in words {
            if !self.is_named(&word) && !missing.contains(&word) {
                missing.push(word);
            }
        }
        // A word for all keys makes the others superfluous.
        if missing.iter().any(|word| word == ALL_KEYS) {
            missing.retain(|word| word == ALL_KEYS || !word.starts_with('~'));
        }
        if missing.is_empty() {
            return;
        }
        let quoted: Vec<_> = missing.iter().map(|word| quoted(word)).collect();
        let mut cure = format!("ACL SETUSER {} {}", self.user, quoted.join(" "));
        if missing.iter().any(|word| word == ALL_KEYS) {
            cure += "; or, if the user has only names with a prefix, write ?prefix= in the URL (docs/redis.md has the rights)";
        }
        self.named.extend(missing);
        let says = format!("the user {:?} {says}", self.user);
        self.findings.push(Finding { level, subject: "rights".into(), says, cure: Some(cure) });
    }

    /// Whether a finding names a right that contains this one.
    fn is_named(&self, word: &str) -> bool {
        self.named.iter().any(|named| named == word || named == ALL_KEYS && word.starts_with('~'))
    }

    fn probes(&self, purpose: Purpose) -> impl Iterator<Item = &(RightsProbe, DryRunResult)> {
        self.answers.iter().filter(move |(probe, _)| probe.purpose == purpose)
    }

    /// The names of the commands of this purpose that the user may not run.
    fn denied(&self, purpose: Purpose) -> Vec<String> {
        let mut names = Vec::new();
        for (probe, _) in self.probes(purpose).filter(|(_, right)| *right == DryRunResult::NoCommand) {
            let name = probe.name();
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names
    }

    /// The words for the keys and channels that the commands of these purposes need and the user may not use. The server
    /// does not check the key of a command that the user may not run. So if there are such words, the keys of these
    /// commands are added, because the user probably lacks them, too.
    fn out_of_reach(&self, counts: impl Fn(Purpose) -> bool) -> Vec<String> {
        let words = |expected: DryRunResult| {
            let answers = self.answers.iter().filter(|(probe, _)| counts(probe.purpose));
            let answers = answers.filter(move |(_, right)| *right == expected);
            answers.flat_map(|(probe, _)| probe.patterns()).collect::<Vec<_>>()
        };
        let mut missing = words(DryRunResult::NoName);
        if !missing.is_empty() {
            let granted = words(DryRunResult::Granted);
            missing.extend(words(DryRunResult::NoCommand).into_iter().filter(|word| !granted.contains(word)));
        }
        missing
    }

    /// The first command of these purposes whose key or channel is refused.
    fn first_out_of_reach(&self, counts: impl Fn(Purpose) -> bool) -> Option<String> {
        let refused =
            |(probe, right): &&(RightsProbe, DryRunResult)| counts(probe.purpose) && *right == DryRunResult::NoName;
        self.answers.iter().find(refused).map(|(probe, _)| probe.command.join(" "))
    }
}

/// The word of a rule that allows all keys.
const ALL_KEYS: &str = "~*";

/// The word of a rule that allows this command.
fn rule(name: &str) -> String {
    format!("+{}", name.to_lowercase())
}

fn rules(names: &[String]) -> Vec<String> {
    names.iter().map(|name| rule(name)).collect()
}

/// The word in the quotes that a shell needs.
fn quoted(word: &str) -> String {
    let is_plain = word.chars().all(|sign| sign.is_ascii_alphanumeric() || "+~:_-|".contains(sign));
    if is_plain { word.to_owned() } else { format!("'{word}'") }
}
