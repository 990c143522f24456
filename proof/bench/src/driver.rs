//! The driver of the measurements: it measures the sides of a row in turn, keeps their raw figures with the ratios of each
//! round, and adds the middle of all rounds to the table.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::{
    cycles::Engine,
    java::Java,
    report::{Report, Wanted, median},
};

/// Minimum time for which a JVM runs its code before it is measured. Afterwards, it has compiled this code.
const WARM_UP: Duration = Duration::from_secs(2);

/// A row: the sides of bandog, and those beside which they are measured.
///
/// The measurement of a side returns an object of figures. If a side of bandog and the first side beside it have the figure
/// `x`, the ratio of both is the figure `x_ratio`.
pub(crate) struct Row<'a> {
    /// The fields that name the row in the raw figures.
    name: Value,
    /// The figures in the table. Without any, all figures have ratios, and the caller makes the table.
    shown: &'static [&'static str],
    rounds: Option<usize>,
    ours: Vec<Side<'a>>,
    beside: Vec<Side<'a>>,
    wanted: Vec<(&'static str, Vec<Option<Wanted>>)>,
}

/// A name, and a measurement.
type Side<'a> = (String, Box<dyn FnMut() -> Value + 'a>);

impl<'a> Row<'a> {
    pub(crate) fn new(name: Value, shown: &'static [&'static str]) -> Self {
        Self { name, shown, rounds: None, ours: Vec::new(), beside: Vec::new(), wanted: Vec::new() }
    }

    /// A number of rounds that is not that of the report.
    pub(crate) fn rounds(self, rounds: usize) -> Self {
        Self { rounds: Some(rounds), ..self }
    }

    /// A side of bandog.
    pub(crate) fn side(mut self, name: impl Into<String>, measure: impl FnMut() -> Value + 'a) -> Self {
        self.ours.push((name.into(), Box::new(measure)));
        self
    }

    /// A side of bandog for each place of the engine.
    pub(crate) fn engines(self, measure: impl Fn(Engine) -> Value + Copy + 'a) -> Self {
        Engine::ALL.into_iter().fold(self, |row, engine| row.side(engine.name(), move || measure(engine)))
    }

    /// A side that is not bandog. The first one is the reference of the ratios.
    pub(crate) fn beside(mut self, name: impl Into<String>, measure: impl FnMut() -> Value + 'a) -> Self {
        self.beside.push((name.into(), Box::new(measure)));
        self
    }

    /// A library of Java, which is not measured without its folder.
    pub(crate) fn java(self, java: &'a mut Option<Java>, mut measure: impl FnMut(&mut Java) -> Value + 'a) -> Self {
        let Some(java) = java else { return self };
        let start = Instant::now();
        while start.elapsed() < WARM_UP {
            measure(java);
        }
        self.beside(java.name(), move || measure(java))
    }

    /// The limits of a figure, one for each side of bandog.
    pub(crate) fn wanted<const N: usize>(mut self, figure: &'static str, limits: [Option<Wanted>; N]) -> Self {
        self.wanted.push((figure, limits.to_vec()));
        self
    }

    /// Measures all sides in each round.
    pub(crate) fn measure(self, report: &mut Report) -> Measured {
        let (ours, mut sides) = (self.ours.len(), self.ours);
        sides.extend(self.beside);
        let mut rounds: Vec<Vec<Value>> = sides.iter().map(|_| Vec::new()).collect();
        for round in 0..self.rounds.unwrap_or(report.rounds) {
            // Each round begins with another side, so that no side is always measured at the same time of a round.
            for turn in 0..sides.len() {
                let side = (round + turn) % sides.len();
                rounds[side].push(sides[side].1());
            }
            let reference = rounds.get(ours).map(|samples| samples[round].clone());
            for (number, (samples, (side, _))) in rounds.iter_mut().zip(&sides).enumerate() {
                let sample = &mut samples[round];
                reference.iter().for_each(|reference| add_ratios(sample, reference, self.shown));
                let field = if number < ours { "side" } else { "beside" };
                report.raw(with(with(self.name.clone(), &json!({"round": round, field: side})), sample));
            }
        }
        let names: Vec<_> = sides.into_iter().map(|(name, _)| name).collect();
        let measured = Measured(names.iter().cloned().zip(rounds).collect());
        let against = names[ours..].iter().map(|side| format!("{side}: {}", measured.text(side, self.shown)));
        let (title, against) = (title(&self.name), against.collect::<Vec<_>>().join("; "));
        if ours == 0 && !against.is_empty() {
            report.row(&title, String::new(), against.clone(), "");
        }
        for (number, side) in names[..ours].iter().enumerate() {
            let what = format!("{title}, {side}");
            let wanted = self.wanted.iter().filter_map(|(figure, limits)| Some((figure, (*limits.get(number)?)?)));
            let wanted: Vec<_> = wanted.collect();
            if !self.shown.is_empty() {
                let target: Vec<_> =
                    wanted.iter().map(|(figure, limit)| format!("{figure} {}", limit.text())).collect();
                report.row(&what, measured.text(side, self.shown), against.clone(), &target.join(", "));
            }
            for (figure, limit) in wanted {
                report.judge(&format!("{what}: {figure}"), limit, measured.middle(side, figure));
            }
        }
        measured
    }
}

/// The figures of all rounds, by the name of the side.
pub(crate) struct Measured(BTreeMap<String, Vec<Value>>);

impl Measured {
    /// The figures of a side in each round.
    pub(crate) fn rounds(&self, side: &str) -> &[Value] {
        self.0.get(side).map_or(&[], Vec::as_slice)
    }

    /// The median of all rounds, if the figure was measured. Of a figure `most…`, it is the maximum, and of `least…` the
    /// minimum.
    pub(crate) fn middle(&self, side: &str, figure: &str) -> Option<f64> {
        let figures = self.rounds(side).iter().map(|sample| Some(sample.get(figure)?.as_f64().unwrap_or(f64::NAN)));
        let figures: Vec<f64> = figures.collect::<Option<_>>()?;
        match figure.split('_').next() {
            _ if figures.is_empty() => None,
            Some("most") => Some(figures.into_iter().fold(f64::NEG_INFINITY, f64::max)),
            Some("least") => Some(figures.into_iter().fold(f64::INFINITY, f64::min)),
            _ => Some(median(figures)),
        }
    }

    fn text(&self, side: &str, figures: &[&str]) -> String {
        let texts = figures.iter().filter_map(|figure| {
            let ratio = self.middle(side, &format!("{figure}_ratio")).filter(|ratio| *ratio != 1.0);
            let ratio = ratio.map(|ratio| format!(" (×{})", number(ratio))).unwrap_or_default();
            Some(format!("{} {}{ratio}", words(figure), number(self.middle(side, figure)?)))
        });
        texts.collect::<Vec<_>>().join(", ")
    }
}

/// The fields that name a row, as a text.
fn title(name: &Value) -> String {
    let mut parts = vec![name["what"].as_str().unwrap_or_default().to_owned()];
    for (field, value) in name.as_object().into_iter().flatten().filter(|(field, _)| *field != "what") {
        parts.push(value.as_str().map_or_else(|| format!("{} {value}", words(field)), str::to_owned));
    }
    parts.join(", ")
}

/// The object with the fields of another one.
pub(crate) fn with(mut object: Value, more: &Value) -> Value {
    for (field, value) in more.as_object().into_iter().flatten() {
        object[field] = value.clone();
    }
    object
}

/// Adds the ratios of these figures to those of the reference, unless they are zero.
fn add_ratios(sample: &mut Value, reference: &Value, figures: &[&str]) {
    for (figure, other) in reference.as_object().into_iter().flatten() {
        let (Some(ours), Some(other)) = (sample[figure].as_f64(), other.as_f64()) else { continue };
        if other != 0.0 && (figures.is_empty() || figures.contains(&figure.as_str())) {
            sample[format!("{figure}_ratio")] = json!(ours / other);
        }
    }
}

fn words(field: &str) -> String {
    field.replace('_', " ")
}

fn number(figure: f64) -> String {
    let digits = match figure {
        _ if figure >= 100.0 || figure == 0.0 => 0,
        _ if figure >= 0.1 => 2,
        _ => 4,
    };
    format!("{figure:.digits$}")
}
